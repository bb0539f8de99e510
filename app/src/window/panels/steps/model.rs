//! Steps as columns: which stand where, which of several in one pixel is drawn, and its figures in words.

use engine::replay::{Replayed, Step};
use engine::units::{Nanos, Tokens, counted, grouped};

use crate::runs::replay::Replay;

/// One chart of a way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chart {
    /// Attention of a layer, and the first way's on the same batch.
    Attention,
    /// Slot time of a step: busy, then idle by cause.
    Bubbles,
    /// Decodes and prefill chunks.
    Requests,
    /// Bytes that CTAs issue, and the least that any plan moves.
    Bytes,
}

impl Chart {
    /// All of them, from the top.
    pub(super) const ALL: [Self; 4] = [Self::Attention, Self::Bubbles, Self::Requests, Self::Bytes];

    /// Its name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Attention => "attention",
            Self::Bubbles => "bubbles",
            Self::Requests => "requests",
            Self::Bytes => "KV bytes",
        }
    }

    /// What it shows, in one sentence.
    pub(super) fn about(self) -> &'static str {
        match self {
            Self::Attention => "attention of one layer; the line is the first way on the same batch",
            Self::Bubbles => "share of the slot time that is busy, then idle by cause, simulated",
            Self::Requests => "decodes, and above them prefill chunks",
            Self::Bytes => "bytes that the CTAs of one layer issue; the line is the least that any plan moves",
        }
    }

    /// Pixels that it is high.
    pub(super) fn height(self) -> f32 {
        match self {
            Self::Attention => 46.0,
            Self::Bubbles => 26.0,
            Self::Requests | Self::Bytes => 22.0,
        }
    }
}

/// The largest value of each chart over all ways, so that ways can be compared by eye.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Scales {
    pub(super) attention: f64,
    pub(super) requests: f64,
    pub(super) bytes: f64,
}

impl Scales {
    pub(super) fn of(replay: &Replay) -> Self {
        let steps = replay.ways.iter().flat_map(|way| &way.steps);
        steps.fold(Self::default(), |most, step| Self {
            attention: most.attention.max(step.attention.time.as_f64()).max(step.first_way().time.as_f64()),
            requests: most.requests.max(step.work.len() as f64),
            bytes: most.bytes.max(step.attention.issued.as_f64()),
        })
    }
}

/// What the axis of steps tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum By {
    /// Their number: the same width for each.
    #[default]
    Number,
    /// When they begin, and how long they take.
    Time,
}

/// Where the axis ends: at the last step, or the last nanosecond, of all ways.
pub(super) fn end(replay: &Replay, by: By) -> f64 {
    let ends = replay.ways.iter().map(|way| match by {
        By::Number => way.steps.len() as f64,
        By::Time => way.steps.last().map_or(0.0, |step| (step.begin + step.duration).as_f64()),
    });
    ends.fold(1.0, f64::max)
}

/// Pixels in which one step stands for all that begin there: the one whose attention takes longest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Column {
    /// Pixels from the left of the strip.
    pub(super) left: f32,
    pub(super) right: f32,
    /// The step that is drawn.
    pub(super) step: usize,
    /// Steps that it stands for.
    pub(super) count: usize,
}

/// The columns of a way on an axis that ends at `end` and is `width` pixels wide.
pub(super) fn columns(steps: &[Step], by: By, end: f64, width: f32) -> Vec<Column> {
    let x = |at: f64| (at / end * f64::from(width)) as f32;
    let mut columns: Vec<Column> = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        let (left, right) = match by {
            By::Number => (x(number as f64), x(number as f64 + 1.0)),
            By::Time => (x(step.begin.as_f64()), x((step.begin + step.duration).as_f64())),
        };
        match columns.last_mut().filter(|last| left - last.left < 1.0) {
            Some(last) => {
                last.right = right;
                last.count += 1;
                if step.attention.time > steps[last.step].attention.time {
                    last.step = number;
                }
            }
            None => columns.push(Column { left, right, step: number, count: 1 }),
        }
    }
    columns
}

/// The step at a pixel.
pub(super) fn at(columns: &[Column], x: f32) -> Option<&Column> {
    let past = columns.partition_point(|column| column.left <= x);
    columns.get(past.checked_sub(1)?).filter(|column| x <= column.right.max(column.left + 1.0))
}

/// Name of a way.
pub(super) fn name(way: &Replayed) -> String {
    format!("{} · {}", way.scheduler, way.strategy)
}

/// All that is known of a step, a line each.
pub(super) fn told(replay: &Replay, way: usize, number: usize) -> Vec<String> {
    let Some((served, step)) = replay.ways.get(way).and_then(|way| Some((way, way.steps.get(number)?))) else {
        return Vec::new();
    };
    let chunks: Vec<u64> = step.work.iter().filter_map(|work| work.chunk).collect();
    let decodes = (step.work.len() - chunks.len()) as u64;
    let prefill = match chunks.len() as u64 {
        0 => String::new(),
        many => format!(", {} of {} tokens", counted(many, "chunk"), grouped(chunks.iter().sum())),
    };
    let mut lines = vec![
        format!("step {number} of {}", name(served)),
        format!("begins at {}, takes {} over all layers", step.begin, step.duration),
        format!("{}{prefill}, {} KV tokens", counted(decodes, "decode"), Tokens(step.kv_tokens())),
        attention(replay, way, step),
        format!("{} issued, {} at the least (derived)", step.attention.issued, step.attention.compulsory),
        bubbles(step),
    ];
    let how = step.how.map_or("made from scratch", |how| how.name());
    let stood = if step.stood_in { ", each request alone: the scheduler refuses this step" } else { "" };
    lines.push(format!("plan: {how}{stood}"));
    lines
}

fn attention(replay: &Replay, way: usize, step: &Step) -> String {
    let source = |measured| if measured { "measured" } else { "simulated" };
    let (own, first) = (&step.attention, step.first_way());
    let told = format!("attention of a layer {} ({})", own.time, source(own.measured));
    match replay.ways.first() {
        Some(base) if way > 0 && own.measured == first.measured => {
            let change = (own.time.as_f64() / first.time.as_f64().max(1.0) - 1.0) * 100.0;
            format!("{told}, {change:+.1} % against {} under {}", first.time, name(base))
        }
        Some(base) if way > 0 => format!("{told}, {} {} under {}", first.time, source(first.measured), name(base)),
        _ => told,
    }
}

fn bubbles(step: &Step) -> String {
    let idle: Nanos = step.attention.bubbles.iter().map(|(_, time)| *time).fold(Nanos::ZERO, |sum, time| sum + time);
    let all = (step.attention.busy_slot + idle).as_f64().max(1.0);
    let share = |time: Nanos| 100.0 * time.as_f64() / all;
    let mut causes = step.attention.bubbles.clone();
    causes.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
    let named =
        causes.iter().take(4).map(|(cause, time)| format!("{} {:.0} %", cause.name().replace('-', " "), share(*time)));
    let busy = std::iter::once(format!("busy {:.0} %", share(step.attention.busy_slot)));
    busy.chain(named).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use engine::replay::Timed;
    use engine::units::Bytes;

    use super::*;

    fn step(begin: u64, attention: u64) -> Step {
        let attention = Timed {
            time: Nanos(attention),
            simulated: Nanos(attention),
            measured: false,
            issued: Bytes(9),
            compulsory: Bytes(3),
            busy_slot: Nanos(6),
            bubbles: Vec::new(),
        };
        Step {
            begin: Nanos(begin),
            duration: Nanos(10),
            work: Vec::new(),
            attention,
            first: None,
            rest: Nanos(1),
            how: None,
            stood_in: false,
            strategy: engine::plan::Strategy::Serial,
            blocks_held: 0,
        }
    }

    #[test]
    fn every_step_stands_in_one_column_and_the_longest_is_drawn() {
        let steps: Vec<Step> = (0..5000).map(|at| step(at * 10, if at == 1234 { 99 } else { at % 7 })).collect();
        for by in [By::Number, By::Time] {
            let end = if by == By::Number { 5000.0 } else { 50_000.0 };
            for width in [37.0, 640.0, 9000.0] {
                let columns = columns(&steps, by, end, width);
                assert!(columns.len() <= width as usize + 1, "{} in {width}", columns.len());
                assert_eq!(columns.iter().map(|column| column.count).sum::<usize>(), steps.len());
                assert!(columns.iter().any(|column| column.step == 1234), "the longest is in sight");
                for column in &columns {
                    assert_eq!(at(&columns, column.left + 0.01).unwrap().step, column.step);
                }
            }
        }
        assert!(at(&[], 3.0).is_none());
    }
}
