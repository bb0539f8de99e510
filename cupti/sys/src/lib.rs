//! Raw bindings to NVIDIA CUPTI 12.6 and later, loaded at run time.
//!
//! * [`Api`] is the table of the functions in use, one field a function. It is filled from the
//!   library by [`load()`], or by hand in tests that need no GPU.
//! * [`Params`] gives the blocks that most functions take their size, as the headers define it.
//! * [`Places`] is the documented order in which the library is looked for.
//!
//! The declarations are generated (`generate.sh`) and state the size and the offsets of every
//! struct, which the compiler checks; `tests/headers.rs` checks the same numbers against the C
//! headers where a folder with them is given. Nothing here is safe to call without CUPTI's own
//! documentation at hand: the package `cupti` is the safe side.

mod load;
mod params;
mod places;

#[allow(
    missing_debug_implementations,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    clippy::undocumented_unsafe_blocks
)]
mod bindings;

pub use bindings::*;
pub use load::{LoadError, Loaded, load};
pub use params::Params;
pub use places::{LIBRARY_VARIABLE, Places};
