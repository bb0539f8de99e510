//! What is to be computed: attention shape, requests, paged block tables, prefix tree, and the
//! forms in which a person gives them.
//!
//! ```text
//! RON file ───┐
//! --tree ─────┤
//! --decode ───┼─► BatchSpec (nested nodes, editable) ─► Batch (block tables, checked) ─► PrefixTree
//! --prefill ──┤
//! crate::import
//! ```

mod batch;
mod build;
mod change;
mod form;
mod live;
mod model;
mod pod;
mod random;
mod random_forest;
mod ron_text;
mod scene;
mod shape;
mod spec;
mod tree;
mod tree_build;

pub use batch::{Batch, BlockTables, Limits, Request, RequestKind};
pub use change::{Change, Extent};
pub use form::{parse_decode, parse_heads, parse_prefill, parse_tree, parse_window};
pub use live::LiveBatch;
pub use model::{Experts, Model};
pub use pod::{
    PodRow, figure_6 as pod_figure_6, figure_11 as pod_figure_11, figure_13 as pod_figure_13,
    figure_14 as pod_figure_14, table_8 as pod_table_8,
};
pub use random::{random_hybrid, random_order, random_window};
pub use random_forest::random_forest;
pub(crate) use ron_text::read as ron_text_of;
pub use ron_text::ron_error;
pub use scene::{Claim, ClaimedWay, Figure, Scene};
pub use shape::{AttentionShape, Dtype, PartialForm};
pub use spec::{BatchSpec, NodeSpec, RequestSpec, SCHEMA};
pub use tree::{Node, PrefixTree};
