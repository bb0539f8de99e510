//! When lanes that take tasks from a queue are done, and how much longer they take where they share the memory system.

/// How much less a CTA has done than its like when HBM has kept all of them waiting: SMs share it by the clusters that they
/// stand in, which differ in size. Of 216 CTAs of 16x16 on an H200, those with 15,392 tokens ended after 0.93 to 1.06 ms.
const UNEVEN: f64 = 0.12;

/// The time of the longest of the tasks that end last.
pub(super) fn last_task(tasks: &[Tasks], loads: &[Load]) -> f64 {
    let end = loads.first().map_or(0.0, |load| load.0);
    tasks.iter().filter(|tasks| tasks.end >= end).map(|tasks| tasks.time).fold(0.0, f64::max)
}

/// When lanes of such loads are done where all of them together want `demand` times what the memory system gives: while
/// fewer run, each has more of it. The last lane is behind by a part of its last task, as far as it is alone by then:
/// while many run they have what it leaves.
///
/// Worked number: four lanes want twice of what there is. With loads of 1, 1, 1 and 3 they take 2 for the first 1 of each,
/// then the last one is alone and takes 2 for the other 2, so 4; had it a single task, it would be 0.12 behind.
pub(super) fn stretched(loads: &[Load], demand: f64, last: f64) -> f64 {
    let lanes: f64 = loads.iter().map(|load| load.1).sum();
    let (mut time, mut done, mut running) = (0.0, 0.0, lanes);
    // The load of those that are done when the others have what they want.
    let mut crowded = 0.0;
    for (load, count) in loads.iter().rev() {
        let wanted = demand * running / lanes;
        time += (load - done) * wanted.max(1.0);
        if wanted > 1.0 {
            crowded = *load;
        }
        (done, running) = (*load, running - count);
    }
    time + (UNEVEN * last.min(crowded)).min(done - crowded)
}

/// When lanes are done, and how many are done then.
pub(super) type Load = (f64, f64);

/// The CTAs of a class.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tasks {
    pub class: usize,
    /// KV tokens of one.
    pub tokens: f64,
    /// Time of one.
    pub time: f64,
    pub ctas: f64,
    /// When the last of them ends.
    pub end: f64,
}

/// Lets `lanes` lanes take tasks in this order, each when it is free; their loads, the most first.
pub(super) fn queue(tasks: &mut [Tasks], lanes: f64) -> Vec<Load> {
    // Lanes by when they are free, the latest first.
    let mut free: Vec<Load> = vec![(0.0, lanes)];
    for tasks in tasks {
        let mut left = tasks.ctas;
        while left > 0.0
            && let Some((at, count)) = free.pop()
        {
            // Whole rounds move all lanes alike, where none is free so late that it would miss one.
            let rounds = (left / lanes).floor() - 1.0;
            if rounds > 0.0 && free.first().is_none_or(|latest| latest.0 - at <= tasks.time) {
                free.push((at, count));
                for lane in &mut free {
                    lane.0 += rounds * tasks.time;
                }
                left -= rounds * lanes;
                continue;
            }
            let taken = count.min(left);
            if taken < count {
                free.push((at, count - taken));
            }
            let end = at + tasks.time;
            let place = free.partition_point(|lane| lane.0 > end);
            free.insert(place, (end, taken));
            left -= taken;
            tasks.end = tasks.end.max(end);
        }
    }
    free
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STEP: f64 = 1e-3;

    proptest! {
        #[test]
        fn the_queue_is_that_of_single_lanes(
            kinds in prop::collection::vec((1_u32..60, 1_u32..9), 1..5),
            lanes in 1_u32..12,
        ) {
            let task = |(class, kind): (usize, &(u32, u32))| Tasks {
                class, tokens: 0.0, time: f64::from(kind.1), ctas: f64::from(kind.0), end: 0.0,
            };
            let mut tasks: Vec<Tasks> = kinds.iter().enumerate().map(task).collect();
            let end = queue(&mut tasks, f64::from(lanes))[0].0;
            let mut free = vec![0_u32; lanes as usize];
            for ((count, time), tasks) in kinds.iter().zip(&tasks) {
                let mut last = 0;
                for _ in 0..*count {
                    let lane = free.iter_mut().min().unwrap();
                    *lane += time;
                    last = last.max(*lane);
                }
                prop_assert!((tasks.end - f64::from(last)).abs() < 1e-9, "{tasks:?} {last}");
            }
            prop_assert!((end - f64::from(*free.iter().max().unwrap())).abs() < 1e-9);
        }

        /// Lane by lane, in small steps of time.
        #[test]
        fn lanes_that_share_memory_take_what_each_gets_of_it(
            mut lanes in prop::collection::vec(1_u32..40, 1..9),
            demand in 0.3_f64..4.0,
        ) {
            lanes.sort_unstable_by(|a, b| b.cmp(a));
            let loads: Vec<Load> = lanes.iter().map(|load| (f64::from(*load), 1.0)).collect();
            let (mut left, mut time) = (loads.iter().map(|load| load.0).collect::<Vec<_>>(), 0.0);
            while !left.is_empty() {
                let rate = (lanes.len() as f64 / (demand * left.len() as f64)).min(1.0);
                for left in &mut left {
                    *left -= rate * STEP;
                }
                left.retain(|left| *left > 0.0);
                time += STEP;
            }
            let found = stretched(&loads, demand, 0.0);
            prop_assert!((found / time - 1.0).abs() < 0.01, "{found} {time}");
            // All have the same: memory is busy until the end, and nobody is late.
            let alike = vec![(f64::from(lanes[0]), lanes.len() as f64)];
            let most = f64::from(lanes[0]) * demand.max(1.0);
            prop_assert!((stretched(&alike, demand, f64::from(lanes[0])) / most - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn the_worked_number_of_lanes_that_share_memory() {
        let loads = [(3.0, 1.0), (1.0, 3.0)];
        assert!((stretched(&loads, 2.0, 0.0) - 4.0).abs() < 1e-9);
        assert!((stretched(&loads, 2.0, 3.0) - 4.12).abs() < 1e-9);
    }
}
