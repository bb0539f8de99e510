//! Decisions, tiles and launches in the real window: another choice is tried and taken back.

use egui_kittest::kittest::Queryable as _;
use engine::pack::Forced;
use engine::tile::Tile;
use engine::units::{NodeIdx, PackIdx};
use packscope::window::App;
use packscope::window::command::Command;
use packscope::window::commands::table::Action;
use packscope::window::panel::{Panel, Part};
use packscope::window::selection::Selection;

use crate::window::{Window, app, batch, open_with, send, settle, small};

fn open(panel: Panel) -> Window {
    let mut window = open_with(batch(small()), |ctx, opening| App::new(ctx, opening).unwrap());
    send(&mut window, Command::Show(panel));
    window
}

#[test]
fn a_way_that_was_not_chosen_is_tried_and_taken_back_in_one_step() {
    let mut window = open(Panel::Decisions);
    let before = app(&mut window).shown().unwrap().plan_digest;
    window.get_all_by_label("sharing · node 0 with node 1").next().unwrap().click();
    window.run_steps(3);
    window.get_all_by_label("try").next().unwrap().click();
    window.run_steps(3);
    settle(&mut window);
    assert_eq!(app(&mut window).document().options.pack.forced.len(), 1);
    assert_ne!(app(&mut window).shown().unwrap().plan_digest, before);
    let step = app(&mut window).undoes().unwrap().to_owned();
    assert!(step.contains("node 1"), "{step}");
    window.get_by_label_contains("flipped choice");
    window.get_by_label("Take it back").click();
    window.run_steps(3);
    settle(&mut window);
    assert_eq!(app(&mut window).shown().unwrap().plan_digest, before);
    assert!(app(&mut window).document().options.pack.forced.is_empty());
}

#[test]
fn a_tile_is_chosen_for_one_pack_and_for_all() {
    let mut window = open(Panel::Tiles);
    send(&mut window, Command::Select(Selection::Pack(PackIdx(0))));
    window.get_by_label_contains("tile 64×32:").click();
    window.run_steps(3);
    window.get_by_label("Use 64×32 for pack 0").click();
    window.run_steps(3);
    settle(&mut window);
    let tiles = |window: &mut Window| {
        app(window).shown().unwrap().planned.plan.packs.iter().map(|pack| pack.tile).collect::<Vec<_>>()
    };
    let wanted = Tile { m: 64, n: 32 };
    let feasible = app(&mut window).shown().unwrap().planned.tiles.feasible().contains(&wanted);
    assert!(feasible && tiles(&mut window)[0] == wanted, "{:?}", tiles(&mut window));
    assert_eq!(app(&mut window).undoes(), Some("tile 64×32 for pack 0"));
    send(&mut window, Command::Unforce);
    assert_eq!(app(&mut window).undoes(), Some("leave to the rule: tile 64×32 for pack 0"));
    assert_ne!(tiles(&mut window)[0], wanted);
    window.get_by_label("Use 64×32 for every pack").click();
    window.run_steps(3);
    settle(&mut window);
    assert!(tiles(&mut window).iter().all(|tile| *tile == wanted));
}

#[test]
fn a_choice_about_what_is_not_there_is_left_out() {
    let mut window = open(Panel::Decisions);
    let before = app(&mut window).shown().unwrap().plan_digest;
    send(&mut window, Command::Force(Forced::Sharing { child: NodeIdx(999), split: true }));
    assert_eq!((app(&mut window).shown().unwrap().plan_digest, app(&mut window).problem()), (before, None));
    window.get_by_label_contains("0 met by this plan");
    send(&mut window, Command::Act(Action::Undo));
}

#[test]
fn launches_are_stepped_through_and_packs_scroll_to_the_selection() {
    let mut window = open(Panel::Plan);
    window.get_by_label_contains("launch 0:");
    window.get_by_label("Next launch").click();
    window.run_steps(3);
    window.get_by_label_contains("Launch 1:");
    send(&mut window, Command::Show(Panel::Packs));
    let last = app(&mut window).shown().unwrap().planned.plan.packs.len() - 1;
    send(&mut window, Command::Select(Selection::Pack(PackIdx::from(last))));
    window.run_steps(3);
    assert!(window.query_all_by_label(&last.to_string()).count() >= 1, "pack {last} is in sight");
    assert_eq!(app(&mut window).failure(Part::Panel(Panel::Packs)), None);
}
