//! A plan on the GPU: checked, uploaded and compiled once, then launched as often as wanted. Launch i of the plan is
//! launch i on the GPU.
//!
//! ```text
//! stream 0 (the caller's)   [launch 0] ──────────── [launch 2, after 1] ──► done
//!                      └ fork ─┐                     ▲
//! stream 1 (our own)           └► [launch 1] ── event ┘
//! ```
//!
//! Streams of our own begin behind the work that is on the caller's, and the caller's goes on when all of them are done.

use std::collections::BTreeMap;

use crate::beside::fits;
use crate::build::{Builder, Shared};
use crate::cache::KvCache;
use crate::compile::{Compiler, Resources};
use crate::error::KernelError;
use crate::gpu::{DeviceBuffer, Function, Gpu};
use crate::params::{DecodeParams, HybridParams, MergeParams, PrefillParams, TraceRecord};
use crate::plan::{DecodeShape, Launch, PlanArrays, Tile};
use crate::spec::{Arch, Copies};
use crate::stream::{Event, Stream};
use crate::trace::TraceBuffer;

/// Each byte of what no kernel has written.
const POISON: u8 = 0xff;

/// Choices for a run that change nothing of its result but the last bits.
#[derive(Clone, Debug, Default)]
pub struct CallOptions {
    /// Trace records to keep; 0 compiles tracing away. [`PlanArrays::trace_places`] are all.
    pub trace_capacity: u32,
    /// Gives the same bits in every run.
    pub deterministic: bool,
    /// CTAs per SM of decode kernels instead of the usual number.
    pub ctas_per_sm: Option<u32>,
    /// Tokens that an entry of a queue should hold at least, by taking several KV heads at once. `None` lets the
    /// number of packs decide.
    pub item_tokens: Option<u32>,
    /// Extra preprocessor definitions, for experiments.
    pub defines: Vec<String>,
}

impl CallOptions {
    /// Whether K and V of decode come by bulk copies: not where a definition has kernels as on GPUs without them.
    pub(crate) fn bulk_copies(&self, arch: &Arch, shape: &DecodeShape) -> bool {
        let taken_away = self.defines.iter().any(|define| define == "-DPS_TMA=0");
        arch.bulk_copies() && shape.copies(DecodeShape::BULK_BLOCK) == Copies::Bulk && !taken_away
    }
}

/// A kernel of a call as it was compiled and loaded.
#[derive(Clone, Debug)]
pub struct KernelInfo {
    /// Tiles of a decode kernel; none of others.
    pub tiles: Vec<Tile>,
    /// What a CTA takes.
    pub resources: Resources,
    /// CTAs that an SM holds.
    pub ctas_per_sm: u32,
    /// CTAs of the launch.
    pub grid: u32,
}

impl KernelInfo {
    pub(crate) fn of(function: &Function, tiles: Vec<Tile>, grid: u32) -> Result<Self, KernelError> {
        Ok(Self { tiles, resources: function.resources(), ctas_per_sm: function.ctas_per_sm()?, grid })
    }
}

/// The one parameter of a kernel.
#[derive(Debug)]
pub(crate) enum Params {
    Decode(Box<DecodeParams>),
    Merge(MergeParams),
    Prefill(Box<PrefillParams>),
    Hybrid(Box<HybridParams>),
}

/// A launch that is ready to be queued.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) function: Function,
    pub(crate) params: Params,
    pub(crate) grid: u32,
    pub(crate) info: KernelInfo,
    pub(crate) programmatic: bool,
}

impl Ready {
    fn queue(&self, stream: &Stream) -> Result<(), KernelError> {
        if self.grid == 0 {
            return Ok(());
        }
        let (function, grid, early) = (&self.function, self.grid, self.programmatic);
        let threads = function.resources().threads;
        // SAFETY: the structure is the kernel's only parameter; the plan was checked against its buffers in `Call::new`,
        // and the call holds those buffers.
        unsafe {
            match &self.params {
                Params::Decode(params) => function.launch_with(grid, threads, stream, params.as_ref(), early),
                Params::Merge(params) => function.launch_with(grid, threads, stream, params, early),
                Params::Prefill(params) => function.launch_with(grid, threads, stream, params.as_ref(), early),
                Params::Hybrid(params) => function.launch_with(grid, threads, stream, params.as_ref(), early),
            }
        }
    }
}

/// Where a launch is put and what it waits for.
#[derive(Debug)]
struct Place {
    stream: usize,
    /// Launches on other streams, by their places among the events.
    waits: Vec<usize>,
    /// Recorded behind it.
    event: Option<usize>,
}

/// A prepared call of a plan. Launching it allocates nothing and can be captured as a CUDA graph.
#[derive(Debug)]
pub struct Call {
    launches: Vec<Ready>,
    places: Vec<Place>,
    /// Streams 1 and on, each behind the ones before it.
    streams: Vec<Stream>,
    fork: Option<Event>,
    events: Vec<Event>,
    /// Events that the caller's stream waits for at the end.
    joins: Vec<usize>,
    out: DeviceBuffer,
    out_lse: DeviceBuffer,
    trace: TraceBuffer,
    rows: usize,
    values: usize,
    watched: Vec<u32>,
    shared: Shared,
}

impl Call {
    /// Checks the plan, compiles the kernels that it uses, and uploads its arrays. `queries` holds `[rows, q_heads,
    /// head_dim]` 16-bit values; it and `cache` must outlive the launches, which borrowing cannot express across
    /// repeated asynchronous calls, so both are taken by reference here and by the caller's care after that: dropping a
    /// buffer waits for the device first.
    pub fn new(
        gpu: &Gpu,
        compiler: &Compiler,
        shape: &DecodeShape,
        cache: &KvCache,
        queries: &DeviceBuffer,
        plan: &PlanArrays<'_>,
        options: &CallOptions,
    ) -> Result<Self, KernelError> {
        shape.check()?;
        plan.check(shape, cache.blocks)?;
        let rows = plan.rows() as usize * shape.q_heads as usize;
        let values = rows * shape.head_dim as usize;
        let needed = KvCache::bytes(shape, cache.blocks);
        if queries.bytes() < values * 2 || cache.k.bytes() < needed || cache.v.bytes() < needed {
            return Err(KernelError::Plan("the query or KV buffers are smaller than the plan needs".to_owned()));
        }
        let (out, out_lse) = (gpu.allocate(values * 2)?, gpu.allocate(rows * 4)?);
        let trace = TraceBuffer::new(gpu, options.trace_capacity)?;
        let mut builder = Builder::new(gpu, compiler, shape, cache, plan, options)?;
        builder.writes_to(queries, (&out, &out_lse), &trace);
        let launches = plan.launches.iter().map(|launch| builder.launch(launch)).collect::<Result<Vec<_>, _>>()?;
        let (watched, shared) = (builder.watched, builder.shared);
        check_room(gpu, plan.launches, &launches)?;
        let (places, joins) = places(plan.launches);
        let events = places.iter().filter_map(|place| place.event).map(|_| gpu.event());
        let events = events.collect::<Result<Vec<_>, _>>()?;
        let own = places.iter().map(|place| place.stream).max().unwrap_or(0);
        let streams = (1..=own).map(|before| gpu.stream_behind(before)).collect::<Result<Vec<_>, _>>()?;
        let fork = if streams.is_empty() { None } else { Some(gpu.event()?) };
        let call =
            Self { launches, places, streams, fork, events, joins, out, out_lse, trace, rows, values, watched, shared };
        let stream = gpu.stream()?;
        call.poison(&stream)?;
        [&call.shared.part_out, &call.shared.part_lse]
            .into_iter()
            .try_for_each(|buffer| buffer.fill(POISON, &stream))?;
        // This ends where somebody cancels; what follows does not, and so has nothing left to wait for but copies.
        stream.synchronize()?;
        // Those from pageable memory may still be on their way, and streams do not wait for them.
        gpu.synchronize()?;
        Ok(call)
    }

    /// Queues the whole call on `stream` and returns; the work before it on `stream` comes first.
    pub fn launch(&self, stream: &Stream) -> Result<(), KernelError> {
        if let Some(fork) = &self.fork {
            fork.record(stream)?;
            self.streams.iter().try_for_each(|own| own.wait(fork))?;
        }
        for (launch, place) in self.launches.iter().zip(&self.places) {
            let on = place.stream.checked_sub(1).and_then(|own| self.streams.get(own)).unwrap_or(stream);
            place.waits.iter().try_for_each(|event| on.wait(&self.events[*event]))?;
            launch.queue(on)?;
            if let Some(event) = place.event {
                self.events[event].record(on)?;
            }
        }
        self.joins.iter().try_for_each(|event| stream.wait(&self.events[*event]))
    }

    /// Launches of this call, as many as the plan has.
    pub fn parts(&self) -> usize {
        self.launches.len()
    }

    /// Queues one launch of the call alone; those before it must have run, since a merge reads their partials. Nothing
    /// for a number past the last.
    pub fn launch_part(&self, part: usize, stream: &Stream) -> Result<(), KernelError> {
        self.launches.get(part).map_or(Ok(()), |launch| launch.queue(stream))
    }

    /// Sets all bits of the outputs, NaN in f16, bf16 and f32, so that a value that no kernel wrote shows. In a new call
    /// they are so, and the partials: those that CTAs wait for (`kNotThere`) again after each launch.
    pub fn poison(&self, stream: &Stream) -> Result<(), KernelError> {
        [&self.out, &self.out_lse].into_iter().try_for_each(|buffer| buffer.fill(POISON, stream))
    }

    /// The outputs, `[rows, q_heads, head_dim]` 16-bit values.
    pub fn output(&self) -> Result<Vec<u16>, KernelError> {
        self.out.read(0, self.values)
    }

    /// The log-sum-exps, natural logarithm, `[rows, q_heads]`. Complete only where the kernels merge.
    pub fn output_lse(&self) -> Result<Vec<f32>, KernelError> {
        self.out_lse.read(0, self.rows)
    }

    /// Empties the trace buffer, in stream order; call it before the launch that is to be read.
    pub fn clear_trace(&self, stream: &Stream) -> Result<(), KernelError> {
        self.trace.clear(stream)
    }

    /// The trace of the launches since [`Self::clear_trace`], pack by pack and head by head, then merges, then prefill
    /// tasks, and the records lost because the buffer had no place for them.
    pub fn trace(&self) -> Result<(Vec<TraceRecord>, u32), KernelError> {
        self.trace.read()
    }

    /// The queries that CTAs without tasks merge: record `query at this place * kv_heads + KV head` of merge launch 0.
    pub fn watched(&self) -> &[u32] {
        &self.watched
    }

    /// The kernels of this call, launch by launch.
    pub fn kernels(&self) -> impl Iterator<Item = &KernelInfo> {
        self.launches.iter().map(|launch| &launch.info)
    }
}

/// Whether an SM holds a CTA of each of two launches that are to run beside each other, or the first leaves whole SMs to
/// the other.
fn check_room(gpu: &Gpu, plan: &[Launch], launches: &[Ready]) -> Result<(), KernelError> {
    for (at, launch) in plan.iter().enumerate().filter(|(_, launch)| launch.beside && launch.programmatic) {
        if let Some(before) = (0..at).rev().find(|before| plan[*before].stream == launch.stream) {
            let resources = |at: usize| launches[at].info.resources;
            if launches[before].grid >= gpu.info().sms {
                fits(gpu.info(), &[resources(before), resources(at)])?;
            }
        }
    }
    Ok(())
}

/// Where launches are put, what they wait for, and what the caller's stream waits for at the end.
///
/// A launch waits for the last of each other stream's that it comes after; the others there are done by then.
fn places(launches: &[Launch]) -> (Vec<Place>, Vec<usize>) {
    // Streams may have any numbers; here they follow each other, 0 being the caller's.
    let mut streams = BTreeMap::from([(0, 0)]);
    for launch in launches {
        let next = streams.len();
        streams.entry(launch.stream).or_insert(next);
    }
    let stream_of = |launch: usize| streams[&launches[launch].stream];
    let last_of_each = |those: &mut dyn Iterator<Item = usize>| {
        let mut last = BTreeMap::new();
        those.for_each(|launch| {
            let known = last.entry(stream_of(launch)).or_insert(launch);
            *known = (*known).max(launch);
        });
        last
    };
    let mut waited: Vec<Vec<usize>> = Vec::new();
    let mut joined = vec![false; launches.len()];
    for (at, launch) in launches.iter().enumerate() {
        let mut last = last_of_each(&mut launch.after.iter().map(|before| *before as usize));
        last.remove(&stream_of(at));
        if stream_of(at) == 0 {
            for before in last.values() {
                joined[*before] = true;
            }
        }
        waited.push(last.into_values().collect());
    }
    let mut ends = last_of_each(&mut (0..launches.len()));
    ends.remove(&0);
    let ends: Vec<usize> = ends.into_values().filter(|end| !joined[*end]).collect();
    let mut events = BTreeMap::new();
    for before in waited.iter().flatten().chain(&ends) {
        let next = events.len();
        events.entry(*before).or_insert(next);
    }
    let place = |(at, waits): (usize, &Vec<usize>)| Place {
        stream: stream_of(at),
        waits: waits.iter().map(|before| events[before]).collect(),
        event: events.get(&at).copied(),
    };
    (waited.iter().enumerate().map(place).collect(), ends.iter().map(|end| events[end]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Work;

    fn launches(of: &[(u32, &[u32])]) -> Vec<Launch> {
        let launch = |(stream, after): &(u32, &[u32])| Launch {
            stream: *stream,
            after: after.to_vec(),
            ..Launch::new(Work::Packs(Vec::new()))
        };
        of.iter().map(launch).collect()
    }

    #[test]
    fn one_stream_needs_no_events() {
        let (places, joins) = places(&launches(&[(0, &[]), (0, &[0]), (0, &[0, 1])]));
        assert!(places.iter().all(|place| place.stream == 0 && place.waits.is_empty() && place.event.is_none()));
        assert!(joins.is_empty());
    }

    #[test]
    fn a_merge_joins_the_streams_and_the_caller_waits_for_what_nobody_joined() {
        // Tiles on three streams, the second with two; their merge; a prefill that nothing waits for.
        let (places, joins) =
            places(&launches(&[(0, &[]), (5, &[]), (5, &[]), (9, &[]), (0, &[0, 1, 2, 3]), (2, &[])]));
        assert_eq!(places.iter().map(|place| place.stream).collect::<Vec<_>>(), [0, 1, 1, 2, 0, 3]);
        let event = |at: usize| places[at].event;
        assert_eq!((event(0), event(1), event(4)), (None, None, None), "nobody waits for these by an event");
        assert_eq!(places[4].waits, [event(2).unwrap(), event(3).unwrap()]);
        assert_eq!(joins, [event(5).unwrap()]);
    }
}
