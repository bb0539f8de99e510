//! What was done, and how it is taken back and done again.

use super::Document;
use super::edit::Edit;

/// Steps that are kept; a batch is shared between steps that do not change it.
const KEPT: usize = 4096;

/// A drag, or typing in one field: all edits of it are one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gesture(pub u64);

#[derive(Clone, Debug)]
struct Step {
    name: String,
    /// Takes the step back, or does it again.
    edit: Edit,
    /// The gesture that it belongs to, while that lasts.
    gesture: Option<Gesture>,
}

/// The steps behind and, after some were taken back, before the document.
#[derive(Clone, Debug, Default)]
pub struct History {
    undo: Vec<Step>,
    redo: Vec<Step>,
}

impl History {
    /// Edits the document; false where that changes nothing.
    pub fn edit(&mut self, document: &mut Document, edit: Edit, gesture: Option<Gesture>) -> bool {
        if edit.changes_nothing(document) {
            return false;
        }
        let name = edit.name(document);
        let back = edit.apply(document);
        self.redo.clear();
        match self.undo.last_mut() {
            // The step goes back to where the gesture began.
            Some(last) if gesture.is_some() && last.gesture == gesture && last.edit.is_like(&back) => {
                last.name = name;
                // A drag that came back to where it began is no step.
                if last.edit.changes_nothing(document) {
                    self.undo.pop();
                }
            }
            _ => self.undo.push(Step { name, edit: back, gesture }),
        }
        if self.undo.len() > KEPT {
            self.undo.remove(0);
        }
        true
    }

    /// Ends the gesture: what comes next is a step of its own.
    pub fn seal(&mut self) {
        if let Some(last) = self.undo.last_mut() {
            last.gesture = None;
        }
    }

    /// Takes the last step back; gives its name.
    pub fn undo(&mut self, document: &mut Document) -> Option<String> {
        travel(&mut self.undo, &mut self.redo, document)
    }

    /// Does the step again that was taken back last; gives its name.
    pub fn redo(&mut self, document: &mut Document) -> Option<String> {
        travel(&mut self.redo, &mut self.undo, document)
    }

    /// Name of the step that undo takes back.
    pub fn undoes(&self) -> Option<&str> {
        self.undo.last().map(|step| step.name.as_str())
    }

    /// Name of the step that redo does again.
    pub fn redoes(&self) -> Option<&str> {
        self.redo.last().map(|step| step.name.as_str())
    }
}

fn travel(from: &mut Vec<Step>, to: &mut Vec<Step>, document: &mut Document) -> Option<String> {
    let Step { name, edit, .. } = from.pop()?;
    let edit = edit.apply(document);
    to.push(Step { name: name.clone(), edit, gesture: None });
    Some(name)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use engine::capture::L2State;
    use engine::pack::Forced;
    use engine::plan::Strategy as Launching;
    use engine::plan::hybrid::PodChoice;
    use engine::session::PlanOptions;
    use engine::tile::Tile;
    use engine::units::NodeIdx;
    use engine::workload::{AttentionShape, BatchSpec, NodeSpec};
    use proptest::prelude::*;

    use super::*;
    use crate::samples;

    fn document() -> Document {
        let spec = BatchSpec::from_ron(samples::find(samples::DEFAULT).unwrap().text).unwrap();
        Document { spec: Arc::new(spec), options: PlanOptions::new(&engine::hw::builtin()[0]), l2: L2State::Cold }
    }

    fn batch(of: usize, tokens: u64) -> BatchSpec {
        let all = samples::samples();
        let mut spec = BatchSpec::from_ron(all[of % all.len()].text).unwrap();
        spec.roots.push(NodeSpec::leaf(tokens));
        spec
    }

    /// Any edit: what a person can change, to values that panels could give and to odd ones.
    fn edits() -> impl Strategy<Value = Edit> {
        let devices = engine::hw::builtin();
        prop_oneof![
            (0..99_usize, 1..9_000_u64).prop_map(|(of, tokens)| Edit::Batch(Arc::new(batch(of, tokens)))),
            (0..99_usize).prop_map(|at| {
                let all = engine::pack::schedulers();
                Edit::Scheduler(all[at % all.len()].name().to_owned(), at % 2 == 0)
            }),
            (0..Launching::ALL.len()).prop_map(|at| Edit::Strategy(Launching::ALL[at], at % 2 == 0)),
            (0..9_usize).prop_map(|at| Edit::Pod(PodChoice::all().nth(at % PodChoice::all().count()).unwrap())),
            (0..devices.len(), 1..200_u32).prop_map(|(at, sms)| {
                let mut device = engine::hw::builtin()[at].clone();
                device.sm_count = sms;
                Edit::Device(Box::new(device))
            }),
            proptest::option::of((0..4_u32, 0..4_u32))
                .prop_map(|tile| Edit::Tile(tile.map(|(m, n)| Tile { m: 16 << m, n: 16 << n }))),
            prop_oneof![Just(0.1 + 0.2), Just(-0.0), Just(0.0), 0.01..1000.0_f64].prop_map(Edit::SplitConstant),
            prop_oneof![Just(L2State::Cold), Just(L2State::Warm)].prop_map(Edit::L2),
            (0..9_u32, any::<bool>())
                .prop_map(|(node, split)| { Edit::Forced(vec![Forced::Sharing { child: NodeIdx(node), split }]) }),
            (0..9_usize, 1..900_u64)
                .prop_map(|(of, tokens)| { Edit::Draw(Arc::new(batch(of, tokens)), "a stroke".to_owned()) }),
            (0..99_usize, 1..9_000_u64).prop_map(|(of, tokens)| {
                Edit::Whole(Box::new(Document { spec: Arc::new(batch(of, tokens)), ..document() }))
            }),
        ]
    }

    proptest! {
        #[test]
        fn any_edits_undone_give_the_first_document_byte_for_byte(
            all in proptest::collection::vec((edits(), proptest::option::of(0..3_u64), any::<bool>()), 0..60)
        ) {
            let (mut now, mut history) = (document(), History::default());
            let first = now.to_ron().unwrap();
            for (edit, gesture, ends) in all {
                history.edit(&mut now, edit, gesture.map(Gesture));
                if ends {
                    history.seal();
                }
            }
            let last = now.to_ron().unwrap();
            while history.undo(&mut now).is_some() {}
            prop_assert_eq!(&now.to_ron().unwrap(), &first);
            while history.redo(&mut now).is_some() {}
            prop_assert_eq!(now.to_ron().unwrap(), last);
        }
    }

    #[test]
    fn a_gesture_is_one_step_and_the_next_one_another() {
        let (mut now, mut history) = (document(), History::default());
        let drag = Some(Gesture(7));
        for value in [1.0, 2.0, 3.0] {
            history.edit(&mut now, Edit::SplitConstant(value), drag);
        }
        history.edit(&mut now, Edit::L2(L2State::Warm), drag);
        history.seal();
        history.edit(&mut now, Edit::L2(L2State::Cold), drag);
        assert_eq!(history.undo(&mut now).as_deref(), Some("cold L2"));
        assert_eq!(history.undo(&mut now).as_deref(), Some("warm L2"));
        assert_eq!(history.undoes(), Some("split constant 3.00"));
        history.undo(&mut now);
        assert_eq!((now, history.undoes()), (document(), None));
        assert_eq!(history.redoes(), Some("split constant 3.00"));
    }

    #[test]
    fn steps_are_named_after_what_they_change() {
        let before = document();
        let named = |change: fn(&mut BatchSpec)| {
            let mut spec = (*before.spec).clone();
            change(&mut spec);
            Edit::Batch(Arc::new(spec)).name(&before)
        };
        assert_eq!(named(|spec| spec.shape.kv_heads += 1), "KV heads");
        assert_eq!(named(|spec| spec.roots[0].tokens += 16), "tokens of a node");
        assert_eq!(named(|spec| spec.roots[0].children[0].repeat += 1), "copies of a node");
        assert_eq!(named(|spec| spec.roots.push(NodeSpec::leaf(16))), "new tree node");
        assert_eq!(named(|spec| spec.name = "other".to_owned()), "name of the batch");
        assert_eq!(named(|spec| *spec = BatchSpec::empty(AttentionShape::default())), "change of the batch");
        assert_eq!(Edit::Scheduler("min-traffic".to_owned(), false).name(&before), "scheduler min-traffic");
    }

    #[test]
    fn what_changes_nothing_is_no_step() {
        let (mut now, mut history) = (document(), History::default());
        let same = Edit::Strategy(now.options.strategy, now.options.auto.strategy);
        assert!(!history.edit(&mut now, same, None) && history.undoes().is_none());
    }
}
