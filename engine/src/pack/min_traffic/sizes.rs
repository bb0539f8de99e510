//! Multisets of pack sizes.

use smallvec::SmallVec;

/// How many packs there are of each size, ascending by size. Sizes are queries, above zero. There are
/// few of them and the search copies them all the time, so they need no memory of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Sizes(SmallVec<[(u32, u32); 4]>);

impl Sizes {
    /// Adds `count` packs of `size` queries.
    pub(super) fn add(&mut self, size: u32, count: u32) {
        if size == 0 || count == 0 {
            return;
        }
        match self.0.binary_search_by_key(&size, |entry| entry.0) {
            Ok(at) => self.0[at].1 += count,
            Err(at) => self.0.insert(at, (size, count)),
        }
    }

    /// Takes packs away.
    pub(super) fn remove(&mut self, other: &Self) {
        for entry in &mut self.0 {
            let taken = other.0.iter().find(|pair| pair.0 == entry.0).map_or(0, |pair| pair.1);
            entry.1 = entry.1.saturating_sub(taken);
        }
        self.0.retain(|entry| entry.1 > 0);
    }

    /// (size, count) pairs, ascending.
    pub(super) fn pairs(&self) -> &[(u32, u32)] {
        &self.0
    }

    /// What is here and not there, and there and not here.
    pub(super) fn differences(&self, other: &Self) -> (Part, Part) {
        let (mut here, mut there) = (Part::default(), Part::default());
        let (mut a, mut b) = (self.0.iter().peekable(), other.0.iter().peekable());
        loop {
            match (a.peek(), b.peek()) {
                (Some(x), Some(y)) if x.0 == y.0 => {
                    here.take(x.0, x.1.saturating_sub(y.1));
                    there.take(y.0, y.1.saturating_sub(x.1));
                    a.next();
                    b.next();
                }
                (Some(x), y) if y.is_none_or(|y| x.0 < y.0) => {
                    here.take(x.0, x.1);
                    a.next();
                }
                (_, Some(y)) => {
                    there.take(y.0, y.1);
                    b.next();
                }
                (_, None) => return (here, there),
            }
        }
    }
}

/// Some packs, in sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Part {
    /// How many.
    pub(super) packs: u64,
    /// Queries of all of them.
    pub(super) queries: u64,
    /// Queries of the smallest; zero if there is none.
    pub(super) smallest: u64,
}

impl Part {
    fn take(&mut self, size: u32, count: u32) {
        if count > 0 {
            self.packs += u64::from(count);
            self.queries += u64::from(size) * u64::from(count);
            if self.smallest == 0 {
                self.smallest = u64::from(size);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_count_each_side_alone() {
        let (mut a, mut b) = (Sizes::default(), Sizes::default());
        a.add(5, 3);
        a.add(3, 1);
        b.add(7, 2);
        b.add(5, 1);
        let (here, there) = a.differences(&b);
        assert_eq!(here, Part { packs: 3, queries: 13, smallest: 3 });
        assert_eq!(there, Part { packs: 2, queries: 14, smallest: 7 });
        assert_eq!(a.differences(&a), (Part::default(), Part::default()));
    }
}
