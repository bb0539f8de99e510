//! The samples against their own texts: every claim of every sample holds in the simulator, on the device and under
//! the choice that the sample is shown with.

use std::collections::BTreeMap;

use engine::cancel::Cancel;
use engine::capture::Capture;
use engine::decision::Choice;
use engine::metrics;
use engine::pack;
use engine::plan::{LaunchKind, Strategy};
use engine::session::{self, PlanOptions, Planned, Report, RunOptions};
use engine::workload::{BatchSpec, Claim, ClaimedWay, Figure, Scene};
use packscope::samples;

use crate::program::{packscope, packscope_in};

/// A way of a sample, planned and run.
struct Run {
    planned: Planned,
    capture: Capture,
    report: Report,
}

/// A sample with the runs that its claims have asked for so far.
struct Shown {
    spec: BatchSpec,
    scene: Scene,
    runs: BTreeMap<(String, &'static str), Run>,
}

impl Shown {
    fn of(text: &str) -> Self {
        let mut spec = BatchSpec::from_ron(text).unwrap();
        let scene = *spec.scene.take().unwrap_or_default();
        Self { spec, scene, runs: BTreeMap::new() }
    }

    fn scheduler(&self, way: &ClaimedWay) -> String {
        let named = way.scheduler.as_deref().or(self.scene.scheduler.as_deref());
        named.unwrap_or(pack::DEFAULT).to_owned()
    }

    fn strategy(&self, way: &ClaimedWay) -> Strategy {
        let named = way.strategy.as_deref().or(self.scene.strategy.as_deref());
        named.map_or(Strategy::Streams, |name| name.parse().unwrap())
    }

    fn run(&mut self, scheduler: &str, strategy: Strategy) -> &Run {
        let (spec, scene) = (&self.spec, &self.scene);
        self.runs.entry((scheduler.to_owned(), strategy.name())).or_insert_with(|| {
            let device = engine::hw::find(scene.device.as_deref().unwrap_or("h200-sxm")).unwrap();
            let scheduler = pack::find(scheduler).unwrap().name().to_owned();
            let options = PlanOptions { scheduler, strategy, ..PlanOptions::new(device) };
            let planned = session::plan_spec(spec, &options).unwrap();
            let capture = session::simulate(&planned, &RunOptions::default(), &Cancel::default()).unwrap();
            let report = session::report_of(&planned.batch, &planned.tree, &capture);
            Run { planned, capture, report }
        })
    }

    fn figure(&mut self, figure: &Figure, way: &ClaimedWay) -> f64 {
        let (scheduler, strategy) = (self.scheduler(way), self.strategy(way));
        if *figure != Figure::Rank {
            return self.run(&scheduler, strategy).figure(figure);
        }
        let own = self.run(&scheduler, strategy).capture.makespan();
        let planned = &self.run(&scheduler, strategy).planned;
        let all = engine::plan::hybrid::offered(&planned.options.device, &planned.batch);
        all.iter().filter(|other| self.run(&scheduler, **other).capture.makespan() < own).count() as f64
    }

    /// What the claim's figure is.
    fn value(&mut self, claim: &Claim) -> f64 {
        let own = self.figure(&claim.figure, &claim.of);
        claim.over.as_ref().map_or(own, |over| own / self.figure(&claim.figure, over))
    }
}

impl Run {
    fn figure(&self, figure: &Figure) -> f64 {
        let (plan, tree) = (&self.planned.plan, &self.planned.tree);
        let bubbles = &self.report.bubbles;
        let packs_of = |rows: u32| plan.packs.iter().filter(|pack| pack.tile.m == rows).count() as f64;
        match figure {
            Figure::Makespan | Figure::Rank => self.capture.makespan().as_f64(),
            Figure::Busy => bubbles.busy_share(),
            Figure::Bubble(cause) => {
                let of_cause = bubbles.bubbles.iter().find(|bubble| bubble.cause.name() == cause);
                bubbles.share(of_cause.unwrap_or_else(|| panic!("no bubble is named {cause}")).slot_time)
            }
            Figure::Bandwidth => self.report.bandwidth.utilization,
            Figure::OutsideLoop(rows) => self.outside_loop(*rows),
            Figure::KvRead => plan.kv_tokens_read().as_f64(),
            Figure::Redundancy => plan.kv_tokens_read().as_f64() / tree.unique_tokens().as_f64(),
            Figure::Readings(node) => metrics::node_traffic(plan, tree)[*node as usize].redundancy(),
            Figure::Partials => f64::from(plan.merge.max_partials()),
            Figure::Packs => plan.packs.len() as f64,
            Figure::PacksOfRows(rows) => packs_of(*rows),
            Figure::Tiles => plan.tiles().len() as f64,
            Figure::Merged(node) => self.merged(Some(*node)),
            Figure::MergedOfAll => self.merged(None),
            Figure::PrefillCtas => {
                let ctas = plan.prefill.tasks.len() as f64 * f64::from(plan.shape.query_heads);
                ctas / f64::from(self.planned.options.device.sm_count)
            }
            Figure::Roots => tree.roots.len() as f64,
            Figure::Nodes => tree.nodes.len() as f64,
        }
    }

    /// Time of CTAs in tiles of so many rows before their first tile landed and after their main loop, over all of it.
    fn outside_loop(&self, rows: u32) -> f64 {
        let of_rows = |launch: u32| {
            let kind = self.planned.plan.launches[launch as usize].kind;
            matches!(kind, LaunchKind::Attention(tile) if tile.m == rows)
        };
        let spans = self.capture.spans.iter().filter(|span| of_rows(span.launch));
        let (outside, all) = spans.fold((0, 0), |(outside, all), span| {
            let within = (span.loop_end - span.first_tile).0;
            (outside + (span.end - span.begin).0 - within, all + (span.end - span.begin).0)
        });
        assert!(all > 0, "no launch has tiles of {rows} rows");
        outside as f64 / all as f64
    }

    /// Share of merges in the choices between merging and splitting, at one node or at all.
    fn merged(&self, node: Option<u32>) -> f64 {
        let at = |decision: &&engine::decision::Decision| {
            let here =
                matches!(decision.subject, engine::decision::Subject::Node(at) if node.is_none_or(|node| node == at.0));
            here && decision.choice == Choice::Sharing
        };
        let (mut merged, mut all) = (0_u32, 0_u32);
        for decision in self.planned.plan.decisions.iter().filter(at) {
            all += 1;
            merged += u32::from(decision.taken().unwrap().what == "merge");
        }
        assert!(all > 0, "nothing was decided there");
        f64::from(merged) / f64::from(all)
    }
}

#[test]
fn every_sample_does_what_its_text_says() {
    let mut wrong = Vec::new();
    for sample in samples::samples() {
        let mut shown = Shown::of(sample.text);
        let claims = shown.scene.claims.clone();
        assert!(!claims.is_empty(), "{} claims nothing that could be held against a run", sample.key);
        for claim in &claims {
            assert!(claim.at_least.is_some() || claim.at_most.is_some(), "{}: {claim:?} has no limit", sample.key);
            let value = shown.value(claim);
            let held =
                claim.at_least.is_none_or(|least| value >= least) && claim.at_most.is_none_or(|most| value <= most);
            println!("{:24} {value:12.3} {claim:?}", sample.key);
            if !held {
                wrong.push(format!("{}: {value} for {claim:?}", sample.key));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_claim_that_does_not_hold_is_seen() {
    let mut shown = Shown::of(samples::find("teach-10-hybrid").unwrap().text);
    let rank = |strategy: &str| Claim {
        figure: Figure::Rank,
        of: ClaimedWay { strategy: Some(strategy.to_owned()), ..ClaimedWay::default() },
        over: None,
        at_least: None,
        at_most: Some(0.0),
    };
    assert!(shown.value(&rank("fused")) < 0.5);
    assert!((shown.value(&rank("serial")) - 4.0).abs() < 0.5, "serial ends last of five");
}

#[test]
fn a_sample_is_shown_on_its_device_and_under_its_strategy_and_options_come_first() {
    let plan = |more: &[&str]| packscope(&[&["plan", "teach-10-hybrid", "--json"], more].concat());
    let shown = plan(&[]);
    assert_eq!(
        (shown.json()["device"].as_str(), shown.json()["strategy"].as_str()),
        (Some("a100-sxm-80gb"), Some("fused"))
    );
    assert!(
        shown.stderr.contains("shown with --device a100-sxm-80gb --scheduler pat --strategy fused"),
        "{}",
        shown.stderr
    );
    let asked = plan(&["--device", "h100-sxm", "--scheduler", "pat", "--strategy", "serial"]);
    assert_eq!(
        (asked.json()["device"].as_str(), asked.json()["strategy"].as_str()),
        (Some("h100-sxm"), Some("serial"))
    );
    assert!(!asked.stderr.contains("shown with"), "{}", asked.stderr);
    let compared = packscope(&["compare", "teach-10-hybrid", "--strategies", "serial", "--json"]);
    assert_eq!(compared.json()["runs"][0]["device"], "a100-sxm-80gb");
}

/// Neither a capture nor an edited batch has claims of a text that it no longer shows; a copy of the file does.
#[test]
fn captures_have_no_scene_and_an_imported_sample_keeps_it() {
    let folder = tempfile::tempdir().unwrap();
    let ran = packscope_in(folder.path(), &["run", "teach-8-wave", "-o", "wave.pscope"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let capture = engine::capture::read(&folder.path().join("wave.pscope")).unwrap().capture;
    assert!(capture.batch.scene.is_none() && !capture.batch.look_for.is_empty());
    packscope_in(folder.path(), &["import", "teach-10-hybrid", "-o", "copy.ron"]);
    let copy = std::fs::read_to_string(folder.path().join("copy.ron")).unwrap();
    let own = BatchSpec::from_ron(samples::find("teach-10-hybrid").unwrap().text).unwrap();
    assert_eq!(BatchSpec::from_ron(&copy).unwrap().scene, own.scene);
}
