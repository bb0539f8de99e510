//! Which way wins where: the rows of a sweep as cells over two of its axes.
//!
//! Rows of one batch on one device are a *contest*. What of a way is on no axis competes: with batches and devices on the
//! axes, all schedulers, strategies, tiles and constants do. A cell may hold several contests; the way wins that takes
//! the most of them and, of those, needs the least time in the geometric mean over them, each as a factor of its best.
//! Worked: one contest of 80, 100 and 120 µs is won with a margin of 100 / 80 − 1 = 25 %.

use std::collections::BTreeMap;

use engine::sweep::Row;
use engine::units::grouped;

/// Most values of a number that stand by themselves; more are binned by powers of two.
const APART: usize = 24;

/// What a side of the map tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Axis {
    /// Nothing: one line of cells.
    All,
    /// The batch.
    Batch,
    /// Its requests.
    Requests,
    /// Its KV tokens.
    Tokens,
    /// The device.
    Device,
    /// The scheduler.
    Scheduler,
    /// The strategy.
    Strategy,
    /// The tile.
    Tile,
    /// The split constant.
    Constant,
}

impl Axis {
    /// All of them, in the order of the menus.
    pub(super) const ALL: [Self; 9] = [
        Self::All,
        Self::Batch,
        Self::Requests,
        Self::Tokens,
        Self::Device,
        Self::Scheduler,
        Self::Strategy,
        Self::Tile,
        Self::Constant,
    ];
    /// Parts of a way: those that are on no axis compete.
    const OF_WAYS: [Self; 4] = [Self::Scheduler, Self::Strategy, Self::Tile, Self::Constant];

    /// Name in the menus.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::All => "all in one",
            Self::Batch => "batch",
            Self::Requests => "requests",
            Self::Tokens => "KV tokens",
            Self::Device => "device",
            Self::Scheduler => "scheduler",
            Self::Strategy => "strategy",
            Self::Tile => "tile",
            Self::Constant => "split constant",
        }
    }
}

/// The values of an axis, and which of them each row has.
#[derive(Clone, Debug, Default)]
pub(super) struct Values {
    pub(super) labels: Vec<String>,
    of: Vec<usize>,
}

impl Values {
    pub(super) fn of(rows: &[Row], axis: Axis) -> Self {
        match axis {
            Axis::All => Self { labels: vec!["all".to_owned()], of: vec![0; rows.len()] },
            Axis::Batch => words(rows, |row| &row.batch),
            Axis::Device => words(rows, |row| &row.device),
            Axis::Scheduler => words(rows, |row| &row.scheduler),
            Axis::Strategy => words(rows, |row| &row.strategy),
            Axis::Tile => words(rows, |row| &row.tile),
            Axis::Requests => numbers(rows, |row| row.requests),
            Axis::Tokens => numbers(rows, |row| row.kv_tokens),
            Axis::Constant => constants(rows),
        }
    }
}

/// In the order in which they come: that of the grid.
fn words(rows: &[Row], of: impl Fn(&Row) -> &String) -> Values {
    let mut known: BTreeMap<&str, usize> = BTreeMap::new();
    let mut values = Values::default();
    for row in rows {
        let word = of(row);
        let at = *known.entry(word).or_insert_with(|| {
            values.labels.push(word.clone());
            values.labels.len() - 1
        });
        values.of.push(at);
    }
    values
}

fn numbers(rows: &[Row], of: impl Fn(&Row) -> u64) -> Values {
    let mut all: Vec<u64> = rows.iter().map(&of).collect();
    all.sort_unstable();
    all.dedup();
    if all.len() <= APART {
        let place = |row: &Row| all.partition_point(|value| *value < of(row));
        return Values { of: rows.iter().map(place).collect(), labels: all.iter().copied().map(grouped).collect() };
    }
    let bin = |value: u64| value.max(1).ilog2();
    let mut bins: Vec<u32> = all.iter().copied().map(bin).collect();
    bins.dedup();
    let label = |bin: &u32| format!("{} to {}", grouped(1 << bin), grouped((1_u64 << bin).saturating_mul(2) - 1));
    let place = |row: &Row| bins.partition_point(|known| *known < bin(of(row)));
    Values { of: rows.iter().map(place).collect(), labels: bins.iter().map(label).collect() }
}

fn constants(rows: &[Row]) -> Values {
    let mut all: Vec<f64> = rows.iter().map(|row| row.split_constant).collect();
    all.sort_by(f64::total_cmp);
    all.dedup_by_key(|value| value.to_bits());
    let place = |row: &Row| all.partition_point(|value| value.total_cmp(&row.split_constant).is_lt());
    Values { of: rows.iter().map(place).collect(), labels: all.iter().map(ToString::to_string).collect() }
}

/// The axes that rows differ in, and that nothing can be told apart by none.
pub(super) fn varying(rows: &[Row]) -> Vec<Axis> {
    let varies = |axis: &Axis| *axis == Axis::All || Values::of(rows, *axis).labels.len() > 1;
    Axis::ALL.into_iter().filter(varies).collect()
}

/// Across and down, unless asked otherwise: what is not chosen by anybody, so that all ways compete.
pub(super) fn usual(varying: &[Axis]) -> (Axis, Axis) {
    let has = |axis: Axis| varying.contains(&axis);
    match () {
        () if has(Axis::Batch) && has(Axis::Device) => (Axis::Device, Axis::Batch),
        () if has(Axis::Requests) && has(Axis::Tokens) => (Axis::Tokens, Axis::Requests),
        () if has(Axis::Batch) => (Axis::All, Axis::Batch),
        () => (Axis::All, if has(Axis::Device) { Axis::Device } else { Axis::All }),
    }
}

/// How a way stands in a cell.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Standing {
    /// The way, by its place in [`Map::ways`].
    pub(super) way: usize,
    /// Contests that it takes.
    pub(super) contests: usize,
    /// Its time over the best of each contest, in the geometric mean.
    pub(super) factor: f64,
    /// Its time, where there is one contest.
    pub(super) time: Option<u64>,
}

/// A cell of the map.
#[derive(Clone, Debug, Default)]
pub(super) struct Cell {
    /// Ways that ran, the winner first.
    pub(super) standings: Vec<Standing>,
    /// Contests.
    pub(super) contests: usize,
    /// Rows whose way refuses the batch, with the first reason.
    pub(super) refused: usize,
    pub(super) reason: Option<String>,
    /// The winner's row of the contest that it wins by most: what a click opens.
    pub(super) row: Option<usize>,
}

impl Cell {
    /// The way that wins.
    pub(super) fn winner(&self) -> Option<usize> {
        self.standings.first().map(|first| first.way)
    }

    /// How much longer the second takes; none where no other takes as many contests.
    pub(super) fn margin(&self) -> Option<f64> {
        let (first, second) = (self.standings.first()?, self.standings.get(1)?);
        (first.contests == second.contests).then(|| second.factor / first.factor - 1.0)
    }
}

/// The cells over two axes.
#[derive(Clone, Debug, Default)]
pub(super) struct Map {
    /// Labels across and down.
    pub(super) across: Vec<String>,
    pub(super) down: Vec<String>,
    /// Names of the ways that compete.
    pub(super) ways: Vec<String>,
    /// Cells, line by line; one without rows has no contests.
    pub(super) cells: Vec<Cell>,
}

impl Map {
    /// The cells of rows over two axes.
    pub(super) fn of(rows: &[Row], (across, down): (Axis, Axis)) -> Self {
        let (x, y) = (Values::of(rows, across), Values::of(rows, down));
        let (ways, of_way) = competitors(rows, across, down);
        let (batch, device) = (Values::of(rows, Axis::Batch), Values::of(rows, Axis::Device));
        let width = x.labels.len();
        let mut contests: BTreeMap<(usize, usize, usize), Vec<usize>> = BTreeMap::new();
        for at in 0..rows.len() {
            contests.entry((y.of[at] * width + x.of[at], batch.of[at], device.of[at])).or_default().push(at);
        }
        let mut cells = vec![Cell::default(); width * y.labels.len()];
        let mut of_cell: Vec<Vec<Vec<usize>>> = vec![Vec::new(); cells.len()];
        for ((cell, ..), contest) in contests {
            of_cell[cell].push(contest);
        }
        for (cell, contests) in cells.iter_mut().zip(&of_cell) {
            *cell = judged(rows, contests, &of_way);
        }
        Self { across: x.labels, down: y.labels, ways, cells }
    }

    /// The cell of a column and a line.
    pub(super) fn cell(&self, (column, line): (usize, usize)) -> Option<&Cell> {
        self.cells.get(line * self.across.len() + column).filter(|_| column < self.across.len())
    }

    /// Cells that each way wins.
    pub(super) fn wins(&self) -> Vec<usize> {
        let mut wins = vec![0; self.ways.len()];
        for winner in self.cells.iter().filter_map(Cell::winner) {
            wins[winner] += 1;
        }
        wins
    }
}

/// The ways that compete, by what of them varies and is on no axis, and which of them each row is of.
fn competitors(rows: &[Row], across: Axis, down: Axis) -> (Vec<String>, Vec<usize>) {
    let parts: Vec<Values> = Axis::OF_WAYS
        .into_iter()
        .filter(|axis| ![across, down].contains(axis))
        .map(|axis| Values::of(rows, axis))
        .filter(|values| values.labels.len() > 1)
        .collect();
    let mut known: BTreeMap<Vec<usize>, usize> = BTreeMap::new();
    let (mut names, mut of) = (Vec::new(), Vec::with_capacity(rows.len()));
    for at in 0..rows.len() {
        let key: Vec<usize> = parts.iter().map(|part| part.of[at]).collect();
        let way = *known.entry(key).or_insert_with(|| {
            let words: Vec<&str> = parts.iter().map(|part| part.labels[part.of[at]].as_str()).collect();
            names.push(if words.is_empty() { "the only way".to_owned() } else { words.join(" · ") });
            names.len() - 1
        });
        of.push(way);
    }
    (names, of)
}

/// The time of a row; none where its way refuses the batch, or a damaged file has none.
fn time(row: &Row) -> Option<u64> {
    (row.refused.is_none() && row.makespan_ns > 0).then_some(row.makespan_ns)
}

fn judged(rows: &[Row], contests: &[Vec<usize>], of_way: &[usize]) -> Cell {
    let mut sums: BTreeMap<usize, (usize, f64)> = BTreeMap::new();
    for contest in contests {
        let Some(best) = contest.iter().filter_map(|at| time(&rows[*at])).min() else { continue };
        for at in contest {
            let Some(time) = time(&rows[*at]) else { continue };
            let sum = sums.entry(of_way[*at]).or_default();
            *sum = (sum.0 + 1, sum.1 + (time as f64 / best as f64).ln());
        }
    }
    let of = |way: usize| contests.iter().flatten().find(|at| of_way[**at] == way).and_then(|at| time(&rows[*at]));
    let standing = |(way, (count, logs)): (usize, (usize, f64))| Standing {
        way,
        contests: count,
        factor: (logs / count as f64).exp(),
        time: if contests.len() == 1 { of(way) } else { None },
    };
    let mut standings: Vec<Standing> = sums.into_iter().map(standing).collect();
    standings.sort_by(|a, b| b.contests.cmp(&a.contests).then(a.factor.total_cmp(&b.factor)).then(a.way.cmp(&b.way)));
    let refused = || contests.iter().flatten().filter_map(|at| rows[*at].refused.as_ref());
    let row = standings.first().and_then(|first| clearest(rows, contests, of_way, first.way));
    let (count, reason) = (refused().count(), refused().next().cloned());
    Cell { contests: contests.len(), refused: count, reason, row, standings }
}

/// The row of a way in the contest that it wins by most.
fn clearest(rows: &[Row], contests: &[Vec<usize>], of_way: &[usize], way: usize) -> Option<usize> {
    let won = contests.iter().filter_map(|contest| {
        let own = *contest.iter().find(|at| of_way[**at] == way && time(&rows[**at]).is_some())?;
        let others = contest.iter().filter(|at| of_way[**at] != way).filter_map(|at| time(&rows[*at]));
        let best = others.min().map_or(1.0, |best| best as f64 / rows[own].makespan_ns as f64);
        Some((best, own))
    });
    won.reduce(|a, b| if b.0 > a.0 { b } else { a }).map(|(_, row)| row)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(batch: &str, device: &str, scheduler: &str, time: u64) -> Row {
        Row {
            number: 0,
            key: 0,
            batch: batch.to_owned(),
            batch_ron: String::new(),
            device: device.to_owned(),
            scheduler: scheduler.to_owned(),
            strategy: "streams".to_owned(),
            tile: "auto".to_owned(),
            split_constant: 4.0,
            requests: batch.len() as u64,
            kv_tokens: 64,
            calibrated: true,
            makespan_ns: time,
            floor_ns: 0,
            ctas: 0,
            issued_bytes: 0,
            compulsory_bytes: 0,
            total_slot_ns: 0,
            busy_slot_ns: 0,
            bubbles_ns: Vec::new(),
            refused: (time == 0).then(|| "no".to_owned()),
        }
    }

    fn rows() -> Vec<Row> {
        let mut rows = Vec::new();
        for (batch, times) in [("a", [[100, 80, 120], [50, 60, 0]]), ("bb", [[70, 90, 90], [0, 0, 0]])] {
            for (device, times) in ["h200", "a100"].into_iter().zip(times) {
                for (scheduler, time) in ["pat", "relay", "deft"].into_iter().zip(times) {
                    rows.push(row(batch, device, scheduler, time));
                }
            }
        }
        rows
    }

    #[test]
    fn the_least_time_wins_by_its_margin_over_the_second() {
        let rows = rows();
        let axes = varying(&rows);
        assert_eq!(usual(&axes), (Axis::Device, Axis::Batch));
        assert!(axes.contains(&Axis::Scheduler) && !axes.contains(&Axis::Tile));
        let map = Map::of(&rows, usual(&axes));
        assert_eq!((map.across.len(), map.down.len(), map.ways.join(",")), (2, 2, "pat,relay,deft".to_owned()));
        let cell = map.cell((0, 0)).unwrap();
        assert_eq!((cell.winner(), cell.row), (Some(1), Some(1)));
        assert!((cell.margin().unwrap() - 0.25).abs() < 1e-12, "100 over 80");
        let cell = map.cell((1, 0)).unwrap();
        assert_eq!((cell.winner(), cell.refused, cell.standings.len()), (Some(0), 1, 2));
        let none = map.cell((1, 1)).unwrap();
        assert_eq!((none.winner(), none.margin(), none.refused), (None, None, 3));
        assert_eq!(map.wins(), [2, 1, 0]);
        assert!(map.cell((2, 0)).is_none());
    }

    #[test]
    fn several_contests_in_a_cell_go_to_who_takes_most_of_them_then_to_the_least_mean() {
        let rows = rows();
        let map = Map::of(&rows, (Axis::All, Axis::All));
        let cell = &map.cells[0];
        assert_eq!((map.cells.len(), cell.contests), (1, 4));
        let order: Vec<usize> = cell.standings.iter().map(|standing| standing.way).collect();
        assert_eq!(order, [0, 1, 2], "deft takes one contest less");
        let mean = (1.25_f64 * 1.0 * 1.0).powf(1.0 / 3.0);
        assert!((cell.standings[0].factor - mean).abs() < 1e-12);
        assert_eq!(rows[cell.row.unwrap()].batch, "bb", "pat wins there by most");
    }

    #[test]
    fn many_numbers_are_binned_and_what_is_on_an_axis_does_not_compete() {
        let mut rows: Vec<Row> = (1..=100).map(|at| Row { requests: at, ..row("a", "h200", "pat", at) }).collect();
        let values = Values::of(&rows, Axis::Requests);
        assert_eq!(values.labels, ["1 to 1", "2 to 3", "4 to 7", "8 to 15", "16 to 31", "32 to 63", "64 to 127"]);
        assert_eq!((values.of[0], values.of[2], values.of[99]), (0, 1, 6));
        rows[3].split_constant = f64::NAN;
        rows[4].requests = u64::MAX;
        for across in Axis::ALL {
            for down in Axis::ALL {
                let map = Map::of(&rows, (across, down));
                assert!(map.cells.iter().map(|cell| cell.contests).sum::<usize>() >= 1, "{across:?} {down:?}");
                assert!(Map::of(&[], (across, down)).cells.iter().all(|cell| cell.winner().is_none()));
            }
        }
        let map = Map::of(&super::tests::rows(), (Axis::Scheduler, Axis::Batch));
        assert_eq!(map.ways, ["the only way"]);
    }
}
