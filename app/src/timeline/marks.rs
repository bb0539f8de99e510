//! Times that a person has marked, each with a name.

use serde::{Deserialize, Serialize};

/// A marked time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mark {
    /// Nanoseconds from the start of the run.
    pub at: f64,
    /// What stands there.
    pub name: String,
}

/// All marks by time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Marks(Vec<Mark>);

impl Marks {
    /// Marks a time, or takes the mark of the same name away that is there.
    pub fn toggle(&mut self, at: f64, name: &str) {
        let before = self.0.len();
        self.0.retain(|mark| (mark.at - at).abs() >= 0.5 || mark.name != name);
        if self.0.len() == before {
            let place = self.0.partition_point(|mark| mark.at <= at);
            self.0.insert(place, Mark { at, name: name.to_owned() });
        }
    }

    /// The marks by time.
    pub fn all(&self) -> &[Mark] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_put_in_order_and_taken_away_by_marking_again() {
        let mut marks = Marks::default();
        for (at, name) in [(30.0, "b"), (10.0, "a"), (30.0, "c"), (30.0, "b")] {
            marks.toggle(at, name);
        }
        let names: Vec<&str> = marks.all().iter().map(|mark| mark.name.as_str()).collect();
        assert_eq!(names, ["a", "c"]);
    }
}
