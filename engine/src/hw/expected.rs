//! How far off a simulated figure may be expected to be.

use serde::{Deserialize, Serialize};

/// How far the simulator's makespans are from measured ones of the same device: relative errors over runs of random
/// decode batches that its constants were not fitted to, as `packscope calibrate` holds some back.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectedError {
    /// How many runs there were.
    pub runs: u64,
    /// Half of them were nearer.
    pub median: f64,
    /// Nine of ten of them were nearer.
    pub nine_of_ten: f64,
    /// The farthest.
    pub worst: f64,
}

impl ExpectedError {
    /// Whether they are errors, each at least the one before.
    pub fn holds(&self) -> bool {
        let order = 0.0 <= self.median && self.median <= self.nine_of_ten && self.nine_of_ten <= self.worst;
        self.runs > 0 && order && self.worst.is_finite()
    }

    /// `half within 3.8 %, nine of ten within 10.3 %, the worst 36.0 % off (688 runs that were not fitted to)`.
    pub fn words(&self) -> String {
        let [median, nine, worst] = [self.median, self.nine_of_ten, self.worst].map(|error| 100.0 * error);
        let runs = if self.runs == 1 { "run" } else { "runs" };
        format!(
            "half within {median:.1} %, nine of ten within {nine:.1} %, the worst {worst:.1} % off ({} {runs} that were not fitted to)",
            self.runs
        )
    }

    /// `simulated times beside measured ones: ` and the words.
    pub fn sentence(&self) -> String {
        format!("simulated times beside measured ones: {}", self.words())
    }

    /// `nine of ten within 10 % of measured`.
    pub fn short(&self) -> String {
        format!("nine of ten within {:.0} % of measured", 100.0 * self.nine_of_ten)
    }
}
