//! Integration tests of packscope, all in one binary.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on fails by panicking"
)]

mod animations;
mod auto;
mod bad_input;
mod beside;
mod built_in_devices;
mod calibrated;
mod capture_file;
mod cli;
mod common;
mod devices;
mod digests;
mod error_bound;
mod experiments;
mod forests;
mod forms;
mod golden;
mod gpu;
mod gpu_ends;
#[cfg(target_os = "linux")]
mod gpu_faults;
mod gpu_hybrid;
mod hybrid;
mod imports;
#[cfg(target_os = "linux")]
mod interrupted;
mod least_traffic;
mod metamorphic;
mod numbering;
mod outputs;
mod perfetto;
mod perfetto_wire;
mod pictures;
mod plans;
mod prices;
mod program;
mod published;
mod record;
mod replays;
mod runs;
mod samples;
mod schedulers;
mod shown;
mod simulated_memory;
mod simulation;
mod soak;
#[cfg(unix)]
mod subtrees;
mod sweeps;
mod traces;
mod window;
mod window_compare;
mod window_damage;
mod window_decisions;
mod window_drawing;
mod window_figures;
mod window_gpu;
mod window_history;
mod window_images;
mod window_kept;
mod window_kills;
mod window_looks;
mod window_open;
mod window_playback;
mod window_session;
mod window_shell;
mod window_steps;
mod window_sweep;
mod window_timeline;
mod written;
