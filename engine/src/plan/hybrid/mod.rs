//! Prefill beside decode: which kernels compute a hybrid batch, and how their CTAs share the SMs.
//!
//! ```text
//! serial        [prefill] [merge rows] [decode …] [merge]          FlashAttention's two kernels
//! streams       stream 0…: [decode …] [merge]                      the same, at the same time;
//!               stream k: [prefill] [merge rows]                   decodes are launched first
//! cta-parallel  [prefill CTAs, then decode CTAs]                   one launch, fixed order
//! hfuse         [prefill warps ‖ decode warps in each CTA]         one launch, ends with the slower
//! fused         [CTAs that choose by a ticket of their SM]         POD-Attention
//! ```
//!
//! On devices with packscope's own prefill kernels, `serial` and `streams` are made of those, and `spatial`,
//! `batched` and `co-resident` exist (`own`).
//!
//! [`prepare`] decides before packs get their tiles, [`Prepared::compose`] makes the launches. A
//! batch without prefill is not touched; one without decode runs as FlashAttention's prefill under
//! `fused` too, as POD's own wrapper does, and `hfuse` and `cta-parallel` refuse both.

mod auto;
mod compose;
mod explain;
mod items;
mod kernels;
mod ours;
mod own;
mod pair;
mod policy;
mod sms;
mod splits;
mod tasks;

pub use auto::{Answer, PodWay, Question, released};
pub use policy::Policy;

use crate::decision::Decision;
use crate::error::{Error, Result};
use crate::hw::Device;
use crate::pack::{PackInput, Packing, cut_into, cut_rows};
use crate::plan::hybrid::kernels::Kernel;
use crate::plan::{PrefillPlan, Strategy, Tickets};
use crate::tile::Tile;
use crate::workload::{Batch, RequestKind};

/// Which way of POD's kernel `fused` takes for a hybrid batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PodChoice {
    /// The least time by our estimate: `auto`, which was called `ours`.
    #[default]
    Ours,
    /// What the released code would launch.
    Released,
    /// This one.
    Way(PodWay),
}

impl PodChoice {
    /// All of them, in the order of menus.
    pub fn all() -> impl Iterator<Item = Self> {
        [Self::Ours, Self::Released].into_iter().chain(PodWay::ALL.map(Self::Way))
    }

    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ours => "auto",
            Self::Released => "released",
            Self::Way(way) => way.name(),
        }
    }

    /// What it is, in one sentence.
    pub fn about(self) -> &'static str {
        match self {
            Self::Ours => "CTAs an SM, policy and prefill splits with the least estimated time.",
            Self::Released => "What POD-Attention's released code chooses by the waves of prefill and decode.",
            Self::Way(way) if way.four => "Four small CTAs an SM, with the splits of the released code.",
            Self::Way(_) => "Two large CTAs an SM, with the splits of the released code.",
        }
    }
}

impl std::str::FromStr for PodChoice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let text = if text == "ours" { Self::Ours.name() } else { text };
        Self::all().find(|choice| choice.name() == text).ok_or_else(|| Error::UnknownName {
            kind: "way of POD",
            name: text.to_owned(),
            known: Self::all().map(Self::name).collect::<Vec<_>>().join(", "),
        })
    }
}

/// The decode tile that a strategy prescribes for a batch on a device; none where the scheduler's rule holds.
pub fn decode_tile(device: &Device, batch: &Batch, strategy: Strategy) -> Option<Tile> {
    let hybrid = batch.prefills().next().is_some() && batch.decodes().next().is_some();
    match strategy {
        Strategy::Serial | Strategy::Streams | Strategy::Spatial => None,
        Strategy::Batched | Strategy::CoResident => {
            let group = batch.shape.group();
            device.prefill_kernel.filter(|_| hybrid).and_then(|kernels| own::decode_tile(&kernels, group, strategy))
        }
        Strategy::Fused | Strategy::HFuse | Strategy::CtaParallel if !hybrid => None,
        _ if kernels::is_own(device, &batch.shape, strategy) => {
            device.prefill_kernel.map(|kernels| own::beside_tile(&kernels, batch.shape.group()))
        }
        Strategy::Fused => Some(kernels::LEAN),
        Strategy::HFuse | Strategy::CtaParallel => Some(Tile { m: 64, n: 128 }),
    }
}

/// The strategies that make sense for a batch and for which the device has kernels.
pub fn offered(device: &Device, batch: &Batch) -> Vec<Strategy> {
    let takes =
        |strategy: &Strategy| has_kernels(device, *strategy) && own::takes_shape(device, &batch.shape, *strategy);
    Strategy::of(batch).iter().copied().filter(takes).collect()
}

/// Whether a device has the kernels of a strategy: some are made of persistent prefill kernels.
pub fn has_kernels(device: &Device, strategy: Strategy) -> bool {
    device.prefill_kernel.is_some() || !matches!(strategy, Strategy::Spatial | Strategy::Batched | Strategy::CoResident)
}

/// Refuses a strategy that fuses two kernels where the batch has work for one.
///
/// # Errors
/// [`Error::Unsupported`] with what is missing and what to take instead.
pub fn check_strategy(batch: &Batch, strategy: Strategy) -> Result<()> {
    if Strategy::of(batch).contains(&strategy) || batch.requests().is_empty() {
        return Ok(());
    }
    let missing = if batch.prefills().next().is_none() { "prefill chunk" } else { "decode request" };
    Err(Error::Unsupported {
        who: strategy.name().to_owned(),
        limit: format!(
            "it puts prefill beside decode, and there is no {missing}; use serial, streams or fused, or add one"
        ),
    })
}

/// What is decided of a batch with prefill before its packs get their tiles.
#[derive(Clone, Debug)]
pub struct Prepared {
    prefill: PrefillPlan,
    kernel: Kernel,
    fusion: Fusion,
    decisions: Vec<Decision>,
}

/// How prefill and decode come together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fusion {
    /// Kernels of their own, on one stream or on two.
    Apart {
        streams: bool,
    },
    Static,
    Paired,
    /// The pattern follows from the CTAs that there are.
    Tickets(Policy),
    /// One persistent grid for the items of both.
    Queue,
    /// Two persistent grids, decode starting when prefill is on its SMs; `shares` gives each some of the SMs.
    Beside {
        shares: bool,
    },
}

/// Decides kernels and splits, and cuts the packs where POD splits decodes. `None` for a batch
/// without prefill.
///
/// # Errors
/// [`Error::Unsupported`] where the strategy cannot take the batch.
pub fn prepare(
    input: &PackInput<'_>,
    packing: &mut Packing,
    strategy: Strategy,
    pod: PodChoice,
) -> Result<Option<Prepared>> {
    check_strategy(input.batch, strategy)?;
    let Some(question) = question(input, packing) else { return Ok(None) };
    let has_decodes = !packing.packs.is_empty();
    if let Some(kernels) = input.device.prefill_kernel.filter(|_| own::takes(strategy, has_decodes)) {
        return Ok(Some(own::prepare(input, packing, strategy, &kernels)?));
    }
    if strategy == Strategy::Fused && has_decodes {
        return Ok(Some(prepare_pod(input, packing, &question, pod)?));
    }
    // FlashAttention's prefill kernel, split by its own rule without POD's limit.
    let splits = auto::flash_prefill_splits(&question, 128);
    let (device, shape) = (input.device, &input.batch.shape);
    let own = kernels::is_own(device, shape, strategy);
    let rows = if own { cut_own_rows(input, packing, strategy)? } else { None };
    let (kernel, fusion) = match strategy {
        Strategy::Serial | Strategy::Fused => {
            (kernels::prefill(device, shape, splits > 1), Fusion::Apart { streams: false })
        }
        Strategy::Streams => (kernels::prefill(device, shape, splits > 1), Fusion::Apart { streams: true }),
        Strategy::HFuse => (kernels::hfuse(device, shape, splits > 1), Fusion::Paired),
        Strategy::CtaParallel => (kernels::cta_parallel(device, shape, splits > 1), Fusion::Static),
        Strategy::Spatial | Strategy::Batched | Strategy::CoResident => {
            return Err(Error::Unsupported {
                who: format!("{} on '{}'", strategy.name(), device.key),
                limit: "it is made of a persistent prefill kernel, and the device file names none; take another strategy or device"
                    .to_owned(),
            });
        }
    };
    let mut decisions = if input.explain {
        explain::flash(&work(input, packing, &question), splits, strategy.name())
    } else {
        Vec::new()
    };
    let prefill = tasks::build(input.batch, kernel.prefill_tile, splits);
    decisions.extend(rows);
    if own {
        match fusion {
            Fusion::Paired => {
                let items = prefill.tasks.len() as u64 * u64::from(shape.query_heads);
                own::cut_decodes_to_match(input, packing, (items, kernel.decodes_per_cta));
            }
            _ => own::cut_decodes(input, packing),
        }
    }
    Ok(Some(Prepared { prefill, kernel, fusion, decisions }))
}

/// Cuts packs to the rows of the decode tile of our own kernels that compute prefill and decode in one launch, and
/// says so where the plan is to explain itself.
fn cut_own_rows(input: &PackInput<'_>, packing: &mut Packing, strategy: Strategy) -> Result<Option<Decision>> {
    own::check_shape(&input.batch.shape, strategy)?;
    let Some(tile) = decode_tile(input.device, input.batch, strategy) else { return Ok(None) };
    let before = packing.packs.len();
    cut_rows(packing, tile.m / input.batch.shape.group());
    Ok(input.explain.then(|| own::explain_rows(input, packing, tile, before)))
}

fn prepare_pod(input: &PackInput<'_>, packing: &mut Packing, question: &Question, pod: PodChoice) -> Result<Prepared> {
    let own = kernels::is_own(input.device, &input.batch.shape, Strategy::Fused);
    let rows = if own { cut_own_rows(input, packing, Strategy::Fused)? } else { None };
    let work = work(input, packing, question);
    let ours = ours::choose(&work);
    let answer = match pod {
        PodChoice::Ours => ours.answer,
        PodChoice::Released => released(question, None),
        PodChoice::Way(way) => released(question, Some(way)),
    };
    refuse_four(input, &answer, pod)?;
    if own && pod == PodChoice::Ours {
        own::cut_decodes(input, packing);
    } else if answer.decode_splits > 1 {
        let block = input.batch.shape.block_size;
        let piece = question.decode_kv.div_ceil(auto::SPLIT_BLOCK).div_ceil(answer.decode_splits) * auto::SPLIT_BLOCK;
        cut_into(packing, piece.div_ceil(block), block);
    }
    let split = (answer.prefill_splits > 1, answer.decode_splits > 1);
    let kernel = kernels::pod(input.device, &input.batch.shape, answer.way.four, split);
    let mut decisions = if input.explain { explain::pod(&work, &answer, &ours, pod) } else { Vec::new() };
    decisions.extend(rows);
    Ok(Prepared {
        prefill: tasks::build(input.batch, kernel.prefill_tile, answer.prefill_splits),
        kernel,
        fusion: Fusion::Tickets(answer.way.policy),
        decisions,
    })
}

/// Whether POD's ways with four CTAs an SM can be compiled: at head dimension 128 each CTA would be 64 threads,
/// whose O, S and P of 64 rows are more than the 255 registers that a thread may have.
fn has_four(device: &Device, head_dim: u32) -> bool {
    device.prefill_kernel.is_none() || head_dim < 128
}

fn refuse_four(input: &PackInput<'_>, answer: &Answer, pod: PodChoice) -> Result<()> {
    if !answer.way.four || has_four(input.device, input.batch.shape.head_dim) {
        return Ok(());
    }
    Err(Error::Unsupported {
        who: format!("fused in POD's way {} on '{}'", pod.name(), input.device.key),
        limit: "four CTAs an SM at head dimension 128 are 64 threads each, and 64 rows of prefill take more than the 255 registers that a thread may have; use --pod auto, 2-equal or 2-proportional"
            .to_owned(),
    })
}

/// What our choice looks at.
fn work<'a>(input: &PackInput<'a>, packing: &Packing, question: &Question) -> ours::Work<'a> {
    let batch = input.batch;
    let pairs = batch.prefills().map(|(_, request)| match request.kind {
        RequestKind::Prefill { chunk } => chunk.as_f64() * (request.kv.as_f64() - (chunk.as_f64() - 1.0) / 2.0),
        RequestKind::Decode => 0.0,
    });
    ours::Work {
        device: input.device,
        shape: &batch.shape,
        question: *question,
        pairs: pairs.sum(),
        decode_tokens: packing.packs.iter().map(|pack| pack.tokens.as_f64()).sum(),
        unique_tokens: input.tree.unique_tokens().as_f64(),
        prefill_tokens: batch.prefills().map(|(_, request)| request.kv.as_f64()).sum(),
    }
}

/// What the rules look at; `None` without prefill.
fn question(input: &PackInput<'_>, packing: &Packing) -> Option<Question> {
    let (batch, shape) = (input.batch, &input.batch.shape);
    // One pack a request: a query in two packs has been cut by its scheduler.
    let whole = packing.packs.len() == batch.decodes().count() && packing.queries.len() == packing.packs.len();
    let rows = batch.prefills().filter_map(|(_, request)| match request.kind {
        RequestKind::Prefill { chunk } => Some(chunk.0 as u32),
        RequestKind::Decode => None,
    });
    Some(Question {
        sm_count: input.device.sm_count,
        query_heads: shape.query_heads,
        kv_heads: shape.kv_heads,
        chunks: batch.prefills().count() as u32,
        rows: rows.max()?,
        prefill_kv: batch.prefills().map(|(_, request)| request.kv.0 as u32).max()?,
        decodes: packing.packs.len() as u32,
        decode_kv: packing.packs.iter().map(|pack| pack.tokens.0 as u32).max().unwrap_or(0),
        whole,
    })
}

/// The figures of a hybrid launch by which POD is described.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HybridFigures {
    /// Prefill CTAs.
    pub prefill_ctas: u32,
    /// Decode CTAs, virtual ones counted alone.
    pub decode_ctas: u32,
    /// CTAs that host prefill.
    pub prefill_slots: u32,
    /// CTAs that host decode.
    pub decode_slots: u32,
    /// CTAs in all.
    pub grid: u32,
    /// The ticket pattern, where CTAs choose at run time.
    pub tickets: Option<Tickets>,
}
