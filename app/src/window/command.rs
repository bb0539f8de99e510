//! What a person can ask of the window, on its way to the logic pass.

use std::path::PathBuf;

use engine::capture::L2State;
use engine::pack::Forced;
use engine::plan::Strategy;
use engine::plan::hybrid::PodChoice;
use engine::tile::Tile;
use engine::units::NodeIdx;
use engine::workload::BatchSpec;

use crate::picture::look::Look;
use crate::runs::replay::{Asked, At};
use crate::window::commands::table::Action;
use crate::window::panel::{Panel, Part};
use crate::window::selection::Selection;

/// Where a picture goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A file, in the form that its name ends in.
    File(PathBuf),
    /// The clipboard, as pixels.
    Clipboard,
}

/// What the run is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A capture of ours.
    Capture,
    /// A trace for Perfetto.
    Perfetto,
    /// A folder of tables.
    Csv,
    /// The figures, as `run --json` has them.
    Json,
}

/// A line across the window that says what went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Banner {
    /// Of the last step that failed.
    Problem,
    /// Of the last run on the GPU.
    Gpu,
    /// Of what the file of the capture had lost.
    Damage,
}

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
    /// The scheduler that is expected to take the least time.
    AutoScheduler,
    /// Another scheduler and strategy at once, and maybe another device, as a row of the comparison has them.
    Adopt {
        /// Name of the scheduler.
        scheduler: String,
        /// The strategy.
        strategy: Strategy,
        /// Key of the device, where it is another.
        device: Option<String>,
    },
    /// A capture as a row of the comparison.
    AddRow(PathBuf),
    /// The chosen way on another device as a row of the comparison, by the device's key; or no longer.
    RowOfDevice(String),
    /// A capture is a row no longer.
    DropRow(PathBuf),
    /// Another strategy.
    Strategy(Strategy),
    /// The strategy that is expected to take the least time.
    AutoStrategy,
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
    /// Unfold an SM, and go there in the timeline.
    RevealSm(u32),
    /// Hovered in this frame.
    Hover(Selection),
    /// Open a file.
    OpenPath(PathBuf),
    /// Save the batch to a file.
    SavePath(PathBuf),
    /// Make a picture of a view.
    Picture {
        /// The view.
        panel: Panel,
        /// Only the time that is in sight, where the view has one.
        visible: bool,
        /// Light or dark, and how wide.
        look: Look,
        /// Where it goes.
        to: Target,
    },
    /// Write the run that is shown in a format.
    Export(Format, PathBuf),
    /// Open a sample by key.
    Sample(&'static str),
    /// Compare all ways.
    Compare,
    /// Compare all ways, unless this batch was compared or the comparing was cancelled.
    CompareOnce,
    /// Serve a trace under several ways.
    Replay(Box<Asked>),
    /// Open a step of the replay as a batch.
    OpenStep(At),
    /// Open the batch of a row of the sweep, under the way of that row.
    OpenPoint(usize),
    /// Give up the replay that goes on.
    StopStudy,
    /// Put the link to the moment of playback on the clipboard; with a path, of the run saved there.
    CopyLink(Option<PathBuf>),
    /// Write the moment of playback as a picture.
    SaveMoment(PathBuf),
    /// Repeats of a run on the GPU.
    Repeats(u32),
    /// State of L2 at the start of a run, simulated or measured.
    L2(L2State),
    /// Take a banner away.
    Dismiss(Banner),
    /// The log was looked at.
    ReadLog,
    /// Bring a panel to the front.
    Show(Panel),
    /// Draw a part of the window again that failed.
    Retry(Part),
}
