//! A sweep in the real window: its file is a map, and a cell of it a batch.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use egui_kittest::kittest::Queryable as _;
use engine::cancel::Cancel;
use engine::sweep::{self, Logs, Named, Row, Shard, SweepSpec};
use engine::workload::{AttentionShape, parse_tree};
use packscope::window::App;
use packscope::window::command::Command;
use packscope::window::panel::{Panel, Part};

use crate::window::{Window, app, batch, open_with, picture, send, settle, settle_study, small};

/// Three trees on two devices under two schedulers.
fn rows(folder: &Path) -> Vec<Row> {
    let text = r#"(schema: 1, batches: [Tree("1,4_64,32"), Tree("1,16_256,32"), Tree("8_96")],
        schedulers: ["pat", "query-centric"], devices: ["h200-sxm", "teaching-8sm"])"#;
    let spec = SweepSpec::from_ron(text).unwrap();
    let tree = |tree: &str| Named {
        name: tree.to_owned(),
        spec: Arc::new(parse_tree(tree, AttentionShape::default()).unwrap()),
    };
    let devices: Vec<_> = spec.devices.iter().map(|key| Arc::new(engine::hw::find(key).unwrap().clone())).collect();
    let points = sweep::points(&spec, &["1,4_64,32", "1,16_256,32", "8_96"].map(tree), &devices).unwrap();
    let logs = Logs::of(folder).unwrap();
    sweep::run(&points, Shard::ALL, &logs, &Cancel::default(), &|| ()).unwrap();
    logs.rows().unwrap()
}

fn written(path: PathBuf, rows: &[Row]) -> PathBuf {
    let mut bytes = Vec::new();
    sweep::write_parquet(&mut bytes, rows, &[]).unwrap();
    std::fs::write(&path, bytes).unwrap();
    path
}

fn open() -> Window {
    let mut window = open_with(batch(small()), |ctx, opening| App::new(ctx, opening).unwrap());
    send(&mut window, Command::Show(Panel::Sweep));
    window
}

fn opened(path: PathBuf) -> Window {
    let mut window = open();
    load(&mut window, path);
    window
}

fn load(window: &mut Window, path: PathBuf) {
    app(window).send(Command::OpenPath(path));
    settle_study(window);
}

#[test]
fn the_map_is_a_picture_once_there_is_one() {
    let folder = tempfile::tempdir().unwrap();
    assert!(picture(&mut open(), Panel::Sweep).unwrap_err().contains("no sweep"));
    let mut window = opened(written(folder.path().join("r.parquet"), &rows(folder.path())));
    let drawn = picture(&mut window, Panel::Sweep).unwrap();
    for text in ["r.parquet", "across: ", "down: ", "teaching-8sm", "8_96", "not calibrated"] {
        assert!(drawn.contains(text), "{text}");
    }
    assert!(!drawn.contains("NaN"));
}

#[test]
fn a_cell_that_is_clicked_opens_its_batch_under_the_way_that_wins() {
    let folder = tempfile::tempdir().unwrap();
    let rows = rows(folder.path());
    let mut window = opened(written(folder.path().join("r.parquet"), &rows));
    assert_eq!(app(&mut window).problem(), None);
    window.get_by_label("sweep map: 2 by 3 cells");
    for name in ["1,4_64,32", "1,16_256,32", "8_96"] {
        for device in ["h200-sxm", "teaching-8sm"] {
            window.get_by_label_contains(&format!("cell {name} × {device}:")).click();
            window.run_steps(2);
            settle(&mut window);
            let contest = rows.iter().filter(|row| (row.batch.as_str(), row.device.as_str()) == (name, device));
            let best = contest.filter(|row| row.refused.is_none()).min_by_key(|row| row.makespan_ns).unwrap();
            let document = app(&mut window).document();
            assert_eq!((document.options.device.key.as_str(), &*document.spec.name), (device, name));
            let run = app(&mut window).shown().unwrap().simulated.clone().unwrap();
            assert_eq!(run.times().median.0, best.makespan_ns, "{name} on {device}");
            assert_eq!(app(&mut window).undoes(), Some(format!("opening of {name}").as_str()));
        }
    }
}

#[test]
fn a_device_that_only_its_file_knows_is_looked_for_beside_the_sweep() {
    let folder = tempfile::tempdir().unwrap();
    let mut rows = rows(folder.path());
    for row in &mut rows {
        "mine.ron".clone_into(&mut row.device);
    }
    let mut window = opened(written(folder.path().join("r.parquet"), &rows));
    send(&mut window, Command::OpenPoint(0));
    let problem = app(&mut window).problem().unwrap().to_owned();
    assert!(problem.contains("'mine.ron'") && problem.contains("put its file"), "{problem}");
    assert_eq!(*app(&mut window).document().spec, small());
    let device = engine::hw::Device { key: "mine".to_owned(), ..engine::hw::builtin()[0].clone() };
    std::fs::write(folder.path().join("mine.ron"), engine::hw::to_ron(&device).unwrap()).unwrap();
    send(&mut window, Command::OpenPoint(0));
    assert_eq!(app(&mut window).document().options.device.key, "mine");
    assert_eq!(app(&mut window).problem(), None);
}

#[test]
fn empty_cut_foreign_and_huge_sweeps_are_shown_or_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let rows = rows(folder.path());
    let at = |name: &str| folder.path().join(name);
    let mut window = opened(written(at("none.parquet"), &[]));
    window.get_by_label_contains("has no rows");
    let bytes = std::fs::read(written(at("whole.parquet"), &rows)).unwrap();
    let files: [(&str, Vec<u8>); 4] = [
        ("cut.parquet", bytes[..bytes.len() / 2].to_vec()),
        ("empty.parquet", Vec::new()),
        ("text.parquet", b"(name: 3)".to_vec()),
        ("hole.parquet", bytes.iter().enumerate().map(|(at, byte)| if at % 97 == 50 { 255 } else { *byte }).collect()),
    ];
    for (name, bytes) in files {
        std::fs::write(at(name), bytes).unwrap();
        load(&mut window, at(name));
        let problem = app(&mut window).problem().unwrap_or_default().to_owned();
        assert!(problem.contains(name), "{name}: {problem}");
        assert!(app(&mut window).sweep().unwrap().rows.is_empty(), "the one before stays");
    }
    let huge: Vec<Row> = (0..10_000_usize)
        .map(|at| Row { number: at as u64, batch: format!("batch {}", at / 4), ..rows[at % rows.len()].clone() })
        .collect();
    load(&mut window, written(at("huge.parquet"), &huge));
    assert_eq!(app(&mut window).sweep().unwrap().rows.len(), 10_000);
    window.get_by_label_contains("10,000 rows");
    window.get_by_label_contains("by 2500 cells");
    assert_eq!(app(&mut window).failure(Part::Panel(Panel::Sweep)), None);
}
