//! What a person can ask of the window, on its way to the logic pass.

use std::path::PathBuf;

use engine::capture::L2State;
use engine::pack::Forced;
use engine::plan::Strategy;
use engine::plan::hybrid::PodChoice;
use engine::tile::Tile;
use engine::units::NodeIdx;
use engine::workload::BatchSpec;

use crate::window::commands::table::Action;
use crate::window::panel::{Panel, Part};
use crate::window::selection::Selection;

/// A command on its way to the logic pass.
#[derive(Clone, Debug)]
pub enum Command {
    /// One of the table.
    Act(Action),
    /// The batch is now this.
    Edit(Box<BatchSpec>),
    /// The batch as a stroke left it.
    Draw {
        /// The batch.
        spec: Box<BatchSpec>,
        /// What the stroke is called.
        name: String,
        /// The node that is in the hand then.
        node: Option<NodeIdx>,
    },
    /// Another scheduler.
    Scheduler(String),
    /// Another scheduler and strategy at once, as a row of the comparison has them.
    Adopt {
        /// Name of the scheduler.
        scheduler: String,
        /// The strategy.
        strategy: Strategy,
    },
    /// Another strategy.
    Strategy(Strategy),
    /// Take a way of POD's kernel.
    Pod(PodChoice),
    /// Another device, by key.
    Device(String),
    /// One tile for all, or the rule.
    Tile(Option<Tile>),
    /// Constant of `pat`'s rule.
    SplitConstant(f64),
    /// Take a choice against its rule.
    Force(Forced),
    /// Leave all choices to the rules.
    Unforce,
    /// Select.
    Select(Selection),
    /// Select, and go there in the timeline.
    Reveal(Selection),
    /// Hovered in this frame.
    Hover(Selection),
    /// Open a file.
    OpenPath(PathBuf),
    /// Save the batch to a file.
    SavePath(PathBuf),
    /// Write the timeline as a picture.
    SavePicture(PathBuf),
    /// Open a sample by key.
    Sample(&'static str),
    /// Compare all ways.
    Compare,
    /// Compare all ways, unless this batch was compared or the comparing was cancelled.
    CompareOnce,
    /// Repeats of a run on the GPU.
    Repeats(u32),
    /// State of L2 at the start of a run, simulated or measured.
    L2(L2State),
    /// Take the banner of a failed run on the GPU away.
    DropProblem,
    /// Bring a panel to the front.
    Show(Panel),
    /// Draw a part of the window again that failed.
    Retry(Part),
}
