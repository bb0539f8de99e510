//! A small packer for the benchmark: trees of the form "nodes per level _ tokens per node", packed for least traffic,
//! cut so that a persistent kernel stays balanced.

use kernels::{DecodeShape, PackTask, Tile};

/// Arrays of a plan, owned.
#[derive(Debug, Default)]
pub(crate) struct OwnedPlan {
    pub tiles: Vec<Tile>,
    pub packs: Vec<PackTask>,
    pub query_index: Vec<u32>,
    pub block_ids: Vec<u32>,
    pub merge_offsets: Vec<u32>,
    pub merge_slots: Vec<u32>,
    pub num_queries: u32,
    pub num_slots: u32,
    pub blocks: u32,
    /// Blocks of each request, for the reference.
    pub tables: Vec<Vec<u32>>,
    pub lengths: Vec<u32>,
}

/// What may be tuned.
#[derive(Clone, Debug)]
pub(crate) struct Knobs {
    pub max_rows: u32,
    /// Small packs take four KV heads side by side.
    pub side_by_side: bool,
    pub n: u32,
    /// Lanes (CTAs) that share the work.
    pub lanes: u32,
    /// Pieces per lane that a long pack is cut for.
    pub rounds: u32,
    /// Packs in the order of the tree, so that partials are merged while L2 holds them, instead of the longest first.
    pub tree_order: bool,
    /// Small packs, which DRAM bounds, between the shared ones, which L2 and the tensor cores bound, so that a share of
    /// this many hundredths of the small packs' work runs while there are shared packs.
    pub mix: Option<u32>,
    /// How much shorter the pieces of small packs are, whose items take four KV heads at once.
    pub small: u32,
    /// Least tokens of a piece.
    pub min_piece: u32,
    /// Weight of a re-read (from L2) and of a partial's bytes, against DRAM bytes.
    pub reread: f64,
    pub partial: f64,
}

struct Node {
    queries: Vec<u32>,
    blocks: Vec<u32>,
    children: Vec<usize>,
}

struct Pack {
    queries: Vec<u32>,
    blocks: Vec<u32>,
}

pub(crate) fn plan(tree: &str, shape: &DecodeShape, knobs: &Knobs, scatter: bool) -> OwnedPlan {
    let (nodes, roots, batch, blocks) = build(tree, shape, scatter);
    let mut packs = Vec::new();
    for &root in &roots {
        schedule(&nodes, root, &[], shape, knobs, &mut packs);
    }
    let mut out = OwnedPlan { num_queries: batch, blocks, ..OwnedPlan::default() };
    out.tables = vec![Vec::new(); batch as usize];
    for node in &nodes {
        for &q in &node.queries {
            out.tables[q as usize].extend(&node.blocks);
        }
    }
    out.lengths = out.tables.iter().map(|t| t.len() as u32 * shape.block_size).collect();
    lower(cut(packs, shape, knobs), shape, knobs, &mut out);
    out
}

fn build(tree: &str, shape: &DecodeShape, scatter: bool) -> (Vec<Node>, Vec<usize>, u32, u32) {
    let numbers = |s: &str| -> Vec<u32> { s.split(',').map(|x| x.parse().unwrap()).collect() };
    let (b, l) = tree.split_once('_').unwrap();
    let (b, l) = (numbers(b), numbers(l));
    let batch = *b.last().unwrap();
    let total: u32 = b.iter().zip(&l).map(|(b, l)| b * l.div_ceil(shape.block_size)).sum();
    let mut ids: Vec<u32> = (0..total).collect();
    if scatter {
        use rand::SeedableRng;
        use rand::seq::SliceRandom;
        ids.shuffle(&mut rand::rngs::StdRng::seed_from_u64(7));
    }
    let mut next = 0_usize;
    let (mut nodes, mut level_start) = (Vec::<Node>::new(), Vec::new());
    for (k, (&count, &len)) in b.iter().zip(&l).enumerate() {
        level_start.push(nodes.len());
        for i in 0..count {
            let width = batch / count;
            let blocks = len.div_ceil(shape.block_size) as usize;
            let node = nodes.len();
            nodes.push(Node {
                queries: (i * width..(i + 1) * width).collect(),
                blocks: ids[next..next + blocks].to_vec(),
                children: Vec::new(),
            });
            next += blocks;
            if k > 0 {
                let parent = level_start[k - 1] + (i * b[k - 1] / count) as usize;
                nodes[parent].children.push(node);
            }
        }
    }
    (nodes, (0..b[0] as usize).collect(), batch, total)
}

fn schedule(nodes: &[Node], at: usize, inherited: &[u32], shape: &DecodeShape, knobs: &Knobs, out: &mut Vec<Pack>) {
    let node = &nodes[at];
    let blocks = [inherited, &node.blocks].concat();
    let per_pack = (knobs.max_rows / shape.group()).max(1);
    let chunks = |queries: usize| (queries as u32).div_ceil(per_pack);
    let emit = |out: &mut Vec<Pack>| {
        for queries in node.queries.chunks(per_pack as usize) {
            out.push(Pack { queries: queries.to_vec(), blocks: blocks.clone() });
        }
    };
    if node.children.is_empty() {
        return emit(out);
    }
    let kv_bytes = blocks.len() as f64 * f64::from(shape.block_size * shape.kv_heads * shape.head_dim * 4);
    let partial_bytes = f64::from(shape.q_heads * (shape.head_dim * 4 + 4)) * 2.0;
    let down: u32 = node.children.iter().map(|&c| chunks(nodes[c].queries.len())).sum();
    let split = f64::from(chunks(node.queries.len())) * kv_bytes * knobs.reread
        + node.queries.len() as f64 * partial_bytes * knobs.partial;
    let merge = f64::from(down) * kv_bytes * knobs.reread;
    if merge <= split {
        node.children.iter().for_each(|&c| schedule(nodes, c, &blocks, shape, knobs, out));
    } else {
        emit(out);
        node.children.iter().for_each(|&c| schedule(nodes, c, &[], shape, knobs, out));
    }
}

/// Cuts long packs so that each lane gets several pieces; the longest work first.
fn cut(packs: Vec<Pack>, shape: &DecodeShape, knobs: &Knobs) -> Vec<Pack> {
    let bs = shape.block_size;
    let total: u32 = packs.iter().map(|p| p.blocks.len() as u32 * bs).sum::<u32>() * shape.kv_heads;
    let per_lane = total / knobs.lanes.max(1);
    let limit = (per_lane / knobs.rounds.max(1)).max(knobs.min_piece.min(per_lane.max(1))).max(bs);
    let mut out = Vec::new();
    for pack in packs {
        let tokens = pack.blocks.len() as u32 * bs;
        let small = pack.queries.len() as u32 * shape.group() <= 16 && knobs.side_by_side;
        let limit = if small { (limit / knobs.small).max(bs) } else { limit };
        let pieces = (f64::from(tokens) / f64::from(limit) - 0.25).ceil().max(1.0) as usize;
        let size = pack.blocks.len().div_ceil(pieces);
        for blocks in pack.blocks.chunks(size) {
            out.push(Pack { queries: pack.queries.clone(), blocks: blocks.to_vec() });
        }
    }
    if knobs.tree_order {
        out.sort_by_key(|p| (p.queries[0], std::cmp::Reverse((p.queries.len(), p.blocks.len()))));
        return out;
    }
    out.sort_by_key(|p| std::cmp::Reverse((p.queries.len() > 1, p.blocks.len())));
    if let Some(share) = knobs.mix {
        return mix(out, f64::from(share) / 100.0);
    }
    out
}

/// Both kinds keep their order; each pack's place is where its kind's work has come to, and the shared packs' work ends
/// where `share` of the small packs' has.
fn mix(packs: Vec<Pack>, share: f64) -> Vec<Pack> {
    let shared = |p: &Pack| p.queries.len() > 1;
    let mut total = [0.0, 0.0];
    for pack in &packs {
        total[usize::from(shared(pack))] += pack.blocks.len() as f64;
    }
    let mut done = [0.0, 0.0];
    let mut placed: Vec<(f64, Pack)> = Vec::new();
    for pack in packs {
        let kind = usize::from(shared(&pack));
        let at = done[kind] / total[kind] * if kind == 1 { share } else { 1.0 };
        done[kind] += pack.blocks.len() as f64;
        placed.push((at, pack));
    }
    placed.sort_by(|a, b| a.0.total_cmp(&b.0));
    placed.into_iter().map(|(_, pack)| pack).collect()
}

fn lower(packs: Vec<Pack>, shape: &DecodeShape, knobs: &Knobs, out: &mut OwnedPlan) {
    let mut slots = vec![Vec::new(); out.num_queries as usize];
    for pack in packs {
        let rows = pack.queries.len() as u32 * shape.group();
        let tile = Tile {
            m: if rows > 32 {
                64
            } else if rows > 16 {
                32
            } else {
                16
            },
            n: if rows <= 16 && knobs.side_by_side { 16 } else { knobs.n },
        };
        let tile_index = out.tiles.iter().position(|t| *t == tile).unwrap_or_else(|| {
            out.tiles.push(tile);
            out.tiles.len() - 1
        });
        out.packs.push(PackTask {
            query_begin: out.query_index.len() as u32,
            num_queries: pack.queries.len() as u32,
            block_begin: out.block_ids.len() as u32,
            kv_tokens: pack.blocks.len() as u32 * shape.block_size,
            slot_begin: out.num_slots,
            tile: tile_index as u32,
            masks: None,
        });
        for (i, &q) in pack.queries.iter().enumerate() {
            slots[q as usize].push(out.num_slots + i as u32);
        }
        out.num_slots += pack.queries.len() as u32;
        out.query_index.extend(&pack.queries);
        out.block_ids.extend(&pack.blocks);
    }
    out.merge_offsets.push(0);
    for list in slots {
        out.merge_slots.extend(list);
        out.merge_offsets.push(out.merge_slots.len() as u32);
    }
}
