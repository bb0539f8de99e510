//! Pictures of every view from the command line: they hold what the view shows, in the size and the colours asked for.

use std::fs;
use std::path::Path;

use packscope::window::panel::Panel;

use crate::capture_file::VERSION_2;
use crate::program::{fixture, packscope, packscope_in};

/// The SVG of a view, with more options.
fn svg(folder: &Path, capture: &str, view: &str, more: &[&str]) -> String {
    let mut words = vec!["export", capture, "--view", view, "-o", "out.svg"];
    words.extend(more);
    let made = packscope_in(folder, &words);
    assert_eq!(made.code, 0, "{view}: {}", made.stderr);
    fs::read_to_string(folder.join("out.svg")).unwrap()
}

#[test]
fn every_view_of_a_measured_capture_is_a_picture_of_what_it_shows() {
    let folder = tempfile::tempdir().unwrap();
    let capture = fixture(VERSION_2[1]);
    let says = [
        ("timeline", "busy "),
        ("tree", "width: requests"),
        ("packs", "attention CTA"),
        ("tiles", "shared memory"),
        ("plan", "stream 0"),
        ("sm-grid", "slots busy"),
        ("traffic", "issued by CTAs"),
        ("memory", "DRAM"),
        ("roofline", "tensor cores"),
        ("bubbles", "longest stretches"),
        ("inspector", "attention CTAs"),
    ];
    for (view, text) in says {
        let drawn = svg(folder.path(), &capture, view, &["--width", "900px"]);
        assert!(drawn.contains(text), "{view}: {text}");
        assert!(drawn.contains("width=\"900\"") && !drawn.contains("NaN"), "{view}");
        assert!(drawn.contains("measured"), "{view} says where its figures come from");
        for control in ["show me", "Previous launch", "Use ", "drag here"] {
            assert!(!drawn.contains(control), "{view} has a button: {control}");
        }
    }
}

#[test]
fn a_hybrid_run_an_empty_batch_and_a_damaged_file_have_pictures_or_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = fs::read(fixture("capture-v2-tail.pscope")).unwrap();
    fs::write(folder.path().join("cut.pscope"), &bytes[..bytes.len() * 3 / 4]).unwrap();
    let made = packscope_in(folder.path(), &["run", "teach-10-hybrid", "--strategy", "serial", "-o", "hybrid.pscope"]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    for capture in ["hybrid.pscope", "cut.pscope"] {
        let is_of_run = |panel: &Panel| panel.has_picture() && !panel.is_study();
        for panel in Panel::ALL.into_iter().filter(|panel| is_of_run(panel) && *panel != Panel::Compare) {
            let made = packscope_in(folder.path(), &["export", capture, "--view", panel.key(), "--png", "out.png"]);
            assert_eq!(made.code, 0, "{capture} {panel:?}: {}", made.stderr);
        }
    }
}

/// A table is as tall as its rows, not as the longest one that could be.
#[test]
fn a_table_of_few_rows_is_a_low_picture() {
    let folder = tempfile::tempdir().unwrap();
    let made = packscope_in(folder.path(), &["run", "--tree", "1,4_64,32", "--backend", "sim", "-o", "few.pscope"]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    for view in ["decisions", "packs", "tiles"] {
        let drawn = svg(folder.path(), "few.pscope", view, &[]);
        let height = drawn.split("height=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
        assert!(height.parse::<f32>().unwrap() < 900.0, "{view} is {height} units tall");
    }
}

#[test]
fn paper_has_millimetres_and_dots_and_dark_is_dark() {
    let folder = tempfile::tempdir().unwrap();
    let capture = fixture("capture-v1.pscope");
    for view in ["timeline", "packs"] {
        let paper = svg(folder.path(), &capture, view, &["--width", "85mm"]);
        assert!(paper.contains("width=\"85.00mm\"") && paper.contains("#ffffff"), "{view}");
        let dark = svg(folder.path(), &capture, view, &["--theme", "dark"]);
        assert!(dark.contains("#111318") && dark.contains("width=\"1200\""), "{view}");
    }
    let made = packscope_in(folder.path(), &["export", &capture, "-o", "out.png", "--width", "85mm"]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    let png = fs::read(folder.path().join("out.png")).unwrap();
    // 85 mm at 300 dots an inch, and the file says so.
    assert_eq!(u32::from_be_bytes(png[16..20].try_into().unwrap()), 1004);
    assert!(png.windows(4).any(|four| four == b"pHYs"));
}

#[test]
fn a_range_is_what_the_picture_shows() {
    let folder = tempfile::tempdir().unwrap();
    let capture = fixture(VERSION_2[1]);
    let rows = |text: &str| text.matches("<text").count();
    let (all, part) =
        (svg(folder.path(), &capture, "packs", &[]), svg(folder.path(), &capture, "packs", &["--range", "0:1us"]));
    assert!(part.contains("runs from 0 ns to 1000 ns") && rows(&part) < rows(&all));
    let drawn = svg(folder.path(), &capture, "timeline", &["--range", "10us:20us"]);
    assert!(!drawn.contains(">0 µs<") && drawn.contains(">15 µs<"), "the axis is that of the range");
    let told = packscope_in(folder.path(), &["export", &capture, "--view", "tree", "--range", "0:1us", "-o", "t.svg"]);
    assert!(told.code == 0 && told.stderr.contains("whole plan"), "{}", told.stderr);
}

#[test]
fn what_is_asked_wrongly_is_told_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let capture = fixture("capture-v1.pscope");
    for (options, says) in [
        (vec!["-o", "a.gif"], ".svg, .png or .apng"),
        (vec!["-o", "a.svg", "--view", "moon"], "timeline"),
        (vec!["-o", "a.svg", "--view", "log"], "roofline"),
        (vec!["-o", "a.svg", "--view", "steps"], "roofline"),
        (vec!["-o", "a.svg", "--range", "5us"], "10us:20us"),
        (vec!["-o", "a.svg", "--range", "5us:1us"], "ends before it begins"),
        (vec!["-o", "a.svg", "--width", "3mm"], "85mm"),
    ] {
        let mut words = vec!["export", &capture];
        words.extend(options);
        packscope_in(folder.path(), &words).fails(2, &[says]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

#[test]
fn every_view_and_every_command_is_listed_with_its_keys() {
    let panels = packscope(&["list", "panels", "--json"]).json();
    let names: Vec<&str> =
        panels["panels"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, Panel::ALL.map(Panel::key));
    let commands = packscope(&["list", "commands", "--json"]).json();
    let commands = commands["commands"].as_array().unwrap();
    let of = |name: &str| commands.iter().find(|one| one["name"] == name).unwrap();
    assert_eq!((&of("undo")["group"], &of("undo")["keys"]), (&"Edit".into(), &"Ctrl+Z".into()));
    assert_eq!(of("up")["keys"], "[");
    assert!(of("clear")["keys"].is_null());
    let mut all: Vec<&str> = commands.iter().map(|one| one["name"].as_str().unwrap()).collect();
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), count, "no two commands have one name");
}
