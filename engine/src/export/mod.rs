//! What leaves packscope: the objects of `--json` and other people's formats.

mod csv;
mod halves;
mod json;
mod perfetto;
mod run_json;

pub use csv::csv_tables;
pub use halves::CoRunJson;
pub use json::{
    BatchJson, ConstantJson, DecisionJson, HybridJson, PlanJson, PrefillJson, SCHEMA, TileJson, TrafficJson, WayJson,
    decisions_json, plan_json,
};
pub use perfetto::write_perfetto;
pub use run_json::{
    BandwidthJson, BubbleJson, CheckJson, CompareJson, LaunchCountsJson, MeasuredJson, PauseGroupJson, PausesJson,
    RunJson, SeriesJson, compare_json, pauses_json, run_json,
};
