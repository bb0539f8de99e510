//! Drawing on the canvas of the real window: each gesture by mouse, by keyboard or by number, its undo, its refusal.

use egui::{Event, Key, Modifiers, MouseWheelUnit, Pos2, Vec2, vec2};
use egui_kittest::kittest::Queryable as _;
use engine::workload::{AttentionShape, BatchSpec, NodeSpec, RequestSpec};
use packscope::window::App;
use packscope::window::command::Command;
use packscope::window::commands::table::Action;
use packscope::window::panel::Panel;

use crate::window::{Window, app, batch, open_with, send, settle};

/// A partly filled leaf, requests that end at an inner node, copies, a listed decode and a prefill chunk.
fn mixed() -> BatchSpec {
    let leaf = |tokens, repeat| NodeSpec { repeat, ..NodeSpec::leaf(tokens) };
    let inner = NodeSpec { requests: Some(3), children: vec![leaf(500, 2), leaf(300, 1)], ..NodeSpec::leaf(512) };
    let root = NodeSpec { children: vec![inner, leaf(600, 2)], ..NodeSpec::leaf(1024) };
    let requests = vec![RequestSpec::Decode { kv: 900, count: 2 }, RequestSpec::Prefill { chunk: 1024, kv: 4096 }];
    BatchSpec { roots: vec![root], requests, ..BatchSpec::empty(AttentionShape::default()) }
}

fn open(spec: BatchSpec) -> Window {
    let mut window = open_with(batch(spec), |ctx, opening| App::new(ctx, opening).unwrap());
    send(&mut window, Command::Show(Panel::Tree));
    window
}

fn spec(window: &mut Window) -> BatchSpec {
    (*app(window).document().spec).clone()
}

/// The rectangle of the first node, decode or chunk whose label begins so.
fn place(window: &Window, label: &str) -> egui::Rect {
    window.get_all_by_label_contains(label).next().unwrap().rect()
}

fn press(window: &mut Window, from: Pos2, modifiers: Modifiers) {
    window.event(Event::ModifiersChanged(modifiers));
    window.hover_at(from);
    window.step();
    window.event(Event::PointerButton { pos: from, button: egui::PointerButton::Primary, pressed: true, modifiers });
    window.step();
}

/// Drags from one place by some way, in steps.
fn drag(window: &mut Window, from: Pos2, by: Vec2, modifiers: Modifiers) {
    press(window, from, modifiers);
    for part in 1..=6 {
        window.event(Event::PointerMoved(from + by * (part as f32 / 6.0)));
        window.step();
    }
    release(window, from + by, modifiers);
}

fn release(window: &mut Window, at: Pos2, modifiers: Modifiers) {
    window.event(Event::PointerButton { pos: at, button: egui::PointerButton::Primary, pressed: false, modifiers });
    window.step();
    window.event(Event::ModifiersChanged(Modifiers::NONE));
    settle(window);
}

/// The stroke has the name, one undo takes it back whole, and redo brings it again.
fn is_one_step(window: &mut Window, before: &BatchSpec, name: &str) {
    let after = spec(window);
    assert_ne!(after, *before, "{name} changed nothing");
    let step = app(window).undoes().unwrap().to_owned();
    assert!(step.contains(name), "'{step}' is not '{name}'");
    send(window, Command::Act(Action::Undo));
    assert_eq!(spec(window), *before, "{name}");
    send(window, Command::Act(Action::Redo));
    assert_eq!(spec(window), after, "{name}");
    assert_eq!(app(window).problem(), None);
    let planned = &app(window).shown().unwrap().planned;
    assert_eq!(*planned.spec, after, "the plan follows");
}

#[test]
fn drags_draw_stretch_widen_move_and_copy_nodes() {
    let mut window = open(mixed());
    let before = spec(&mut window);
    let root = place(&window, "node 0:");
    drag(&mut window, root.center_bottom() - vec2(root.width() * 0.49, 2.0), vec2(0.0, 30.0), Modifiers::NONE);
    assert!(spec(&mut window).roots[0].tokens > 1024 && spec(&mut window).roots[0].tokens.is_multiple_of(32));
    is_one_step(&mut window, &before, "tokens of node 0");

    let before = spec(&mut window);
    let leaf = place(&window, "node 4:");
    drag(&mut window, leaf.right_center() - vec2(2.0, 0.0), vec2(leaf.width() * 3.0, 0.0), Modifiers::NONE);
    is_one_step(&mut window, &before, "end of node 4");
    assert_eq!(spec(&mut window).roots[0].children[0].children[1].ending(), 4);

    let before = spec(&mut window);
    let leaf = place(&window, "node 2:");
    drag(&mut window, leaf.right_center() - vec2(2.0, 0.0), vec2(leaf.width() * 4.0, 0.0), Modifiers::NONE);
    assert_eq!(spec(&mut window).roots[0].children[0].children[0].repeat, 5);
    is_one_step(&mut window, &before, "5 copies of node 2");

    for (modifiers, roots, name) in [(Modifiers::NONE, 1, "move node 1"), (Modifiers::ALT, 2, "copy node 1")] {
        let before = spec(&mut window);
        let children = before.roots[0].children.len();
        let (inner, root) = (place(&window, "node 1:"), place(&window, "node 0:"));
        let free = inner.center() + vec2(root.right() - inner.center().x + 60.0, 0.0);
        drag(&mut window, inner.center(), free - inner.center(), modifiers);
        let after = spec(&mut window);
        assert_eq!(after.roots.len(), 2, "{name}");
        assert_eq!(after.roots[0].children.len(), children + roots - 2, "{name}");
        is_one_step(&mut window, &before, name);
        send(&mut window, Command::Act(Action::Undo));
    }
}

#[test]
fn drags_on_free_canvas_draw_roots_children_and_chunks() {
    let mut window = open(BatchSpec::empty(AttentionShape::default()));
    let canvas = place(&window, "prefix tree canvas");
    let before = spec(&mut window);
    drag(&mut window, canvas.left_top() + vec2(30.0, 40.0), vec2(canvas.width() * 0.5, 60.0), Modifiers::NONE);
    is_one_step(&mut window, &before, "draw a root");
    let made = spec(&mut window);
    assert!(made.roots[0].ending() >= 2 && made.roots[0].tokens >= 64, "{:?}", made.roots);

    let before = spec(&mut window);
    let root = place(&window, "node 0:");
    drag(&mut window, root.center_bottom() + vec2(-20.0, 12.0), vec2(root.width() * 0.3, 25.0), Modifiers::ALT);
    is_one_step(&mut window, &before, "draw a node under node 0");
    let made = spec(&mut window);
    assert!(made.roots[0].children[0].repeat >= 1 && made.roots.len() == 1);
    assert_eq!(made.roots[0].request_count(), before.roots[0].request_count(), "the child takes requests over");

    let before = spec(&mut window);
    let strip = place(&window, "prefill strip");
    drag(&mut window, strip.center(), vec2(strip.width() * 0.2, 0.0), Modifiers::NONE);
    is_one_step(&mut window, &before, "draw a prefill chunk");
    let RequestSpec::Prefill { chunk, kv } = spec(&mut window).requests[0] else { panic!("no chunk") };
    assert!(kv > chunk && chunk > 100, "{chunk} {kv}");

    let before = spec(&mut window);
    let chunk = place(&window, "prefill chunk:");
    drag(&mut window, chunk.center(), vec2(-chunk.width(), 0.0), Modifiers::NONE);
    is_one_step(&mut window, &before, "prefill chunk of");
}

#[test]
fn what_cannot_be_is_refused_with_the_reason_and_changes_nothing() {
    let mut window = open(mixed());
    let before = spec(&mut window);
    let (root, inner) = (place(&window, "node 0:"), place(&window, "node 1:"));
    press(&mut window, root.center(), Modifiers::NONE);
    window.event(Event::PointerMoved(inner.center()));
    window.run_steps(2);
    let (told, refused) = app(&mut window).canvas().told().map(|(text, no)| (text.to_owned(), no)).unwrap();
    assert!(refused && told.contains("cannot stand under itself"), "{told}");
    release(&mut window, inner.center(), Modifiers::NONE);
    assert_eq!((spec(&mut window), app(&mut window).undoes()), (before, None));
}

#[test]
fn a_drag_follows_live_keeps_the_run_before_and_escape_gives_it_up() {
    let mut window = open(mixed());
    let before = spec(&mut window);
    let root = place(&window, "node 0:");
    let from = root.center_bottom() - vec2(root.width() * 0.49, 2.0);
    press(&mut window, from, Modifiers::NONE);
    window.event(Event::PointerMoved(from + vec2(0.0, 20.0)));
    window.step();
    settle(&mut window);
    let (during, planned) = (spec(&mut window), app(&mut window).shown().unwrap().planned.spec.clone());
    assert!(during.roots[0].tokens > 1024 && *planned == during, "plan and timeline follow while it lasts");
    window.key_press(Key::Escape);
    window.run_steps(2);
    assert_eq!(spec(&mut window), before);
    release(&mut window, from + vec2(0.0, 20.0), Modifiers::NONE);
    assert_eq!((spec(&mut window), app(&mut window).undoes()), (before, None));
}

#[test]
fn a_double_click_splits_and_the_wheel_with_shift_copies() {
    let mut window = open(mixed());
    let before = spec(&mut window);
    let root = place(&window, "node 0:").center();
    window.hover_at(root);
    window.step();
    let button = |pressed| Event::PointerButton {
        pos: root,
        button: egui::PointerButton::Primary,
        pressed,
        modifiers: Modifiers::NONE,
    };
    // All in one frame, since a frame of the harness takes as long as a double click may.
    window.input_mut().events.extend([true, false, true, false].map(button));
    window.step();
    settle(&mut window);
    is_one_step(&mut window, &before, "split node 0");
    assert_eq!(spec(&mut window).roots[0].children.len(), 1);
    send(&mut window, Command::Act(Action::Undo));

    let before = spec(&mut window);
    let leaf = place(&window, "node 4:").center();
    window.hover_at(leaf);
    window.step();
    for _ in 0..3 {
        let wheel = Event::MouseWheel {
            unit: MouseWheelUnit::Line,
            delta: vec2(0.0, 1.0),
            phase: egui::TouchPhase::Move,
            source: egui::MouseWheelSource::Wheel,
            modifiers: Modifiers::SHIFT,
        };
        // In one frame, since one of the harness takes half as long as the wheel may rest.
        window.input_mut().events.extend([Event::ModifiersChanged(Modifiers::SHIFT), wheel]);
        window.step();
    }
    window.event(Event::ModifiersChanged(Modifiers::NONE));
    settle(&mut window);
    assert_eq!(spec(&mut window).roots[0].children[0].children[1].repeat, 4);
    is_one_step(&mut window, &before, "4 copies of node 4");
}

#[test]
fn everything_works_by_keyboard_alone() {
    let mut window = open(BatchSpec::empty(AttentionShape::default()));
    let first = spec(&mut window);
    let keys = [
        (Modifiers::SHIFT, Key::N, "draw a root"),
        (Modifiers::NONE, Key::N, "draw a node under node 0"),
        (Modifiers::COMMAND, Key::ArrowDown, "tokens of"),
        (Modifiers::COMMAND, Key::ArrowRight, "2 copies of"),
        (Modifiers::COMMAND, Key::D, "duplicate"),
        (Modifiers::SHIFT, Key::ArrowRight, "move"),
        (Modifiers::SHIFT, Key::ArrowLeft, "move"),
        (Modifiers::NONE, Key::U, "part copy"),
        (Modifiers::COMMAND, Key::G, "group"),
        (Modifiers::NONE, Key::K, "split"),
        (Modifiers::COMMAND, Key::ArrowUp, "tokens of"),
        (Modifiers::SHIFT, Key::C, "draw a prefill chunk"),
        (Modifiers::NONE, Key::Delete, "remove"),
    ];
    let mut steps = 0;
    for (modifiers, key, name) in keys {
        let before = spec(&mut window);
        window.key_press_modifiers(modifiers, key);
        window.step();
        settle(&mut window);
        assert_ne!(spec(&mut window), before, "{name}");
        let step = app(&mut window).undoes().unwrap().to_owned();
        assert!(step.contains(name), "'{step}' is not '{name}'");
        assert_eq!(app(&mut window).problem(), None);
        steps += 1;
    }
    for _ in 0..steps {
        send(&mut window, Command::Act(Action::Undo));
    }
    assert_eq!((spec(&mut window), app(&mut window).undoes()), (first, None));
}

#[test]
fn several_are_picked_with_shift_or_a_band_and_join_group_or_go() {
    let mut window = open(mixed());
    let before = spec(&mut window);
    let (two, four) = (place(&window, "node 2:").center(), place(&window, "node 4:").center());
    press(&mut window, two, Modifiers::NONE);
    release(&mut window, two, Modifiers::NONE);
    press(&mut window, four, Modifiers::SHIFT);
    release(&mut window, four, Modifiers::SHIFT);
    assert_eq!(app(&mut window).canvas().picked().len(), 2);
    window.key_press(Key::J);
    window.step();
    settle(&mut window);
    is_one_step(&mut window, &before, "join 2 nodes");
    assert_eq!(spec(&mut window).roots[0].request_count(), before.roots[0].request_count());

    let canvas = place(&window, "prefix tree canvas");
    let root = place(&window, "node 0:");
    let corner = egui::pos2(root.right() + 40.0, canvas.top() + 4.0);
    drag(&mut window, corner, root.left_bottom() + vec2(4.0, 4.0) - corner, Modifiers::SHIFT);
    assert!(app(&mut window).canvas().picked().len() >= 2, "{:?}", app(&mut window).canvas().picked());
    let before = spec(&mut window);
    window.key_press(Key::Delete);
    window.step();
    settle(&mut window);
    is_one_step(&mut window, &before, "remove");
}

#[test]
fn figures_are_typed_in_place_and_a_shared_node_snaps_with_the_reason() {
    let mut window = open(mixed());
    let before = spec(&mut window);
    let root = place(&window, "node 0:").center();
    press(&mut window, root, Modifiers::NONE);
    release(&mut window, root, Modifiers::NONE);
    window.key_press(Key::Enter);
    window.run_steps(3);
    window.get_by_role_and_label(egui::accesskit::Role::TextInput, "copies");
    window.key_press_modifiers(Modifiers::COMMAND, Key::A);
    window.event(Event::Text("33".to_owned()));
    window.run_steps(2);
    window.key_press(Key::Enter);
    window.run_steps(3);
    settle(&mut window);
    assert_eq!(spec(&mut window).roots[0].tokens, 32);
    let (told, refused) = app(&mut window).canvas().told().map(|(text, no)| (text.to_owned(), no)).unwrap();
    assert!(!refused && told.contains("33 tokens cannot be shared"), "{told}");
    is_one_step(&mut window, &before, "figures of node 0");
}

#[test]
fn a_subtree_goes_through_the_clipboard_and_a_subtree_fills_the_canvas() {
    let mut window = open(mixed());
    let before = spec(&mut window);
    let inner = place(&window, "node 1:").center();
    press(&mut window, inner, Modifiers::NONE);
    release(&mut window, inner, Modifiers::NONE);
    window.event(Event::Copy);
    window.step();
    let text = window.output().platform_output.commands.iter().find_map(|command| match command {
        egui::OutputCommand::CopyText(text) => Some(text.clone()),
        _ => None,
    });
    window.event(Event::Paste(text.unwrap()));
    window.step();
    settle(&mut window);
    is_one_step(&mut window, &before, "paste a subtree under node 1");
    assert_eq!(spec(&mut window).roots[0].children[0].children.len(), 3);
    let narrow = place(&window, "node 1:").width();
    window.key_press(Key::OpenBracket);
    window.key_press(Key::Z);
    window.run_steps(3);
    assert!(place(&window, "node 1:").width() > narrow);
    window.get_by_label("all").click();
    window.run_steps(3);
    assert!((place(&window, "node 1:").width() - narrow).abs() < 1.0);
}

#[test]
fn a_row_of_the_batch_lights_up_with_the_canvas_and_random_batches_come_from_its_menu() {
    let mut window = open(mixed());
    window.get_by_label("end here");
    window.get_by_label("select node 1").click();
    window.run_steps(3);
    assert_eq!(app(&mut window).selected(), packscope::window::selection::Selection::Node(engine::units::NodeIdx(1)));
    assert_eq!(app(&mut window).canvas().picked().len(), 1, "the canvas follows");
    let before = spec(&mut window);
    window.get_by_label("Random").click();
    window.run_steps(3);
    window.get_by_label("Prefill beside decodes").click();
    window.run_steps(3);
    settle(&mut window);
    assert!(spec(&mut window).is_hybrid());
    is_one_step(&mut window, &before, "random batch of seed 1");
}

/// Two cores and a software renderer draw the picture beside; this is our share: layout, plan requests and meshes.
#[test]
fn a_drag_in_a_tree_of_1024_requests_draws_on() {
    let leaf = NodeSpec { repeat: 16, ..NodeSpec::leaf(192) };
    let inner = NodeSpec { repeat: 64, children: vec![leaf], ..NodeSpec::leaf(512) };
    let root = NodeSpec { children: vec![inner], ..NodeSpec::leaf(2048) };
    let mut window = open(BatchSpec { roots: vec![root], ..BatchSpec::empty(AttentionShape::default()) });
    let root = place(&window, "node 0:");
    let from = root.center_bottom() - vec2(0.0, 2.0);
    press(&mut window, from, Modifiers::NONE);
    let begin = std::time::Instant::now();
    for part in 0..20 {
        window.event(Event::PointerMoved(from + vec2(0.0, part as f32)));
        window.step();
    }
    let frame = begin.elapsed() / 20;
    release(&mut window, from + vec2(0.0, 19.0), Modifiers::NONE);
    eprintln!("a frame of the drag takes {frame:?} of our own");
    assert!(spec(&mut window).roots[0].tokens > 2048);
    assert!(frame.as_millis() < 400, "{frame:?}");
}
