//! Looking around in the timeline: minimap, folds, legends, search, and back to where one looked before.

use egui::{Key, Modifiers, Pos2};
use egui_kittest::kittest::Queryable as _;
use engine::metrics::BubbleCause;
use engine::units::PackIdx;
use engine::workload::BatchSpec;
use packscope::timeline::axis::NAMED;
use packscope::timeline::only::Only;
use packscope::window::App;
use packscope::window::command::Command;
use packscope::window::commands::table::Action;
use packscope::window::panel::{Panel, Part};
use packscope::window::selection::Selection;

use crate::window::{Window, app, batch, click, open_with, send, small};

fn open() -> Window {
    let mut window = open_with(batch(small()), |ctx, opening| App::new(ctx, opening).unwrap());
    // All SMs have room beside one that is unfolded.
    window.set_size([1600.0, 1400.0].into());
    window.run_steps(3);
    window
}

fn act(window: &mut Window, action: Action) {
    send(window, Command::Act(action));
}

fn height_of(window: &Window, sm: u32) -> f32 {
    window.get_by_label_contains(&format!("SM {sm}:")).rect().height()
}

/// The selected bubble's cause, or nothing.
fn cause(window: &mut Window) -> Option<BubbleCause> {
    let Selection::Gap(source, at) = app(window).selected() else { return None };
    Some(app(window).shown()?.run(source)?.gaps.get(at)?.cause)
}

fn typed(window: &mut Window, text: &str) {
    window.run_steps(2);
    window.event(egui::Event::Text(text.to_owned()));
    window.run_steps(2);
}

#[test]
fn a_click_beside_an_sm_unfolds_it_among_strips_and_another_folds_it_again() {
    let mut window = open();
    let strip = height_of(&window, 40);
    assert!(strip < 8.0, "all SMs are strips: {strip}");
    let names = window.get_by_label("names of SMs").rect();
    let at = |window: &Window, sm: u32| {
        let row = window.get_by_label_contains(&format!("SM {sm}:")).rect();
        egui::pos2(names.center().x, row.center().y)
    };
    let beside = at(&window, 40);
    click(&mut window, beside);
    assert!(height_of(&window, 40) >= NAMED, "{}", height_of(&window, 40));
    assert!(height_of(&window, 41) < 8.0, "the others are as they were");
    window.get_by_label_contains("SM 131:");
    assert!(window.query_all_by_label_contains("SM 40 slot 0: CTA ").count() > 0, "its CTAs have nodes");
    assert_eq!(window.query_all_by_label_contains("SM 41 slot 0: CTA ").count(), 0);
    let beside = at(&window, 40);
    click(&mut window, beside);
    assert!((height_of(&window, 40) - strip).abs() < 0.5);
}

#[test]
fn ctrl_p_finds_an_sm_and_unfolds_it() {
    let mut window = open();
    window.key_press_modifiers(Modifiers::COMMAND, Key::P);
    typed(&mut window, "100");
    window.key_press(Key::Enter);
    window.run_steps(4);
    assert!(height_of(&window, 100) >= NAMED);
    assert!(window.query_by_label("Find an SM").is_none(), "the field is closed");
}

#[test]
fn the_search_goes_to_what_it_finds() {
    let mut window = open();
    window.key_press_modifiers(Modifiers::COMMAND, Key::F);
    typed(&mut window, "pack 2");
    window.key_press(Key::Enter);
    window.run_steps(3);
    assert!(matches!(app(&mut window).selected(), Selection::Pack(pack) if pack.0 == 2));
    window.key_press(Key::Slash);
    typed(&mut window, "tail");
    window.key_press(Key::ArrowDown);
    window.run_steps(2);
    window.key_press(Key::Enter);
    window.run_steps(3);
    assert_eq!(cause(&mut window), Some(BubbleCause::TailImbalance));
    assert!(app(&mut window).axis().window.is_some(), "it is framed");
    window.key_press_modifiers(Modifiers::COMMAND, Key::F);
    typed(&mut window, "node 987654");
    window.get_by_label_contains("Nothing has this name");
    window.key_press(Key::Escape);
    window.run_steps(2);
    assert!(window.query_by_label_contains("Nothing has this name").is_none());
}

#[test]
fn a_legend_entry_looks_at_one_cause_alone_and_at_all_again() {
    let mut window = open();
    send(&mut window, Command::Show(Panel::Bubbles));
    let listed = |window: &Window, cause: BubbleCause| {
        window.query_all_by_label_contains(&format!("· {}", cause.words())).count()
    };
    let run = app(&mut window).shown().unwrap().simulated.clone().unwrap();
    let longest = run.gaps.get(run.gaps.longest(None, 1)[0]).unwrap().cause;
    let other = run.gaps.iter().map(|gap| gap.cause).find(|cause| *cause != longest).unwrap();
    assert!(listed(&window, longest) > 0);
    // The legend stands below the list of bubbles.
    let entry = format!("{} ", other.words());
    window.get_all_by_label_contains(&entry).last().unwrap().click();
    window.run_steps(3);
    assert_eq!(app(&mut window).only(), Some(Only::Cause(other)));
    assert_eq!(listed(&window, longest), 0, "the list has that cause alone");
    assert!(listed(&window, other) > 0);
    window.get_all_by_label_contains(&entry).last().unwrap().click();
    window.run_steps(3);
    assert_eq!(app(&mut window).only(), None);
    let hybrid = BatchSpec::from_ron(packscope::samples::find("teach-10-hybrid").unwrap().text).unwrap();
    send(&mut window, Command::Edit(Box::new(hybrid)));
    window.get_all_by_label_contains("prefill · ").next().unwrap().click();
    window.run_steps(3);
    assert!(matches!(app(&mut window).only(), Some(Only::Role(_))));
    act(&mut window, Action::Deselect);
    assert_eq!(app(&mut window).only(), None);
}

#[test]
fn alt_left_goes_back_to_where_one_looked_and_alt_right_on_again() {
    let mut window = open();
    let rest = |window: &mut Window| {
        // A second of the window's own time.
        for _ in 0..70 {
            window.step();
        }
    };
    rest(&mut window);
    let whole = *app(&mut window).axis();
    // Two notches of one zoom are one step.
    app(&mut window).send(Command::Act(Action::ZoomIn));
    app(&mut window).send(Command::Act(Action::ZoomIn));
    rest(&mut window);
    let near = *app(&mut window).axis();
    act(&mut window, Action::PanRight);
    let right = *app(&mut window).axis();
    assert!(whole != near && near != right);
    for (key, look) in
        [(Key::ArrowLeft, near), (Key::ArrowLeft, whole), (Key::ArrowRight, near), (Key::ArrowRight, right)]
    {
        window.key_press_modifiers(Modifiers::ALT, key);
        window.run_steps(2);
        assert_eq!(*app(&mut window).axis(), look);
    }
}

#[test]
fn the_minimap_moves_what_is_in_sight() {
    let mut window = open();
    act(&mut window, Action::ZoomIn);
    act(&mut window, Action::ZoomIn);
    act(&mut window, Action::ZoomIn);
    let map = window.get_by_label("minimap").rect();
    let (from, to) = app(&mut window).axis().window.unwrap();
    click(&mut window, egui::pos2(map.right() - 4.0, map.center().y));
    let (late, end) = app(&mut window).axis().window.unwrap();
    assert!(late > from && ((end - late) - (to - from)).abs() < 1.0, "{late} {end}, before {from} {to}");
    click(&mut window, egui::pos2(map.left() + 1.0, map.center().y));
    assert!(app(&mut window).axis().window.unwrap().0 < late);
}

#[test]
fn r_makes_the_selection_the_range_and_shift_f_unfolds_its_sm() {
    let mut window = open();
    act(&mut window, Action::Search);
    typed(&mut window, "cta 3");
    window.key_press(Key::Enter);
    window.run_steps(3);
    let Selection::Cta(source, at) = app(&mut window).selected() else { panic!("no CTA is selected") };
    let span = app(&mut window).shown().unwrap().run(source).unwrap().capture.spans.get(at);
    window.key_press(Key::R);
    window.run_steps(2);
    assert_eq!(app(&mut window).axis().range, Some((span.begin.as_f64(), span.end.as_f64())));
    act(&mut window, Action::Fit);
    window.run_steps(2);
    window.key_press_modifiers(Modifiers::SHIFT, Key::F);
    window.run_steps(3);
    assert!(height_of(&window, span.sm) >= NAMED);
}

#[test]
fn sms_fold_into_their_gpcs_where_those_are_known_and_the_control_says_why_where_not() {
    let mut window = open();
    assert!(app(&mut window).shown().unwrap().simulated.as_ref().unwrap().gpcs.is_none());
    window.get_by_label("by GPC").click();
    window.run_steps(3);
    act(&mut window, Action::Gpcs);
    assert_eq!(window.query_all_by_label_contains("GPC 0").count(), 0, "nothing is known of this GPU");

    send(&mut window, Command::Device("teaching-8sm".to_owned()));
    window.run_steps(3);
    window.get_by_label("by GPC").click();
    window.run_steps(3);
    let row = |window: &Window, name: &str| window.get_by_label_contains(name).rect();
    let (first, second) = (row(&window, "GPC 0 · 4 SMs:"), row(&window, "GPC 1 · 4 SMs:"));
    assert!(first.bottom() <= second.top() + 0.1 && first.height() > 20.0, "{first} {second}");
    assert_eq!(window.query_all_by_label_contains("SM 3:").count(), 0);
    // What is hovered is a CTA of one of its SMs; a key unfolds them, another one an SM.
    window.hover_at(first.left_center() + egui::vec2(first.width() * 0.3, 0.0));
    window.run_steps(3);
    assert_eq!(app(&mut window).failure(Part::Panel(Panel::Timeline)), None);
    window.key_press_modifiers(Modifiers::SHIFT, Key::G);
    window.run_steps(3);
    row(&window, "SM 3:");
    act(&mut window, Action::Gpcs);
    window.run_steps(2);
    send(&mut window, Command::RevealSm(5));
    window.run_steps(2);
    assert!(height_of(&window, 5) >= NAMED, "who looks for an SM finds its lanes");
}

#[test]
fn every_batch_can_be_folded_searched_and_looked_at() {
    let hybrid = BatchSpec::from_ron(packscope::samples::find("teach-10-hybrid").unwrap().text).unwrap();
    let empty = BatchSpec::empty(small().shape);
    for spec in [hybrid, empty, small()] {
        let mut window = open_with(batch(spec), |ctx, opening| App::new(ctx, opening).unwrap());
        for text in ["merge", "0", "node 0", "64×128", "wait"] {
            act(&mut window, Action::Search);
            typed(&mut window, text);
            window.key_press(Key::Enter);
            window.run_steps(3);
            act(&mut window, Action::Fold);
            act(&mut window, Action::Range);
            act(&mut window, Action::Deselect);
        }
        send(&mut window, Command::RevealSm(3));
        send(&mut window, Command::RevealSm(9_999));
        act(&mut window, Action::LookBack);
        for part in [Part::Panel(Panel::Timeline), Part::Panel(Panel::Bubbles), Part::Overlays] {
            assert_eq!(app(&mut window).failure(part), None, "{part:?}");
        }
    }
}

#[test]
fn a_range_snaps_to_slices_so_that_it_measures_the_gap_between_them() {
    let mut window = open();
    let run = app(&mut window).shown().unwrap().simulated.clone().unwrap();
    let end = run.lanes.end as f64;
    let spans = &run.capture.spans;
    let pairs =
        (1..spans.len()).filter(|at| (spans.sm[*at], spans.slot[*at]) == (spans.sm[at - 1], spans.slot[at - 1]));
    let (from, to) = pairs.map(|at| (at - 1, at)).max_by_key(|(a, b)| spans.begin[*b] - spans.end[*a]).unwrap();
    let (begin, until) = (spans.end[from] as f64, spans.begin[to] as f64);
    let gap = spans.get(from);
    send(&mut window, Command::RevealSm(gap.sm));
    window.run_steps(2);
    let sm = window.get_by_label_contains(&format!("SM {}:", gap.sm)).rect();
    let slots = run.capture.slots_per_sm() as f32;
    let y = sm.top() + sm.height() * (gap.slot as f32 + 0.5) / slots;
    // The axis ends a hundredth behind the run.
    let x = |time: f64| sm.left() + (time / (end * 1.01)) as f32 * sm.width();
    let (from, to) = (x(begin) + 2.0, x(until) - 2.0);
    assert!(to - from > 4.0, "{from} {to}");
    window.hover_at(egui::pos2(from, y));
    window.step();
    window.drag_at(egui::pos2(from, y));
    window.step();
    window.hover_at(egui::pos2(f32::midpoint(from, to) + 8.0, y));
    window.step();
    window.hover_at(egui::pos2(to, y));
    window.step();
    window.drop_at(egui::pos2(to, y));
    window.run_steps(2);
    assert_eq!(app(&mut window).axis().range, Some((begin, until)));
}

/// Corners with their colours, and pictures: a picture of strips that has changed is another one.
type Drawn = (Vec<(Pos2, egui::Color32)>, Vec<egui::TextureId>);

/// Every corner of the lanes' meshes with its colour, and their pictures.
fn corners(window: &Window) -> Drawn {
    let lanes = window.get_by_label_contains("SM 40:").rect();
    let meshes = window.output().shapes.iter().filter_map(|clipped| match &clipped.shape {
        egui::Shape::Mesh(mesh) if clipped.clip_rect.x_range() == lanes.x_range() => Some(mesh),
        _ => None,
    });
    let meshes: Vec<_> = meshes.collect();
    let corners = meshes.iter().flat_map(|mesh| mesh.vertices.iter().map(|vertex| (vertex.pos, vertex.color)));
    (corners.collect(), meshes.iter().map(|mesh| mesh.texture_id).collect())
}

#[test]
fn what_is_drawn_follows_all_that_it_shows() {
    let mut window = open();
    let plain = corners(&window);
    assert!(plain.0.len() > 100, "{}", plain.0.len());
    let changes: [&[Command]; 5] = [
        &[Command::Select(Selection::Pack(PackIdx(0)))],
        &[Command::Act(Action::Colour)],
        &[Command::Act(Action::ZoomIn)],
        &[Command::Act(Action::Taller)],
        &[Command::Scheduler("query-centric".to_owned())],
    ];
    let mut seen = vec![plain];
    for commands in changes {
        for command in commands {
            send(&mut window, command.clone());
        }
        window.run_steps(2);
        let now = corners(&window);
        assert!(!seen.contains(&now), "{commands:?} changes what is drawn");
        window.run_steps(2);
        assert!(corners(&window) == now, "and nothing else does");
        seen.push(now);
    }
    act(&mut window, Action::Undo);
    send(&mut window, Command::Select(Selection::None));
    act(&mut window, Action::Colour);
    act(&mut window, Action::Fit);
    act(&mut window, Action::Lower);
    window.run_steps(3);
    assert!(corners(&window).0 == seen[0].0, "it is drawn as at first");
}
