//! Into how many pieces packscope's own prefill kernels cut the KV of chunks.
//!
//! CTAs take items one after another, so few items leave SMs idle: all of them, or those without one in the last round. 72
//! items on 132 SMs take as long as 132. Cut into pieces they fill the SMs, for a merge.
//!
//! ```text
//! pieces    of each chunk ⌈KV / longest piece⌉, of 512 tokens or more: below, an item's begin and end take as long as its tiles
//! longest   the longest KV, whole or in 2, 3, … pieces
//! time      max(what runs beside, the items one after another on the SMs + a merge where KV is cut)
//! taken     the fewest pieces within 2 % of the least time
//! ```
//!
//! Worked number, a chunk of 128 at 65,536 of 8/1 heads beside short decodes: 8 items of 760 µs on 132 SMs, so 16 pieces of
//! 4,096 tokens each, 128 items of 50 µs, and a merge.

use crate::decision::{Choice, Decision, Price};
use crate::hw::{MergeKernel, PrefillResources};
use crate::pack::PackInput;
use crate::plan::hybrid::explain::{decision, timed};
use crate::plan::hybrid::items::{Items, lengths};
use crate::plan::hybrid::sms::{in_queue_order, one_after_another};
use crate::plan::hybrid::tasks;
use crate::workload::Request;

/// Shortest piece of a split chunk, in KV tokens.
const LEAST_PIECE: u64 = 512;
/// Pieces of the longest chunk that are tried.
const TRIED: [u64; 14] = [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 32];
/// Items an SM beyond which finer pieces fill no round better.
const MANY: u64 = 6;
/// How much longer than the least time may be taken for fewer pieces.
const NEAR: f64 = 1.02;

/// How often the KV of the chunks is cut.
#[derive(Clone, Debug)]
pub(super) struct Splits {
    /// Longest pieces that were tried with what they take, ns.
    tried: Vec<(u64, f64)>,
    taken: usize,
}

/// What the choice looks at.
struct Work<'a> {
    input: &'a PackInput<'a>,
    prefill: &'a PrefillResources,
    items: Items,
    /// Query and KV tokens of the chunks.
    chunks: Vec<(u64, u64)>,
    /// What runs beside, ns.
    beside: f64,
}

impl Splits {
    /// Beside decodes that take `beside` ns.
    pub(super) fn of(input: &PackInput<'_>, (prefill, items): (&PrefillResources, Items), beside: f64) -> Self {
        let chunks: Vec<(u64, u64)> = input.batch.prefills().filter_map(|(_, request)| lengths(request)).collect();
        let work = Work { input, prefill, items, chunks, beside };
        let longest = work.chunks.iter().map(|(_, kv)| *kv).max().unwrap_or(1).max(1);
        let most = (MANY * u64::from(input.device.sm_count)).max(work.count(longest) * 5 / 4);
        let piece = |pieces: u64| longest.div_ceil(pieces);
        let open = TRIED.into_iter().map(piece).take_while(|piece| *piece >= LEAST_PIECE.min(longest));
        let tried: Vec<(u64, f64)> =
            open.take_while(|piece| work.count(*piece) <= most).map(|piece| (piece, work.time(piece))).collect();
        let least = tried.iter().map(|(_, time)| *time).fold(f64::INFINITY, f64::min);
        let taken = tried.iter().position(|(_, time)| *time <= NEAR * least).unwrap_or(0);
        Self { tried, taken }
    }

    /// Pieces of a request's KV.
    pub(super) fn of_request(&self, request: &Request) -> u32 {
        let piece = self.tried.get(self.taken).map_or(u64::MAX, |(piece, _)| *piece);
        lengths(request).map_or(1, |(_, kv)| pieces_of(kv, piece) as u32)
    }

    /// What it takes with what runs beside, ns.
    pub(super) fn time(&self) -> f64 {
        self.tried.get(self.taken).map_or(0.0, |(_, time)| *time)
    }

    pub(super) fn explain(&self) -> Decision {
        let way = |(piece, time): &(u64, f64)| {
            let what = match self.tried.first() {
                Some((whole, _)) if whole == piece => "prefill KV whole".to_owned(),
                _ => format!("prefill KV in pieces of up to {piece} tokens"),
            };
            timed(what, Price::one_kernel(*time))
        };
        let considered = self.tried.iter().map(way).collect();
        let rule = "the longest pieces within 2 % of the least time: that of the items one after another on the SMs and of a merge where KV is cut, or of the decodes beside where these take longer";
        decision(Choice::Split, (considered, self.taken), rule, None)
    }
}

/// Pieces of so much KV where the longest may have so many tokens.
fn pieces_of(kv: u64, piece: u64) -> u64 {
    kv.div_ceil(piece).min(kv / LEAST_PIECE).max(1)
}

impl Work<'_> {
    /// Items where no piece is longer.
    fn count(&self, piece: u64) -> u64 {
        self.chunks.iter().map(|(chunk, kv)| self.items.of_chunk(*chunk) * pieces_of(*kv, piece)).sum()
    }

    fn time(&self, piece: u64) -> f64 {
        let prefill = one_after_another(&self.in_order(piece), self.input.device.sm_count);
        self.beside.max(prefill + self.merge(piece))
    }

    /// Times of the items in the order of the queue.
    fn in_order(&self, piece: u64) -> Vec<f64> {
        let of_head = self.chunks.iter().flat_map(|chunk| self.of_chunk(*chunk, piece)).collect();
        in_queue_order(of_head, self.input.batch.shape.kv_heads, self.items.heads)
    }

    /// The pieces of a chunk for one head, up to the causal bound of each block of rows.
    fn of_chunk(&self, (chunk, kv): (u64, u64), piece: u64) -> impl Iterator<Item = f64> + '_ {
        tasks::pieces((chunk as u32, kv as u32), self.items.tokens, pieces_of(kv, piece) as u32)
            .filter(|piece| !piece.kv.is_empty())
            .map(|piece| self.prefill.item_ns(self.input.device, &self.input.batch.shape, piece.kv.len() as u64))
    }

    /// The merge of all rows that are cut, ns: a launch, the trips of the row with the most partials, and the bytes of all.
    fn merge(&self, piece: u64) -> f64 {
        let (device, shape) = (self.input.device, &self.input.batch.shape);
        let cut =
            self.chunks.iter().map(|(chunk, kv)| (*chunk, pieces_of(*kv, piece))).filter(|(_, pieces)| *pieces > 1);
        let (most, partials) =
            cut.fold((0, 0), |(most, sum), (chunk, pieces)| (pieces.max(most), sum + chunk * pieces));
        if most == 0 {
            return 0.0;
        }
        let sim = &device.sim;
        let launch = sim.kernel_gap + sim.cta_prologue + sim.idle_latency;
        let bytes = 2.0 * partials as f64 * shape.partial_bytes().as_f64();
        let trips = |kernel: MergeKernel| kernel.trips_of_row(most as u32, shape.query_heads, shape.head_dim);
        let trips = f64::from(device.merge_kernel.map_or(1, trips)) * sim.merge_trip.as_f64();
        launch.as_f64() + trips + bytes / (device.reachable_bytes_per_s() * 1e-9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hw;
    use crate::pack::testing::with_input;
    use crate::workload::{AttentionShape, Batch, BatchSpec, PrefixTree, RequestSpec};

    fn batch(chunks: &[(u64, u64)], (query_heads, kv_heads): (u32, u32)) -> Batch {
        let shape = AttentionShape { query_heads, kv_heads, ..AttentionShape::default() };
        let requests = chunks.iter().map(|(chunk, kv)| RequestSpec::Prefill { chunk: *chunk, kv: *kv }).collect();
        BatchSpec { requests, ..BatchSpec::empty(shape) }.build().unwrap()
    }

    /// Of a batch on an H200, beside what takes so many ns.
    fn splits(batch: &Batch, beside: f64) -> Splits {
        let full = hw::find("h200-sxm").unwrap().prefill_kernel.unwrap().full;
        with_input(batch, &PrefixTree::of(batch), ("h200-sxm", None), |input| {
            Splits::of(input, (&full, Items::of(input, &full)), beside)
        })
    }

    fn pieces(batch: &Batch, beside: f64) -> Vec<u32> {
        let splits = splits(batch, beside);
        batch.prefills().map(|(_, request)| splits.of_request(request)).collect()
    }

    #[test]
    fn the_worked_number_holds() {
        assert_eq!(pieces(&batch(&[(128, 65_536)], (8, 1)), 0.0), [16]);
    }

    #[test]
    fn items_that_leave_sms_idle_are_cut_and_those_that_fill_them_are_not() {
        // 9 blocks of 16 tokens for 8 KV heads, then 128 of 128 for 16 query heads.
        assert!(pieces(&batch(&[(131, 12_000)], (64, 8)), 0.0)[0] > 2);
        assert_eq!(pieces(&batch(&[(16_384, 16_384)], (16, 4)), 0.0), [1]);
        assert_eq!(pieces(&batch(&[(1024, 12_288)], (16, 4)), 0.0), [1], "128 items");
    }

    #[test]
    fn chunks_are_cut_by_their_length_and_not_below_512_tokens() {
        let lengths = [(8, 900), (8, 1100), (8, 4000), (8, 8000)];
        let pieces = pieces(&batch(&lengths, (32, 4)), 0.0);
        assert!(pieces.is_sorted() && pieces[0] == 1 && pieces[3] > 2 * pieces[1], "{pieces:?}");
        assert!(lengths.iter().zip(&pieces).all(|((_, kv), pieces)| kv / u64::from(*pieces) >= LEAST_PIECE));
    }

    #[test]
    fn what_runs_beside_longer_spares_the_merge() {
        let batch = batch(&[(64, 8192)], (32, 8));
        assert!(pieces(&batch, 0.0)[0] > 1);
        assert_eq!(pieces(&batch, 1e6), [1]);
        assert!(splits(&batch, 1e6).time() >= 1e6);
    }

    #[test]
    fn the_fewest_pieces_of_those_that_take_about_the_least_are_taken() {
        for chunks in [&[(64, 8192)][..], &[(5, 3000), (5, 7000), (300, 900)], &[(2048, 8192)], &[(1, 600)]] {
            let splits = splits(&batch(chunks, (48, 8)), 0.0);
            let least = splits.tried.iter().map(|(_, time)| *time).fold(f64::INFINITY, f64::min);
            assert!(splits.time() <= NEAR * least);
            assert!(splits.tried[..splits.taken].iter().all(|(_, time)| *time > NEAR * least));
            let told = splits.explain();
            assert_eq!((told.considered.len(), told.chosen), (splits.tried.len(), splits.taken));
        }
    }
}
