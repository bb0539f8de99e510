//! Whether vLLM would take cascade attention at all, and what it runs then.
//!
//! This is the rule of releases that have cascade attention: 0.26 does, 0.33 no longer does, and runs
//! flash-decoding always. Every record of the rule says so.
//!
//! vLLM takes one common prefix for **all** requests or nothing:
//!
//! ```text
//! prefix < 256 tokens, or < 8 requests                            no
//! no flash-decoding (group 1)                                     yes
//! otherwise, n queries:  cd(Hq·cd(n,128), SM)·cd(prefix,128)  <  cd(n·Hkv·cd(g,128)·cd(prefix,128), SM)
//! ```
//!
//! With cascade, the prefix is one call of n query tokens in 128-row tiles of single query heads, the
//! rests are flash-decoding, and two results are joined. Without, everything is flash-decoding.
//!
//! Worked number, 32/8 heads on 132 SMs, 64 requests with 512 common tokens: cascade
//! cd(32·1, 132)·4 = 4, flash-decoding cd(64·8·1·4, 132) = 16, so cascade. With 8 requests: 4 against
//! cd(256, 132) = 2, so none.

use crate::decision::{Choice, Considered, Decision, RuleConstant, Subject};
use crate::error::Result;
use crate::pack::levels::{Phases, Run, UNCUT, common_prefix, push_rests};
use crate::pack::query_centric::{self, QueryCentric};
use crate::pack::{CtaOrder, MergeShape, PackInput, Packing, Scheduler, price};
use crate::tile::{Tile, TileRule};
use crate::units::{NodeIdx, Tokens};

/// Which vLLM the rule is of.
const RELEASES: &str = "so vLLM 0.26, while 0.33 has no cascade attention any more and runs flash-decoding always";
/// No cascade below this many common tokens.
const LEAST_PREFIX: u64 = 256;
/// No cascade below this many requests.
const LEAST_REQUESTS: u32 = 8;
/// Tile that the wave rule counts with, and of the prefix call.
const PREFIX: Tile = Tile { m: 128, n: 64 };
/// Rows and KV tokens of the wave rule's tiles.
const RULE_TILE: u64 = 128;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct VllmCascadeRule;

impl Scheduler for VllmCascadeRule {
    fn name(&self) -> &'static str {
        "vllm-cascade-rule"
    }

    fn about(&self) -> &'static str {
        "vLLM's choice in releases with cascade attention (0.26 has it, 0.33 no longer): cascade over the one prefix of all requests where its wave rule says so, flash-decoding otherwise, and why."
    }

    fn tile_rule(&self) -> TileRule {
        TileRule::Fixed(query_centric::TILE)
    }

    fn pack(&self, input: &PackInput<'_>) -> Result<Packing> {
        let verdict = Verdict::of(input);
        let mut packing = match verdict.prefix.filter(|_| verdict.cascade) {
            None => QueryCentric.pack(input)?,
            Some(root) => {
                let prefix = input.tree.node(root);
                let (tile, rest) = (input.tile_or(PREFIX), input.tile_or(query_centric::TILE));
                let mut phases = Phases::default();
                phases.push(input, Run::of_node(input, root), input.tree.queries(root), tile.m, UNCUT);
                phases.end(Some(tile), CtaOrder::QueryHeads);
                push_rests(&mut phases, input, prefix.blocks.end, prefix.tokens);
                phases.end(Some(rest), CtaOrder::PackFastest);
                phases.finish(MergeShape::Pairwise)
            }
        };
        if input.explain {
            packing.decisions.records.insert(0, verdict.explain(input));
        }
        Ok(packing)
    }
}

/// What the rule says of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Verdict {
    prefix: Option<NodeIdx>,
    tokens: u64,
    cascade: bool,
    cascade_waves: u64,
    decode_waves: u64,
    why: &'static str,
    constant: Option<(&'static str, u64, u64)>,
}

impl Verdict {
    fn of(input: &PackInput<'_>) -> Self {
        let prefix = common_prefix(input);
        let shape = &input.batch.shape;
        let requests = input.tree.order.len() as u64;
        let sms = u64::from(input.device.sm_count);
        // Whole blocks only: a partly filled one is nobody's common block.
        let block = u64::from(shape.block_size);
        let tokens = prefix.map_or(0, |root| input.tree.node(root).tokens.0 / block * block);
        let kv_tiles = tokens.div_ceil(RULE_TILE);
        let cascade_ctas = u64::from(shape.query_heads) * requests.div_ceil(RULE_TILE);
        let decode_ctas =
            requests * u64::from(shape.kv_heads) * u64::from(shape.group()).div_ceil(RULE_TILE) * kv_tiles;
        let (cascade_waves, decode_waves) = (cascade_ctas.div_ceil(sms) * kv_tiles, decode_ctas.div_ceil(sms));
        let (cascade, why, constant) = if prefix.is_none() {
            (false, "no prefix is common to all requests, and vLLM shares with all or with none", None)
        } else if tokens < LEAST_PREFIX {
            (false, "the common prefix is too short for vLLM", Some(("least common tokens", LEAST_PREFIX, tokens)))
        } else if requests < u64::from(LEAST_REQUESTS) {
            let least = Some(("least requests", u64::from(LEAST_REQUESTS), requests));
            (false, "the batch has too few requests for vLLM", least)
        } else if shape.group() == 1 {
            (
                true,
                "flash-decoding is not in use where each KV head has one query head, and then vLLM takes cascade",
                None,
            )
        } else {
            let waves = Some(("flash-decoding waves", decode_waves, cascade_waves));
            (
                cascade_waves < decode_waves,
                "vLLM takes the way with fewer waves of KV tiles, flash-decoding on a tie",
                waves,
            )
        };
        Self { prefix, tokens, cascade, cascade_waves, decode_waves, why, constant }
    }

    fn explain(&self, input: &PackInput<'_>) -> Decision {
        let shape = &input.batch.shape;
        let requests = input.tree.order.len() as u64;
        let reads = requests.div_ceil(RULE_TILE) * u64::from(shape.group());
        let way = |what, waves: u64, reads: u64| {
            Considered::new(what, waves as f64, price::kv(input, Tokens(self.tokens * reads)))
        };
        Decision {
            subject: self.prefix.map_or(Subject::Plan, Subject::Node),
            other: None,
            choice: Choice::Sharing,
            considered: vec![
                way("cascade", self.cascade_waves, reads),
                way("flash-decoding", self.decode_waves, requests),
            ],
            chosen: usize::from(!self.cascade),
            unit: "waves of KV tiles".into(),
            rule: format!("{}; {RELEASES}", self.why).into(),
            constant: self.constant.map(|(name, value, flip)| RuleConstant::new(name, value as f64, Some(flip as f64))),
        }
    }
}
