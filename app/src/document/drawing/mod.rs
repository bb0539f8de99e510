//! Drawing a batch: what a hand does on the canvas, as pure functions from one batch to the next.
//!
//! ```text
//! pointer, key or number ──► Stroke ──draw──► Drawn { batch, what is picked then, what was snapped }
//!                                        └──► why not, for the place of the pointer
//! ```
//!
//! A stroke acts on a node with all its copies, since they are one node of the batch file; [`Stroke::Part`] gives one
//! copy a node of its own.

mod blocks;
mod chunks;
mod drawn;
mod nodes;
mod number;
mod path;
mod stroke;
#[cfg(test)]
mod tests;

pub use blocks::nodes_of_blocks;
pub use drawn::Drawn;
pub use nodes::{block, whole};
pub use number::{Numbered, Numbers, is_one_with_child};
pub use path::{Path, Pick};
pub use stroke::{Stroke, draw};
