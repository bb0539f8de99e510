//! What a launch computes, in a word or two: for messages and traces.

use std::fmt;

use crate::plan::LaunchKind;

impl fmt::Display for LaunchKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Attention(tile) => write!(f, "attention {tile}"),
            Self::Persistent(tile) => write!(f, "persistent attention {tile}"),
            Self::Merge => f.write_str("merge"),
            Self::MergeRound(round) => write!(f, "merge round {round}"),
            Self::Prefill(_) => f.write_str("prefill"),
            Self::PrefillQueue(_) => f.write_str("persistent prefill"),
            Self::FoldedPrefill(_) => f.write_str("persistent prefill by KV heads"),
            Self::MergePrefill => f.write_str("merge of prefill"),
            Self::Hybrid(_) => f.write_str("prefill with decode"),
        }
    }
}
