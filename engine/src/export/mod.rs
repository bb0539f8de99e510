//! What leaves packscope: the objects of `--json` and other people's formats.

mod csv;
mod json;
mod perfetto;

pub use csv::csv_tables;
pub use json::{
    BandwidthJson, BatchJson, BubbleJson, CheckJson, CompareJson, ConstantJson, DecisionJson, HybridJson,
    LaunchCountsJson, MeasuredJson, PlanJson, PrefillJson, RunJson, SCHEMA, SeriesJson, TileJson, TrafficJson, WayJson,
    compare_json, decisions_json, plan_json, run_json,
};
pub use perfetto::write_perfetto;
