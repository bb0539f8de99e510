//! Panics that must not take the window with them.
//!
//! ```text
//! panic ──hook──► message and place, kept
//!    └──unwinds──► catch ──► Mishap ──► in the panel's place, in the log, as a banner
//! ```
//!
//! A panic is a fault of packscope. What was being drawn or computed is given up; the batch, the last good run
//! and all else stay, and the person is told what it said and where.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, set_hook, take_hook};
use std::sync::{Mutex, Once, PoisonError};

/// A panic that was caught.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mishap {
    text: String,
    /// File, line and column, where known.
    place: Option<String>,
}

impl std::fmt::Display for Mishap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.place {
            Some(place) => write!(f, "{} ({place})", self.text),
            None => f.write_str(&self.text),
        }
    }
}

/// The last panics of all threads: a job's own may be one of a pool that works for it.
static LAST: Mutex<VecDeque<Mishap>> = Mutex::new(VecDeque::new());
/// So many are kept; more do not happen between a panic and its being caught.
const KEPT: usize = 16;

fn text_of(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a panic without a message").to_owned()
}

/// Keeps message and place of each panic from now on, beside whatever was done with them before.
fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |info| {
            let kept = Mishap { text: text_of(info.payload()), place: info.location().map(Location::to_string) };
            let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
            last.truncate(KEPT - 1);
            last.push_front(kept);
            drop(last);
            before(info);
        }));
    });
}

/// Does `work`, and gives a panic of it as what it said.
///
/// # Errors
/// The panic. What `work` had borrowed to change is as far as it had come.
pub fn catch<T>(work: impl FnOnce() -> T) -> Result<T, Mishap> {
    watch();
    catch_unwind(AssertUnwindSafe(work)).map_err(|payload| {
        let text = text_of(&*payload);
        let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
        let found = last.iter().position(|last| last.text == text).and_then(|at| last.remove(at));
        found.unwrap_or(Mishap { text, place: None })
    })
}

/// Panics where the batch is named after the panel that draws or the scheduler that packs.
#[cfg(test)]
pub(crate) fn trip(spec: &engine::workload::BatchSpec, what: &str) {
    assert!(spec.name != what, "tripped over {what}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mishap_says_what_and_where() {
        assert_eq!(catch(|| 3), Ok(3));
        let said = catch(|| panic!("seven of {}", 3)).unwrap_err().to_string();
        assert!(said.starts_with("seven of 3 (") && said.contains("mishap.rs:"), "{said}");
    }

    #[test]
    fn a_panic_of_a_pool_says_where_as_well() {
        let pool = || rayon::join(|| 1, || -> u32 { panic!("in the pool") });
        let said = catch(pool).unwrap_err().to_string();
        assert!(said.starts_with("in the pool (") && said.contains("mishap.rs:"), "{said}");
    }
}
