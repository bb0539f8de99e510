//! The bars of the workbench, measured in the real window: `cargo run --release -p packscope-tests --bin bars`, on a
//! display or under Xvfb with software rendering.
//!
//! ```text
//! script (a thread) ──ask──► window (eframe, egui's main thread): input of the frame ─► logic ─► panels ─► painter
//!        ▲                     │
//!        └──────answer─────────┘  when the frame that shows what came of it is on the screen
//! ```
//!
//! | what | bar |
//! |---|---|
//! | an edit of 1,024 requests, from its key to the new run on the screen | < 100 ms, under each strategy |
//! | the same of 10,000 requests | < 400 ms |
//! | a frame of 1 M slices, any view: our CPU, tessellation included | ≤ 8 ms |
//! | a frame of 10 M slices | ≤ 16 ms |
//! | a frame of zooming or panning, of either | ≤ 16 ms |
//! | 10 M slices opened | < 3 s |
//! | their memory | < 100 B a slice |
//! | a picture of a drag on the tree of 1,024 requests | ≤ 100 ms |
//! | a frame of playback | ≤ 16 ms |
//! | a window that nobody touches | no frame, no CPU |

mod captures;
mod driver;
mod report;
mod script;
mod watch;

use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use crossbeam_channel::bounded;

/// Counts what is held, for the memory of a capture.
#[global_allocator]
static HEAP: peak_alloc::PeakAlloc = peak_alloc::PeakAlloc;

fn main() -> anyhow::Result<ExitCode> {
    let (asks, inbox) = bounded(1);
    let (outbox, answers) = bounded(1);
    let mut window = Some((inbox, outbox));
    let script = std::thread::Builder::new().name("script".to_owned());
    let script = script.spawn(move || script::run(&script::Window::new(asks, answers)?))?;
    let options = eframe::NativeOptions {
        viewport: egui::ViewportBuilder::default().with_title("packscope bars").with_inner_size([1600.0, 1000.0]),
        // A frame is done when it is painted, not when the display has taken it.
        glow_options: eframe::egui_glow::GlowConfiguration { vsync: false, ..Default::default() },
        dithering: false,
        ..eframe::NativeOptions::default()
    };
    let make = move |creation: &eframe::CreationContext<'_>| {
        let (inbox, outbox) = window.take().ok_or("the window was made twice")?;
        Ok(Box::new(driver::Driver::new(&creation.egui_ctx, inbox, outbox)?) as Box<dyn eframe::App>)
    };
    eframe::run_native("packscope bars", options, Box::new(make)).map_err(|error| anyhow!("{error}"))?;
    let report = script.join().map_err(|_| anyhow!("the script panicked"))?.context("measuring")?;
    print!("{report}");
    Ok(if report.holds() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
