//! A sweep that is broken off and goes on gives the rows of one that ran through.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::error::Error;
use crate::hw;
use crate::workload::{AttentionShape, parse_tree};

/// Four trees by two schedulers by two strategies.
fn grid() -> Vec<Point> {
    let text = r#"(schema: 1, batches: [Tree("1,4_32,32"), Tree("1,8_64,32"), Tree("2,8_32,32"), Tree("4_64")],
        schedulers: ["pat", "relay"], strategies: ["streams", "serial"])"#;
    let spec = SweepSpec::from_ron(text).unwrap();
    let batches: Vec<Named> = spec
        .batches
        .iter()
        .map(|source| match source {
            BatchSource::Tree(tree) => {
                Named { name: tree.clone(), spec: Arc::new(parse_tree(tree, AttentionShape::default()).unwrap()) }
            }
            other => panic!("{other:?}"),
        })
        .collect();
    points(&spec, &batches, &[Arc::new(hw::find("h200-sxm").unwrap().clone())]).unwrap()
}

fn sweep(points: &[Point], folder: &std::path::Path, shards: u32) -> Vec<Row> {
    let logs = Logs::of(folder).unwrap();
    for number in 0..shards {
        run(points, Shard { number, of: shards }, &logs, &Cancel::default(), &|| ()).unwrap();
    }
    logs.rows().unwrap()
}

#[test]
fn shards_and_broken_runs_give_the_rows_of_one_that_ran_through() {
    let points = grid();
    let (whole, cut, sharded) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let rows = sweep(&points, whole.path(), 1);
    assert_eq!(rows.len(), 16);
    assert!(rows.iter().any(|row| row.refused.is_some()) && rows.iter().any(|row| row.makespan_ns > 0));
    assert_eq!(sweep(&points, sharded.path(), 3), rows);
    // Stopped after five points, its last line cut as a kill would.
    let (cancel, seen) = (Cancel::default(), AtomicUsize::new(0));
    let tell = || {
        if seen.fetch_add(1, Ordering::Relaxed) == 4 {
            cancel.cancel();
        }
    };
    let logs = Logs::of(cut.path()).unwrap();
    assert!(matches!(run(&points, Shard::ALL, &logs, &cancel, &tell), Err(Error::Cancelled)));
    let log = cut.path().join("parts/00000-of-00001.jsonl");
    let text = fs::read(&log).unwrap();
    fs::write(&log, &text[..text.len() - 7]).unwrap();
    assert!(logs.rows().unwrap().len() < 16);
    assert_eq!(sweep(&points, cut.path(), 1), rows);
}

#[test]
fn rows_come_back_from_parquet() {
    let folder = tempfile::tempdir().unwrap();
    let rows = sweep(&grid(), folder.path(), 1);
    let path = folder.path().join("r.parquet");
    let mut bytes = Vec::new();
    write_parquet(&mut bytes, &rows, &[("spec", "x".to_owned())]).unwrap();
    fs::write(&path, &bytes).unwrap();
    assert_eq!(read_parquet(&path).unwrap(), rows);
    fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    assert!(read_parquet(&path).unwrap_err().to_string().contains("damaged or cut"));
}

#[test]
fn keys_do_not_depend_on_the_order_of_the_grid_and_one_stands_for_all_time() {
    let points = grid();
    let mut keys: Vec<u64> = points.iter().map(|point| point.key).collect();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), points.len());
    let twice = [points[0].batch.clone(), points[0].batch.clone()];
    let spec = SweepSpec::from_ron("(schema: 1, batches: [])");
    assert!(spec.unwrap_err().to_string().contains("batches is empty"));
    let spec = SweepSpec::from_ron("(schema: 1, batches: [Tree(\"4_64\")])").unwrap();
    assert!(super::points(&spec, &twice, &[Arc::clone(&points[0].device)]).is_err(), "two of one name");
}
