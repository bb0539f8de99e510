//! What a frame costs: from its input to its output, and the tessellation of that.

use std::time::{Duration, Instant};

use egui::{Context, FullOutput, RawInput};

/// Times each pass of egui.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    begun: Option<Instant>,
    /// Our CPU time of the frame before: logic, panels, tessellation.
    pub(crate) last: Duration,
    /// Frames so far.
    pub(crate) frames: u64,
}

impl egui::Plugin for Watch {
    fn debug_name(&self) -> &'static str {
        "watch"
    }

    fn input_hook(&mut self, _: &Context, _: &mut RawInput) {
        self.begun = Some(Instant::now());
    }

    fn output_hook(&mut self, ctx: &Context, output: &mut FullOutput) {
        let drawn = self.begun.take().map(|begun| begun.elapsed()).unwrap_or_default();
        // eframe tessellates after the pass, out of our sight: here the same is done once more, and thrown away.
        let shapes = output.shapes.clone();
        let begun = Instant::now();
        let primitives = ctx.tessellate(shapes, output.pixels_per_point);
        self.last = drawn + begun.elapsed();
        drop(primitives);
        self.frames += 1;
    }
}
