//! Which operation an SM's next CTA takes: POD's two policies (section 5.4.2) as ticket patterns.
//!
//! With P prefill and D decode CTAs (virtual decode CTAs counted by the CTAs that host them):
//!
//! | policy | tickets |
//! |---|---|
//! | 50:50 | prefill, decode, prefill, … whatever P and D are |
//! | proportional, P ≤ D | one prefill, then ⌊D / P⌋ decodes |
//! | proportional, P > D | ⌊P / D⌋ prefills, then one decode |
//!
//! The division is of integers as released, so 1.9 : 1 becomes 1 : 1; what is left over of one
//! operation when the other has run out is taken by the CTAs that come last.
//!
//! Worked number: 1,536 prefill and 220 decode CTAs (C1) are 6 : 1, a period of 7 tickets.

use crate::plan::Tickets;

/// A policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Prefill and decode in turn.
    Equal,
    /// In the ratio of their CTAs.
    Proportional,
}

impl Policy {
    /// The ticket pattern for `prefill` and `decode` CTAs.
    pub fn tickets(self, prefill: u32, decode: u32) -> Tickets {
        match self {
            Self::Equal => Tickets { period: 2, prefill: 1 },
            Self::Proportional if prefill <= decode => {
                Tickets { period: (decode / prefill.max(1)).saturating_add(1), prefill: 1 }
            }
            Self::Proportional => {
                let prefills = prefill / decode.max(1);
                Tickets { period: prefills.saturating_add(1), prefill: prefills }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratios_are_those_of_the_released_code() {
        let ratio = |prefill, decode| {
            let tickets = Policy::Proportional.tickets(prefill, decode);
            (tickets.prefill, tickets.period - tickets.prefill)
        };
        assert_eq!(ratio(128, 80), (1, 1));
        assert_eq!(ratio(1536, 220), (6, 1));
        assert_eq!(ratio(2048, 384), (5, 1));
        assert_eq!(ratio(50, 100), (1, 2));
        assert_eq!(ratio(100, 190), (1, 1), "1.9 : 1 becomes 1 : 1");
        assert_eq!(Policy::Equal.tickets(1, 1000), Tickets { period: 2, prefill: 1 });
    }

    #[test]
    fn the_pattern_of_tickets_repeats() {
        let says = |tickets: Tickets| (0..6).map(|t| tickets.is_prefill(t)).collect::<Vec<_>>();
        assert_eq!(says(Tickets { period: 3, prefill: 1 }), [true, false, false, true, false, false]);
        assert_eq!(says(Tickets { period: 3, prefill: 2 }), [true, true, false, true, true, false]);
    }
}
