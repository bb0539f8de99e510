//! Where one looked before and after: a history of looks, one entry for each place at which the view came to rest.

/// Seconds without a change after which a look is one to come back to. Notches of a wheel come closer than that.
const RESTS: f64 = 0.7;
/// Looks that are kept.
const MOST: usize = 100;

/// Looks of any kind that can be compared.
#[derive(Clone, Debug)]
pub struct Looks<T> {
    before: Vec<T>,
    after: Vec<T>,
    now: Option<T>,
    changed: f64,
}

impl<T> Default for Looks<T> {
    fn default() -> Self {
        Self { before: Vec::new(), after: Vec::new(), now: None, changed: f64::NEG_INFINITY }
    }
}

impl<T: Clone + PartialEq> Looks<T> {
    /// Sees what is looked at, at a time in seconds.
    pub fn see(&mut self, look: &T, time: f64) {
        if self.now.as_ref() == Some(look) {
            return;
        }
        let rested = time - self.changed > RESTS;
        if let Some(before) = self.now.replace(look.clone()).filter(|_| rested) {
            self.before.push(before);
            self.after.clear();
            let over = self.before.len().saturating_sub(MOST);
            self.before.drain(..over);
        }
        self.changed = time;
    }

    /// The look before, or after, the one that is seen now.
    pub fn travel(&mut self, back: bool) -> Option<T> {
        let (from, to) = if back { (&mut self.before, &mut self.after) } else { (&mut self.after, &mut self.before) };
        let look = from.pop()?;
        to.extend(self.now.replace(look.clone()));
        // What comes next is a step of its own.
        self.changed = f64::NEG_INFINITY;
        Some(look)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_goes_back_to_where_the_view_came_to_rest_and_on_again() {
        let mut looks = Looks::default();
        // A zoom by the wheel in many notches, a rest, and another one.
        for (look, time) in [(0, 0.0), (1, 5.0), (2, 5.1), (3, 5.2), (4, 9.0), (4, 9.1), (5, 9.2)] {
            looks.see(&look, time);
        }
        assert_eq!(looks.travel(true), Some(3));
        looks.see(&3, 12.0);
        assert_eq!((looks.travel(true), looks.travel(true)), (Some(0), None));
        assert_eq!((looks.travel(false), looks.travel(false), looks.travel(false)), (Some(3), Some(5), None));
        assert_eq!(looks.travel(true), Some(3));
        looks.see(&7, 20.0);
        assert_eq!((looks.travel(false), looks.travel(true)), (None, Some(3)), "a new look leaves nothing after it");
    }
}
