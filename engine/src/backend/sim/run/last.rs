//! Who comes last of CTAs that end about together, where the worst of it is asked for.
//!
//! ```text
//! leaf          ────────────────────►|  one query to merge
//! shared pack   ───────────────────►|   all its queries: on the GPU it comes last in some run, and that takes several times as long
//! ```

use super::Simulation;
use crate::backend::sim::merge_cost::SPREAD;
use crate::units::PackIdx;

/// The widest pack that has a partial of a (query, KV head), and until when it may come.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Widest {
    queries: u32,
    pub(super) pack: PackIdx,
    until: f64,
}

impl Simulation<'_> {
    /// Of CTAs that may as well end the other way round, has those with the most queries end last.
    pub(in crate::backend::sim) fn with_widest_last(mut self) -> Self {
        self.widest = vec![Widest::default(); self.missing.len()];
        self
    }

    /// Notes that a CTA of `pack` that began at `begin` has a partial of a (query, KV head); gives one of more queries that
    /// has come too, and may come later.
    pub(super) fn wider(&mut self, at: usize, pack: PackIdx, begin: f64) -> Option<Widest> {
        let widest = self.widest.get_mut(at)?;
        let (queries, until) = (self.plan.pack(pack).queries_len, self.now + SPREAD * (self.now - begin));
        let wider = (widest.queries > queries && widest.until >= self.now).then_some(*widest);
        if (queries, until) >= (widest.queries, widest.until) {
            *widest = Widest { queries, pack, until };
        }
        wider
    }
}
