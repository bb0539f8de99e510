//! What POD-Attention's released code launches for a hybrid batch: splits, CTAs an SM, policy.
//!
//! With W = 2·SMs, P₀ = chunks · query heads · blocks of 128 rows, D₀ = decodes · KV heads:
//!
//! ```text
//! decode splits   2 where 0.8·W ≤ D₀ < W and (2 CTAs proportional, or automatic with P₀ ≥ W or 2·P₀ < 0.8·W)
//!                 else FlashAttention's wave rule on D₀
//! prefill splits  1 where D₀ ≥ W, else the wave rule on blocks of 64 rows, limited to 2·W / (2·P₀):
//!                 two full waves of CTAs (section 4.2.4)
//! automatic       2 CTAs proportional where a side is split; else the first that holds, with
//!                 pw = P₀ and dw = D₀:
//!   pw < W, dw < 3·SMs            4 CTAs
//!   pw < W, 8·Kp ≥ 5·Kd           2 CTAs
//!   pw ≥ W, dw < W, 8·Kp ≥ 5·Kd   4 CTAs
//!   dw ≥ pw                       4 CTAs
//!   otherwise                     2 CTAs, all proportional
//! ```
//!
//! Worked number, C1 (16/4 heads, a chunk of 12,288, 220 decodes of 12,288, 108 SMs): P₀ = 1,536 ≥
//! 216, D₀ = 880 ≥ 216, so nothing is split, and with 880 < 1,536 it is 2 CTAs: 1,536 prefill CTAs,
//! 220 CTAs of four virtual decode CTAs each, 6 : 1, a grid of 1,756.

use crate::pack::Waves;
use crate::plan::hybrid::policy::Policy;

/// KV tokens of a block of the wave rule at head dimension 128.
pub(super) const SPLIT_BLOCK: u32 = 128;
/// Most splits of FlashAttention's kernels.
pub(super) const MOST_SPLITS: u32 = 128;

/// CTAs an SM and policy: one way of POD's kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodWay {
    /// Four CTAs an SM with small prefill tiles instead of two with large ones.
    pub four: bool,
    /// Which operation an SM's next CTA takes.
    pub policy: Policy,
}

impl PodWay {
    /// All of them, in the order of POD's numbers 8 to 11.
    pub const ALL: [Self; 4] = [
        Self { four: false, policy: Policy::Equal },
        Self { four: false, policy: Policy::Proportional },
        Self { four: true, policy: Policy::Equal },
        Self { four: true, policy: Policy::Proportional },
    ];
    /// Two CTAs an SM in the ratio of the CTAs, POD's number 9.
    pub const TWO: Self = Self::ALL[1];
    /// Four CTAs an SM in the ratio of the CTAs, POD's number 11.
    pub const FOUR: Self = Self::ALL[3];

    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match (self.four, self.policy) {
            (false, Policy::Equal) => "2-equal",
            (false, Policy::Proportional) => "2-proportional",
            (true, Policy::Equal) => "4-equal",
            (true, Policy::Proportional) => "4-proportional",
        }
    }
}

/// What the rule looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// SMs of the device.
    pub sm_count: u32,
    /// Query heads.
    pub query_heads: u32,
    /// KV heads.
    pub kv_heads: u32,
    /// Prefill chunks.
    pub chunks: u32,
    /// Query tokens of the longest.
    pub rows: u32,
    /// KV tokens of the longest prefill.
    pub prefill_kv: u32,
    /// Decode packs; without shared prefixes one a request.
    pub decodes: u32,
    /// KV tokens of the longest decode.
    pub decode_kv: u32,
    /// Whether decodes may be split: each is whole, not cut by its scheduler already.
    pub whole: bool,
}

/// What is launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// CTAs an SM and policy.
    pub way: PodWay,
    /// KV ranges of a chunk.
    pub prefill_splits: u32,
    /// KV ranges of a decode.
    pub decode_splits: u32,
}

impl Question {
    /// CTAs that the device holds at two an SM.
    pub(super) fn wave(&self) -> u32 {
        2 * self.sm_count
    }

    pub(super) fn prefill_ctas(&self, rows: u32) -> u32 {
        self.chunks * self.query_heads * self.rows.div_ceil(rows)
    }

    pub(super) fn decode_ctas(&self) -> u32 {
        self.decodes * self.kv_heads
    }

    /// Most prefill splits: two full waves of CTAs.
    pub(super) fn prefill_cap(&self) -> u32 {
        (2 * self.wave() / (2 * self.prefill_ctas(128)).max(1)).max(1)
    }
}

/// FlashAttention's wave rule on a prefill in blocks of 64 rows, at most `cap` splits.
pub(super) fn flash_waves(q: &Question, cap: u32) -> Waves {
    let blocks = q.prefill_kv.div_ceil(SPLIT_BLOCK);
    Waves { ctas: q.prefill_ctas(64), lanes: q.wave(), blocks, cap: cap.min(q.wave()).min(blocks).max(1) }
}

/// FlashAttention's splits of a prefill, at most `cap`.
pub(super) fn flash_prefill_splits(q: &Question, cap: u32) -> u32 {
    flash_waves(q, cap).count()
}

/// Constants of the released code.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rule {
    /// Share of two CTAs an SM that is nearly full.
    pub(super) part: f64,
    /// Decode CTAs an SM that are few.
    pub(super) decodes_per_sm: f64,
    /// Prefill KV by decode KV from which the prefill is long.
    pub(super) long: f64,
    /// Decode CTAs a prefill CTA from which it is four CTAs an SM.
    pub(super) more: f64,
}

impl Default for Rule {
    fn default() -> Self {
        Self { part: 0.8, decodes_per_sm: 3.0, long: 0.625, more: 1.0 }
    }
}

/// Whether the prefill is long beside the decodes.
pub(super) fn is_long(q: &Question, rule: &Rule) -> bool {
    f64::from(q.prefill_kv) >= rule.long * f64::from(q.decode_kv)
}

/// What the released code launches; `forced` is a way that was asked for, none its own choice.
pub fn released(q: &Question, forced: Option<PodWay>) -> Answer {
    released_by(q, forced, &Rule::default())
}

/// [`released`] with its constants open.
pub(super) fn released_by(q: &Question, forced: Option<PodWay>, rule: &Rule) -> Answer {
    let (prefill, decode, wave) = (q.prefill_ctas(128), q.decode_ctas(), q.wave());
    let part = rule.part * f64::from(wave);
    let may_split = match forced {
        Some(way) => way == PodWay::TWO,
        None => prefill >= wave || 2.0 * f64::from(prefill) < part,
    };
    let decode_splits = if !q.whole {
        1
    } else if may_split && f64::from(decode) >= part && decode < wave {
        wave / decode.max(1) + 1
    } else {
        let blocks = q.decode_kv.div_ceil(SPLIT_BLOCK);
        Waves { ctas: decode, lanes: wave, blocks, cap: MOST_SPLITS.min(wave).min(blocks).max(1) }.count()
    };
    let prefill_splits = if decode >= wave { 1 } else { flash_prefill_splits(q, q.prefill_cap()) };
    let way = forced.unwrap_or_else(|| automatic(q, (prefill_splits, decode_splits), rule));
    Answer { way, prefill_splits, decode_splits }
}

fn automatic(q: &Question, (prefill_splits, decode_splits): (u32, u32), rule: &Rule) -> PodWay {
    let (prefill, decode) = (q.prefill_ctas(128), q.decode_ctas());
    if prefill_splits > 1 || decode_splits > 1 {
        return PodWay::TWO;
    }
    let four = if prefill < q.wave() && f64::from(decode) < rule.decodes_per_sm * f64::from(q.sm_count) {
        true
    } else if prefill < q.wave() && is_long(q, rule) {
        false
    } else if prefill >= q.wave() && decode < q.wave() && is_long(q, rule) {
        true
    } else {
        f64::from(decode) >= rule.more * f64::from(prefill)
    };
    if four { PodWay::FOUR } else { PodWay::TWO }
}
