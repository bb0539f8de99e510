//! Ways to break a capture, from a flipped bit to a file whose every checksum is right.

use anyhow::Result;
use engine::capture::{self, Capture, Spans};
use serde_json::{Number, Value};

use super::container::{Chunk, INDEX, Kind, Parts};
use crate::draw::Draw;

/// Kinds of chunks of all versions, and one that never was.
const KINDS: [Kind; 14] = [
    *b"META", *b"BTCH", *b"PLAN", *b"RNDS", *b"PREF", *b"KERN", *b"WARN", *b"SPAN", *b"CNTR", *b"HWCN", *b"DCSN",
    *b"INDX", *b"ROLE", *b"????",
];

/// A file made from one of the bases.
pub(super) fn damaged(draw: &mut Draw, bases: &[Vec<u8>]) -> Result<Vec<u8>> {
    // The last of the bases is large; it comes seldom.
    let last = bases.len() - 1;
    let at = if draw.one_in(60) { last } else { draw.at(last) };
    let base = &bases[at];
    match draw.below(8) {
        0 => Ok(raw(draw, base.clone())),
        1 | 2 => values(draw, base),
        _ => {
            let mut parts = Parts::of(base)?;
            let other = Parts::of(&bases[draw.at(last)])?;
            for _ in 0..draw.within(1, 3) {
                in_parts(draw, &mut parts, &other);
            }
            let bytes = parts.bytes()?;
            Ok(if draw.one_in(10) { raw(draw, bytes) } else { bytes })
        }
    }
}

/// Damage as a disk does it: no checksum is put right.
fn raw(draw: &mut Draw, mut bytes: Vec<u8>) -> Vec<u8> {
    match draw.below(4) {
        0 => bytes.truncate(draw.at(bytes.len() + 1)),
        1 => {
            let place = draw.at(bytes.len() + 1);
            let count = draw.within(1, 40);
            let strange: Vec<u8> = (0..count).map(|_| draw.bits() as u8).collect();
            bytes.splice(place..place, strange);
        }
        2 => {
            let (begin, length) = (draw.at(bytes.len()), draw.at(200));
            let end = bytes.len().min(begin + length);
            bytes.drain(begin..end);
        }
        _ => {
            for _ in 0..draw.within(1, 8) {
                let at = draw.at(bytes.len());
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << draw.below(8);
                }
            }
        }
    }
    bytes
}

/// Another figure in one or a few places of a capture in memory, then written as any other.
fn values(draw: &mut Draw, base: &[u8]) -> Result<Vec<u8>> {
    let sound = capture::from_bytes(base)?.capture;
    let mut tree = serde_json::to_value(&sound)?;
    for _ in 0..draw.within(1, 4) {
        change(draw, &mut tree);
    }
    // What is no capture any more stays one.
    let mut changed: Capture = serde_json::from_value(tree).unwrap_or(sound);
    even(&mut changed.spans);
    Ok(capture::to_bytes(&changed)?)
}

/// Columns of one length, which the type asks for.
fn even(spans: &mut Spans) {
    let small = [&spans.launch, &spans.cta, &spans.sm, &spans.slot].map(Vec::len);
    let times = [&spans.begin, &spans.first_tile, &spans.loop_end, &spans.end].map(Vec::len);
    let least = small.into_iter().chain(times).fold(spans.role.len(), usize::min);
    spans.role.truncate(least);
    for column in [&mut spans.launch, &mut spans.cta, &mut spans.sm, &mut spans.slot] {
        column.truncate(least);
    }
    for column in [&mut spans.begin, &mut spans.first_tile, &mut spans.loop_end, &mut spans.end] {
        column.truncate(least);
    }
}

/// Changes one leaf, found by a walk that takes each branch alike.
fn change(draw: &mut Draw, value: &mut Value) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            let at = draw.at(fields.len());
            if let Some(field) = fields.values_mut().nth(at) {
                change(draw, field);
            }
        }
        Value::Array(list) if !list.is_empty() => match draw.below(12) {
            0 => drop(list.pop()),
            1 => {
                let (from, to) = (draw.at(list.len()), draw.at(list.len()));
                list.swap(from, to);
            }
            2 => {
                let twice = draw.of(list).clone();
                let at = draw.at(list.len());
                list.insert(at, twice);
            }
            _ => {
                let at = draw.at(list.len());
                change(draw, &mut list[at]);
            }
        },
        Value::Number(number) => *number = another(draw, number),
        Value::String(text) => draw.damage(text),
        Value::Bool(flag) => *flag = !*flag,
        other => *other = Value::Number(Number::from(draw.any32())),
    }
}

fn another(draw: &mut Draw, number: &Number) -> Number {
    if let Some(float) = number.as_f64().filter(|_| number.is_f64()) {
        let other = match draw.below(4) {
            0 => -float,
            1 => float * 1e300,
            2 => draw.bits() as f64,
            _ => float * 1e-300,
        };
        return Number::from_f64(other).unwrap_or_else(|| Number::from(0));
    }
    let near = number.as_u64().unwrap_or(0);
    match draw.below(4) {
        0 => near.wrapping_add(1).into(),
        1 => near.saturating_sub(1).into(),
        2 => draw.any32().into(),
        _ => draw.any().into(),
    }
}

/// One change to the chunks, whose checksums are put right.
fn in_parts(draw: &mut Draw, parts: &mut Parts, other: &Parts) {
    if parts.chunks.is_empty() {
        return;
    }
    let at = draw.at(parts.chunks.len());
    match draw.below(20) {
        0 => drop(parts.chunks.remove(at)),
        1 => {
            let twice = parts.chunks[at].clone();
            let place = draw.at(parts.chunks.len());
            parts.chunks.insert(place, twice);
        }
        2 => {
            let with = draw.at(parts.chunks.len());
            parts.chunks.swap(at, with);
        }
        3 if !other.chunks.is_empty() => {
            let strange = draw.of(&other.chunks).clone();
            match parts.find(strange.kind).filter(|_| !draw.one_in(4)) {
                Some(mine) => *mine = strange,
                None => parts.chunks.push(strange),
            }
        }
        4 => parts.chunks[at].number = draw.any32(),
        5 => parts.chunks[at].kind = draw.pick(KINDS),
        6 => parts.chunks[at].claimed = Some(draw.any32()),
        7 => parts.versions.0 = draw.pick([0, 1, 2, 3, 4, u32::MAX]),
        8 => parts.versions = draw.pick([(1, 1), (2, 2), (3, 3), (1, 3), (3, 1), (4, 4), (0, 0)]),
        9 => parts.chunks[at].window = Some(draw.within(10, 31) as u32),
        10 | 11 => bomb(draw, parts),
        12 => promise(draw, parts),
        _ => content(draw, &mut parts.chunks[at].raw),
    }
}

/// Changes the content of a chunk.
fn content(draw: &mut Draw, raw: &mut Vec<u8>) {
    let at = draw.at(raw.len() + 1);
    let strange: Vec<u8> = match draw.below(6) {
        0 => vec![draw.bits() as u8],
        1 => varint(draw.any()),
        2 => draw.pick([f64::NAN, f64::INFINITY, -1.0, -0.0, 1e308, 5e-324]).to_le_bytes().to_vec(),
        3 => {
            let length = draw.at(raw.len().min(4096) + 1);
            raw.iter().copied().skip(at).take(length).collect()
        }
        4 => vec![0; draw.at(20)],
        _ => vec![0xff; draw.at(12)],
    };
    match draw.below(4) {
        0 => raw.truncate(at),
        1 => drop(raw.splice(at..at, strange)),
        _ => {
            let end = raw.len().min(at + strange.len());
            raw.splice(at..end, strange);
        }
    }
}

fn varint(value: u64) -> Vec<u8> {
    postcard::to_stdvec(&value).unwrap_or_default()
}

/// Content that is small in the file and large out of it, in any chunk, with counts of META that fit.
fn bomb(draw: &mut Draw, parts: &mut Parts) {
    let kind = draw.pick(KINDS);
    let length = draw.pick([1 << 16, 1 << 20, 10 << 20, 40 << 20, 100 << 20, (256 << 20) - 16]);
    let any = draw.any();
    let count = draw.pick([length as u64, length as u64 / 2, length as u64 / 9, 65_536, any]);
    let filling: &[u8] = match (draw.below(4), kind) {
        (_, [b'B', ..]) => b"(tokens:1),",
        (0, _) => &[1],
        (1, _) => &[1, 0],
        _ => &[0],
    };
    let mut raw = if kind == *b"BTCH" { b"(schema:1,roots:[".to_vec() } else { varint(count) };
    raw.extend(filling.iter().copied().cycle().take(length));
    if kind == *b"BTCH" {
        raw.extend(b"])");
    }
    if kind == INDEX {
        parts.index = Some(raw);
        return;
    }
    if draw.one_in(2) {
        counts(draw, parts, count);
    }
    let number = if kind == *b"SPAN" || kind == *b"CNTR" { draw.below(3) as u32 } else { 0 };
    let chunk = Chunk { kind, number, raw, claimed: None, window: None };
    let place = draw.at(parts.chunks.len() + 1);
    match parts.find(kind) {
        Some(there) => *there = chunk,
        None => parts.chunks.insert(place, chunk),
    }
}

/// Other counts in META than the file has.
fn promise(draw: &mut Draw, parts: &mut Parts) {
    let count = draw.any();
    counts(draw, parts, count);
}

/// Puts `count` in the place of one or all of the counts at the end of META.
fn counts(draw: &mut Draw, parts: &mut Parts, count: u64) {
    let version = parts.versions.0;
    let Some(meta) = parts.find(*b"META") else { return };
    let which = draw.at(6);
    let mut ends: Vec<u64> = Vec::new();
    let how_many = if version < 3 { 4 } else { 5 };
    for _ in 0..how_many {
        ends.push(take_last(&mut meta.raw).unwrap_or(0));
    }
    for at in (0..how_many).rev() {
        // All but the spans are 32 bits wide.
        let fits = if at == how_many - 1 { count } else { count.min(u64::from(u32::MAX)) };
        meta.raw.extend(varint(if which == at || which == 5 { fits } else { ends[at] }));
    }
}

/// Takes the last variable-length number off.
fn take_last(raw: &mut Vec<u8>) -> Option<u64> {
    let last = raw.len().checked_sub(1)?;
    let begin = (0..last).rev().take_while(|&at| raw[at] >= 0x80).last().unwrap_or(last);
    let number = postcard::from_bytes(&raw[begin..]).ok()?;
    raw.truncate(begin);
    Some(number)
}
