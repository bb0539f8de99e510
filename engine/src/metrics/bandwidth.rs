//! Bandwidth.
use crate::capture::Capture;
use crate::metrics::Traffic;
/// To come.
#[derive(Clone, Debug, PartialEq)]
pub struct Bandwidth;
/// To come.
pub fn bandwidth(_traffic: &Traffic, _capture: &Capture) -> Bandwidth {
    Bandwidth
}
