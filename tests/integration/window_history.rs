//! Undo in the real window: any edits taken back give the first document, and a gesture is one step.

use egui::{Vec2, vec2};
use egui_kittest::kittest::Queryable as _;
use engine::capture::L2State;
use engine::plan::Strategy;
use engine::plan::hybrid::PodChoice;
use engine::tile::Tile;
use engine::workload::{NodeSpec, RequestSpec};
use packscope::window::App;
use packscope::window::command::Command;
use packscope::window::commands::table::Action;

use crate::window::{Window, app, batch, open_with, send, settle, small};

fn open() -> Window {
    open_with(batch(small()), |ctx, opening| App::new(ctx, opening).unwrap())
}

fn text(window: &mut Window) -> String {
    app(window).document().to_ron().unwrap()
}

/// An edit that a person could make, by number.
fn edit(window: &mut Window, number: u32) -> Command {
    let mut spec = (*app(window).document().spec).clone();
    let (kind, value) = (number % 11, number / 11);
    match kind {
        0 => return Command::Scheduler(of(engine::pack::schedulers(), value).name().to_owned()),
        1 => return Command::Strategy(*of(&Strategy::ALL, value)),
        2 => return Command::Device(of(engine::hw::builtin(), value).key.clone()),
        3 => return Command::SplitConstant(f64::from(value) * 0.1 + 0.01),
        4 => return Command::Tile((!value.is_multiple_of(3)).then_some(Tile { m: 64, n: 16 << (value % 3) })),
        5 => return Command::L2(if value.is_multiple_of(2) { L2State::Warm } else { L2State::Cold }),
        6 => return Command::Pod(PodChoice::all().nth(value as usize % 3).unwrap()),
        7 => return Command::Sample(of(packscope::samples::samples(), value % 8).key),
        8 => spec.roots.push(NodeSpec::leaf(u64::from(value % 500) + 1)),
        9 => spec.requests.push(RequestSpec::Decode { kv: u64::from(value % 900) + 1, count: value % 20 + 1 }),
        _ => spec.name = format!("batch {value}"),
    }
    Command::Edit(Box::new(spec))
}

fn of<T>(all: &[T], value: u32) -> &T {
    &all[value as usize % all.len()]
}

/// Edits of twelve seeds, since a window is too slow to shrink in.
#[test]
fn any_edits_in_the_window_undone_give_the_first_document() {
    for seed in 0..12_u32 {
        let mut numbers = (1..=20_u32).map(|at| (seed * 20 + at).wrapping_mul(2_654_435_761) >> 8);
        let mut window = open();
        let first = text(&mut window);
        let mut named = Vec::new();
        for number in &mut numbers {
            let command = edit(&mut window, number);
            app(&mut window).send(command);
            window.step();
            named.extend(app(&mut window).undoes().map(str::to_owned));
        }
        let last = text(&mut window);
        for _ in 0..20 {
            app(&mut window).send(Command::Act(Action::Undo));
            window.step();
        }
        assert_eq!(text(&mut window), first, "{seed}: {named:?}, {:?} is left", app(&mut window).undoes());
        for _ in 0..20 {
            app(&mut window).send(Command::Act(Action::Redo));
            window.step();
        }
        assert_eq!(text(&mut window), last, "{seed}: {named:?}");
    }
}

/// Drags the field that is named so, in steps.
fn drag(window: &mut Window, name: &str, by: Vec2) {
    let from = window.get_by_role_and_label(egui::accesskit::Role::SpinButton, name).rect().center();
    window.hover_at(from);
    window.step();
    window.drag_at(from);
    window.step();
    for part in 1..=8 {
        window.hover_at(from + by * (part as f32 / 8.0));
        window.step();
    }
    window.drop_at(from + by);
    window.step();
    settle(window);
}

#[test]
fn a_drag_of_one_field_is_one_step_and_the_next_drag_another() {
    let mut window = open();
    let heads = |window: &mut Window| app(window).document().spec.shape.query_heads;
    let first = heads(&mut window);
    drag(&mut window, "query heads", vec2(120.0, 0.0));
    let second = heads(&mut window);
    assert!(second > first + 3, "{first} {second}");
    drag(&mut window, "query heads", vec2(120.0, 0.0));
    assert!(heads(&mut window) > second);
    assert_eq!(app(&mut window).undoes(), Some("query heads"));
    send(&mut window, Command::Act(Action::Undo));
    assert_eq!(heads(&mut window), second);
    send(&mut window, Command::Act(Action::Undo));
    assert_eq!(heads(&mut window), first);
    assert_eq!(app(&mut window).undoes(), None);
}

#[test]
fn typing_in_one_field_is_one_step() {
    let mut window = open();
    let fields = window.get_all_by_role(egui::accesskit::Role::TextInput);
    let leftmost = fields.min_by(|a, b| a.rect().left().total_cmp(&b.rect().left())).unwrap();
    leftmost.focus();
    window.run_steps(2);
    for letter in ["f", "o", "u", "r"] {
        window.event(egui::Event::Text(letter.to_owned()));
        window.run_steps(2);
    }
    assert_eq!(app(&mut window).document().spec.name, "emptyfour");
    assert_eq!(app(&mut window).undoes(), Some("name of the batch"));
    send(&mut window, Command::Act(Action::Undo));
    assert_eq!(app(&mut window).document().spec.name, "empty");
    assert_eq!(app(&mut window).undoes(), None);
}

#[test]
fn every_choice_is_taken_back_by_name() {
    let mut window = open();
    send(&mut window, Command::Scheduler("min-traffic".to_owned()));
    send(&mut window, Command::L2(L2State::Warm));
    assert_eq!(app(&mut window).undoes(), Some("warm L2"));
    window.get_by_label("Edit").click();
    window.run_steps(3);
    window.get_by_label_contains("Undo warm L2").click();
    window.run_steps(3);
    settle(&mut window);
    assert_eq!(app(&mut window).document().l2, L2State::Cold);
    assert_eq!(app(&mut window).undoes(), Some("scheduler min-traffic"));
    send(&mut window, Command::Act(Action::Undo));
    assert_eq!(app(&mut window).shown().unwrap().planned.options.scheduler, "pat", "the plan follows");
}
