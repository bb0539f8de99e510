//! The objects of `--json`: a contract that scripts depend on. Fields are added, never renamed or
//! removed; one that does not apply is `null`, never left out. Times are integer nanoseconds, sizes
//! bytes, both in the field's name.

use std::time::Duration;

use serde::Serialize;

use crate::decision::{Considered, Decision, RuleConstant};
use crate::metrics::Traffic;
use crate::plan::LaunchPlan;
use crate::workload::{Batch, PrefixTree};

/// Version of these objects.
pub const SCHEMA: u32 = 1;

/// The batch of a plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BatchJson {
    /// Requests, prefill chunks included.
    pub requests: u64,
    /// KV tokens of the decode requests, shared ones counted once a request.
    pub kv_tokens: u64,
    /// KV tokens of the decode requests, each counted once.
    pub kv_tokens_unique: u64,
    /// Query heads.
    pub query_heads: u32,
    /// KV heads.
    pub kv_heads: u32,
    /// Elements of one head.
    pub head_dim: u32,
    /// Element type.
    pub dtype: &'static str,
    /// Tokens of one KV block.
    pub block_size: u32,
}

/// Packs of one tile shape.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TileJson {
    /// Query rows.
    pub m: u32,
    /// KV tokens of one step.
    pub n: u32,
    /// Packs, per KV head.
    pub packs: u32,
}

/// Bytes by kind, over all heads.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TrafficJson {
    /// K and V loaded by CTAs, re-reads counted.
    pub kv_read_bytes: u64,
    /// Queries loaded.
    pub q_read_bytes: u64,
    /// fp32 partials written.
    pub partial_write_bytes: u64,
    /// fp32 partials read back.
    pub partial_read_bytes: u64,
    /// Outputs written.
    pub output_write_bytes: u64,
    /// The least any plan moves.
    pub compulsory_bytes: u64,
}

/// `plan --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlanJson {
    /// Always [`SCHEMA`].
    pub schema: u32,
    /// Key of the device.
    pub device: String,
    /// Name of the scheduler; where `auto` was asked for, of the one that it took.
    pub scheduler: String,
    /// Name of the strategy; where `auto` was asked for, of the one that it took.
    pub strategy: &'static str,
    /// `auto` where that was asked for; `null` where the scheduler itself was.
    pub scheduler_asked: Option<&'static str>,
    /// Likewise for the strategy.
    pub strategy_asked: Option<&'static str>,
    /// The batch.
    pub batch: BatchJson,
    /// Packs, per KV head.
    pub packs: u64,
    /// Thread blocks over all heads, merge excluded.
    pub ctas: u64,
    /// KV tokens read per KV head, re-reads counted.
    pub kv_tokens_read: u64,
    /// Partial results per query head: queries over all packs.
    pub partials: u64,
    /// Largest number of partials of one query.
    pub max_partials_per_query: u32,
    /// Tile shapes in use, largest first.
    pub tiles: Vec<TileJson>,
    /// Bytes by kind.
    pub traffic: TrafficJson,
    /// The prefill chunks; `null` where there is none.
    pub prefill: Option<PrefillJson>,
    /// The launch that computes prefill and decode together; `null` where there is none.
    pub hybrid: Option<HybridJson>,
    /// Block table to launch plan, best of several; `null` where the plan comes from a file.
    pub plan_ns: Option<u64>,
    /// Every choice with what was considered; `null` unless asked for.
    pub decisions: Option<Vec<DecisionJson>>,
}

/// One choice of the planning.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DecisionJson {
    /// `node 3`, `pack 7`, `plan`.
    pub subject: String,
    /// `sharing`, `KV split`, `tile`, `launch` or `fusion`.
    pub choice: &'static str,
    /// The ways considered.
    pub considered: Vec<WayJson>,
    /// Position of the way that was taken.
    pub chosen: usize,
    /// Unit of the rule's costs.
    pub unit: String,
    /// The rule in one sentence.
    pub rule: String,
    /// The constant in the rule.
    pub constant: Option<ConstantJson>,
}

/// One way that was considered.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WayJson {
    /// In a word or two.
    pub what: String,
    /// What the rule that chose weighed.
    pub cost: f64,
    /// What `bytes` or `time_ns` covers: `bytes moved`, `one CTA`, `one kernel`, `overhead only`,
    /// `lower bound` or `estimate of the run`.
    pub price: &'static str,
    /// Bytes that it moves; `null` where a time is told.
    pub bytes: Option<u64>,
    /// Time of what `price` names; `null` where bytes are told.
    pub time_ns: Option<u64>,
}

/// A constant of a rule.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ConstantJson {
    /// Its name.
    pub name: String,
    /// The value that was used.
    pub value: f64,
    /// The value beyond which the choice is another; `null` where there is none.
    pub flips_at: Option<f64>,
}

/// The choices of a plan that was made with explanation.
pub fn decisions_json(plan: &LaunchPlan) -> Vec<DecisionJson> {
    let way = |way: &Considered| {
        let (bytes, time) = (way.price.bytes(), way.price.time());
        WayJson {
            what: way.what.to_string(),
            cost: way.cost,
            price: way.price.covers.name(),
            bytes: bytes.map(|bytes| bytes.0),
            time_ns: time.map(|time| time.0),
        }
    };
    let constant = |constant: &RuleConstant| ConstantJson {
        name: constant.name.to_string(),
        value: constant.value,
        flips_at: constant.flips_at,
    };
    let decision = |decision: &Decision| DecisionJson {
        subject: decision.title(),
        choice: decision.choice.name(),
        considered: decision.considered.iter().map(way).collect(),
        chosen: decision.chosen,
        unit: decision.unit.to_string(),
        rule: decision.rule.to_string(),
        constant: decision.constant.as_ref().map(constant),
    };
    plan.decisions.iter().map(decision).collect()
}

/// The prefill chunks of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PrefillJson {
    /// Chunks.
    pub chunks: u64,
    /// Query tokens of all chunks.
    pub query_tokens: u64,
    /// KV tokens at the ends of all chunks.
    pub kv_tokens: u64,
    /// Blocks of query rows × ranges of KV, per query head.
    pub tasks: u64,
    /// Thread blocks over all heads.
    pub ctas: u64,
    /// Most ranges that the KV of a chunk is cut into.
    pub splits: u32,
    /// Query rows of a task.
    pub tile_m: u32,
    /// KV tokens of one step.
    pub tile_n: u32,
}

/// A launch that computes prefill and decode together.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct HybridJson {
    /// Prefill CTAs.
    pub prefill_ctas: u32,
    /// Decode CTAs, each virtual one counted.
    pub decode_ctas: u32,
    /// CTAs that host prefill.
    pub prefill_slots: u32,
    /// CTAs that host decode.
    pub decode_slots: u32,
    /// CTAs of the launch.
    pub grid: u32,
    /// Prefill tickets in a row; `null` where CTAs do not choose by ticket.
    pub ratio_prefill: Option<u32>,
    /// Decode tickets after them.
    pub ratio_decode: Option<u32>,
}

fn prefill_json(plan: &LaunchPlan) -> Option<PrefillJson> {
    let prefill = &plan.prefill;
    let first = prefill.tasks.first()?;
    Some(PrefillJson {
        chunks: prefill.chunks.len() as u64,
        query_tokens: prefill.rows(),
        kv_tokens: prefill.chunks.iter().map(|chunk| u64::from(chunk.kv)).sum(),
        tasks: prefill.tasks.len() as u64,
        ctas: prefill.tasks.len() as u64 * u64::from(plan.ctas_of_prefill()),
        splits: prefill.chunks.iter().map(|chunk| chunk.splits).max().unwrap_or(1),
        tile_m: first.tile.m,
        tile_n: first.tile.n,
    })
}

fn hybrid_json(plan: &LaunchPlan) -> Option<HybridJson> {
    let figures = plan.hybrid_figures()?;
    Some(HybridJson {
        prefill_ctas: figures.prefill_ctas,
        decode_ctas: figures.decode_ctas,
        prefill_slots: figures.prefill_slots,
        decode_slots: figures.decode_slots,
        grid: figures.grid,
        ratio_prefill: figures.tickets.map(|tickets| tickets.prefill),
        ratio_decode: figures.tickets.map(|tickets| tickets.period - tickets.prefill),
    })
}

/// The plan object.
pub fn plan_json(batch: &Batch, tree: &PrefixTree, plan: &LaunchPlan, plan_time: Option<Duration>) -> PlanJson {
    let shape = &plan.shape;
    PlanJson {
        schema: SCHEMA,
        device: plan.device.clone(),
        scheduler: plan.scheduler.clone(),
        strategy: plan.strategy.name(),
        scheduler_asked: None,
        strategy_asked: None,
        batch: BatchJson {
            requests: batch.requests().len() as u64,
            kv_tokens: batch.decode_tokens().0,
            kv_tokens_unique: tree.unique_tokens().0,
            query_heads: shape.query_heads,
            kv_heads: shape.kv_heads,
            head_dim: shape.head_dim,
            dtype: shape.dtype.name(),
            block_size: shape.block_size,
        },
        packs: plan.packs.len() as u64,
        ctas: plan.attention_ctas(),
        kv_tokens_read: plan.kv_tokens_read().0,
        partials: plan.queries.len() as u64,
        max_partials_per_query: plan.merge.max_partials(),
        tiles: plan.tiles().into_iter().map(|(tile, packs)| TileJson { m: tile.m, n: tile.n, packs }).collect(),
        traffic: traffic_json(&crate::metrics::traffic(plan, batch, tree)),
        prefill: prefill_json(plan),
        hybrid: hybrid_json(plan),
        plan_ns: plan_time.map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)),
        decisions: None,
    }
}

fn traffic_json(traffic: &Traffic) -> TrafficJson {
    TrafficJson {
        kv_read_bytes: traffic.kv_read.0,
        q_read_bytes: traffic.q_read.0,
        partial_write_bytes: traffic.partial_write.0,
        partial_read_bytes: traffic.partial_read.0,
        output_write_bytes: traffic.output_write.0,
        compulsory_bytes: traffic.compulsory.0,
    }
}
