//! What leaves packscope: the objects of `--json` and other people's formats.

mod csv;
mod json;

pub use csv::csv_tables;
pub use json::{
    BandwidthJson, BatchJson, BubbleJson, CheckJson, CompareJson, LaunchCountsJson, MeasuredJson, PlanJson, RunJson,
    SCHEMA, SeriesJson, TileJson, TrafficJson, compare_json, plan_json, run_json,
};
