//! What POD's paper reports of Figures 6 and 11, beside what came out.

use super::row::{HFUSE, OURS, RELEASED, SERIAL, STREAMS, Timed, sorted_gains};

/// What a paper says and what came out.
pub(super) struct Claim {
    pub(super) what: &'static str,
    pub(super) paper: &'static str,
    pub(super) got: String,
    /// Whether it points the same way.
    pub(super) agrees: bool,
    /// Whether a number is within ten points of the paper's, where it gives one.
    pub(super) near: Option<bool>,
}

/// Whether a gain is within ten points of the published one.
pub(super) fn near(gain: f64, paper: f64) -> bool {
    (gain - paper).abs() <= 0.1
}

pub(super) fn median(sorted: &[f64]) -> f64 {
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

pub(super) fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0), |(sum, count), value| (sum + value, count + 1));
    sum / f64::from(count.max(1))
}

fn most(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(f64::NEG_INFINITY, f64::max)
}

fn least(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(f64::INFINITY, f64::min)
}

pub(super) fn gain_text(gain: f64) -> String {
    format!("{:+.1} %", 100.0 * (gain - 1.0))
}

pub(super) fn claims_of_6(few: &[Timed], many: &[Timed]) -> Vec<Claim> {
    let streams = |rows: &[Timed]| most(rows.iter().map(|row| row.gain(STREAMS)));
    let serial = most(few.iter().zip(many).map(|(few, many)| many.times[SERIAL].as_f64() / few.times[SERIAL].as_f64()));
    let flat = mean(few.iter().zip(many).map(|(few, many)| many.times[STREAMS].as_f64() / few.times[STREAMS].as_f64()));
    let first = many[0].times[SERIAL].as_f64() / few[0].times[SERIAL].as_f64();
    let all = || few.iter().chain(many);
    let next_best =
        most(all().map(|row| row.times[STREAMS].min(row.times[HFUSE]).as_f64() / row.times[RELEASED].as_f64()));
    // What HFuse gains at its best chunk, which that is, and at the last; of the run of either batch size.
    let course = |rows: &[Timed]| {
        let best = (0..rows.len()).max_by(|a, b| rows[*a].gain(HFUSE).total_cmp(&rows[*b].gain(HFUSE))).unwrap_or(0);
        (best, rows[best].gain(HFUSE), rows[rows.len() - 1].gain(HFUSE))
    };
    let courses = [course(few), course(many)];
    let of_course = |(best, most, last): (usize, f64, f64)| {
        format!("{} in chunk {best}, {} in the last", gain_text(most), gain_text(last))
    };
    // Time of HFuse over that of POD in the first and in the second half of each run.
    let half = |rows: &[Timed], late: bool| {
        let (early, rest) = rows.split_at(rows.len() / 2);
        mean(if late { rest } else { early }.iter().map(|row| row.times[HFUSE].as_f64() / row.times[RELEASED].as_f64()))
    };
    let behind = [false, true].map(|late| half(few, late).midpoint(half(many, late)));
    let beats =
        all().filter(|row| [SERIAL, STREAMS, HFUSE].iter().all(|way| row.times[RELEASED] <= row.times[*way])).count();
    vec![
        Claim {
            what: "most that streams gain over serial, at 55 decodes",
            paper: "up to +20 %",
            got: format!("{} (at 54: {})", gain_text(streams(many)), gain_text(streams(few))),
            agrees: streams(many) > streams(few) + 0.02,
            near: Some(near(streams(many), 1.2)),
        },
        Claim {
            what: "most that serial grows from 54 to 55 decodes",
            paper: "up to +17 %",
            got: gain_text(serial),
            agrees: serial > 1.05,
            near: Some(near(serial, 1.17)),
        },
        Claim {
            what: "growth of serial in the first chunk, nearly all decode",
            paper: "more than +25 % in decode",
            got: gain_text(first),
            agrees: first > 1.05,
            near: Some(near(first, 1.25)),
        },
        Claim {
            what: "growth of streams from 54 to 55 decodes, mean",
            paper: "about none",
            got: gain_text(flat),
            agrees: flat < 1.1,
            near: Some(near(flat, 1.0)),
        },
        Claim {
            what: "what HFuse gains over serial at its best, and in the last chunk",
            paper: "degrades in late chunks",
            got: format!("{} (at 54: {})", of_course(courses[1]), of_course(courses[0])),
            agrees: courses.iter().all(|(best, most, last)| *best > 0 && last + 0.02 < *most),
            near: None,
        },
        Claim {
            what: "time of HFuse over that of POD in the first half, and in the second",
            paper: "falls behind in late chunks",
            got: format!("{}, {}", gain_text(behind[0]), gain_text(behind[1])),
            agrees: behind[1] > behind[0] + 0.02,
            near: None,
        },
        Claim {
            what: "most that POD gains over the better of streams and HFuse",
            paper: "up to +29 %",
            got: gain_text(next_best),
            agrees: next_best > 1.1,
            near: Some(near(next_best, 1.29)),
        },
        Claim {
            what: "batches in which POD is faster than serial, streams and HFuse",
            paper: "all",
            got: format!("{beats} of {}", few.len() + many.len()),
            agrees: beats == few.len() + many.len(),
            near: None,
        },
    ]
}

pub(super) fn claims_of_11(rows: &[Timed]) -> Vec<Claim> {
    let gains = |way: usize| rows.iter().map(move |row| row.gain(way));
    let hfuse = sorted_gains(rows, HFUSE);
    let within = |way: usize| {
        let near = rows.iter().filter(|row| row.times[way].as_f64() <= 1.1 * row.oracle).count();
        100.0 * near as f64 / rows.len().max(1) as f64
    };
    let slower = |way: usize| gains(way).filter(|gain| *gain < 1.0).count();
    let pod = |figure: &dyn Fn(usize) -> String| format!("{} (ours: {})", figure(RELEASED), figure(OURS));
    let peak = most(gains(RELEASED));
    let average = mean(gains(RELEASED));
    let better = [STREAMS, HFUSE].into_iter().all(|way| average > mean(gains(way)));
    vec![
        Claim {
            what: "most that POD gains over serial",
            paper: "+59 %",
            got: pod(&|way| gain_text(most(gains(way)))),
            agrees: peak > 1.0,
            near: Some(near(peak, 1.59)),
        },
        Claim {
            what: "mean that POD gains",
            paper: "+28 %",
            got: pod(&|way| gain_text(mean(gains(way)))),
            agrees: average > 1.0,
            near: Some(near(average, 1.28)),
        },
        Claim {
            what: "POD gains more than streams and HFuse, mean",
            paper: "yes",
            got: if better { "yes" } else { "no" }.to_owned(),
            agrees: better,
            near: None,
        },
        Claim {
            what: "batches in which POD is slower than serial",
            paper: "none",
            got: pod(&|way| slower(way).to_string()),
            agrees: slower(RELEASED) == 0,
            near: None,
        },
        Claim {
            what: "batches within 10 % of the oracle",
            paper: "25 %",
            got: pod(&|way| format!("{:.0} %", within(way))),
            agrees: within(RELEASED) > 0.0,
            near: Some(near(within(RELEASED) / 100.0, 0.25)),
        },
        Claim {
            what: "median that HFuse gains",
            paper: "+11 %",
            got: gain_text(median(&hfuse)),
            agrees: median(&hfuse) > 1.0,
            near: Some(near(median(&hfuse), 1.11)),
        },
        Claim {
            what: "HFuse at its worst",
            paper: "−13 %",
            got: gain_text(least(gains(HFUSE))),
            agrees: least(gains(HFUSE)) < 1.0,
            near: Some(near(least(gains(HFUSE)), 0.87)),
        },
        Claim {
            what: "streams at their worst",
            paper: "below serial in rare cases",
            got: gain_text(least(gains(STREAMS))),
            agrees: least(gains(STREAMS)) < 1.0,
            near: None,
        },
    ]
}
