//! Exit codes.

/// The work itself failed.
pub(crate) const FAILED: u8 = 1;
/// Wrong usage or bad input.
pub(crate) const BAD_INPUT: u8 = 2;
/// The asked hardware is not there.
pub(crate) const NO_HARDWARE: u8 = 3;
