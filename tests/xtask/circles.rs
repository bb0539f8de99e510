//! No file of the app in a circle of imports: each can be read with only those below it in mind.
//!
//! ```text
//! file ──use trees, paths in code──► modules that it names ──► files ──► strongly connected ──► fault
//! ```
//!
//! What stands behind `#[cfg(test)] mod tests` may look anywhere.

use std::collections::{BTreeMap, BTreeSet};

use crate::Fault;
use crate::sources::Source;

const ROOT: &str = "app/src/";

/// Modules by path, with those that each uses.
type Uses = BTreeMap<String, BTreeSet<String>>;

pub(crate) fn check(sources: &[Source]) -> Vec<Fault> {
    let files: BTreeMap<String, &Source> =
        sources.iter().filter_map(|source| Some((module(&source.path)?, source))).collect();
    let uses: Uses = files.iter().map(|(own, source)| (own.clone(), used_by(own, &source.text, &files))).collect();
    let reached: Uses = uses.keys().map(|from| (from.clone(), reached_from(from, &uses))).collect();
    let in_circle = |own: &&String| reached[*own].contains(*own);
    let told = |own: &String| {
        let others: Vec<&str> =
            uses[own].iter().filter(|other| reached[*other].contains(own)).map(String::as_str).collect();
        Fault::at(files[own], 1, format!("{own} is in a circle of imports, over {}", others.join(", ")))
    };
    uses.keys().filter(in_circle).map(told).collect()
}

/// `window::panels` for `app/src/window/panels/mod.rs`; none for what is not of the app, and for its roots.
fn module(path: &str) -> Option<String> {
    let name = path.strip_prefix(ROOT)?.strip_suffix(".rs")?;
    let name = name.strip_suffix("/mod").unwrap_or(name);
    (!["lib", "main"].contains(&name) && !name.ends_with("tests")).then(|| name.replace('/', "::"))
}

fn reached_from(from: &str, uses: &Uses) -> BTreeSet<String> {
    let (mut reached, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(next) = open.pop() {
        open.extend(uses[next].iter().filter(|used| reached.insert((*used).clone())).map(String::as_str));
    }
    reached
}

/// Files of the modules that `text` names.
fn used_by(own: &str, text: &str, files: &BTreeMap<String, &Source>) -> BTreeSet<String> {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = code.lines().map(|line| line.split("//").next().unwrap_or_default());
    let code = lines.collect::<Vec<_>>().join("\n");
    let mut used = BTreeSet::new();
    for statement in code.split(';') {
        let tree = statement.rsplit_once("use ").filter(|(before, _)| begins_statement(before));
        let (before, tree) = tree.unwrap_or((statement, ""));
        let paths = [expanded(tree), paths_in(before)].concat();
        used.extend(paths.iter().filter_map(|path| file_of(own, path, files)).filter(|file| file != own));
    }
    used
}

/// Whether `use` behind this text begins a statement: alone on its line but for `pub`.
fn begins_statement(before: &str) -> bool {
    let line = before.rsplit('\n').next().unwrap_or_default().trim();
    line.is_empty() || line.starts_with("pub")
}

/// The paths of a tree: `a::{b, c::d}` is `a::b` and `a::c::d`.
fn expanded(tree: &str) -> Vec<String> {
    let Some((before, rest)) = tree.split_once('{') else {
        return vec![tree.split(" as ").next().unwrap_or_default().trim().to_owned()];
    };
    let inner = rest.rsplit_once('}').map_or(rest, |(inner, _)| inner);
    let (mut depth, mut part, mut parts) = (0_i32, String::new(), Vec::new());
    for letter in inner.chars() {
        depth += i32::from(letter == '{') - i32::from(letter == '}');
        if letter == ',' && depth == 0 {
            parts.push(std::mem::take(&mut part));
        } else {
            part.push(letter);
        }
    }
    parts.push(part);
    let parts = parts.iter().filter(|part| !part.trim().is_empty());
    parts.flat_map(|part| expanded(part)).map(|path| format!("{}{path}", before.trim())).collect()
}

/// Paths of two names or more within code.
fn paths_in(code: &str) -> Vec<String> {
    let words = code.split(|letter: char| !(letter.is_alphanumeric() || "_:".contains(letter)));
    words.filter(|word| word.contains("::")).map(str::to_owned).collect()
}

/// The file that a path leads to, seen from the module `own`.
fn file_of(own: &str, path: &str, files: &BTreeMap<String, &Source>) -> Option<String> {
    let mut parts: Vec<&str> = path.split("::").filter(|part| *part != "self" || path.starts_with("self")).collect();
    let mut base: Vec<&str> = own.split("::").collect();
    match *parts.first()? {
        "crate" => base.clear(),
        "self" => {}
        "super" => {
            while parts.get(1) == Some(&"super") {
                parts.remove(0);
                base.pop();
            }
            base.pop();
        }
        // A child by its bare name, where there is such a file.
        name => return files.contains_key(&format!("{own}::{name}")).then(|| format!("{own}::{name}")),
    }
    base.extend(&parts[1..]);
    (1..=base.len()).rev().map(|length| base[..length].join("::")).find(|file| files.contains_key(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(files: &[(&str, &str)]) -> Vec<String> {
        let source = |(path, text): &(&str, &str)| Source { path: (*path).to_owned(), text: (*text).to_owned() };
        check(&files.iter().map(source).collect::<Vec<_>>()).iter().map(Fault::to_string).collect()
    }

    #[test]
    fn files_that_use_each_other_are_found_whatever_way_they_are_named() {
        let circle = [
            ("app/src/runs/mod.rs", "mod run;\npub use run::{Run, Times};"),
            (
                "app/src/runs/run.rs",
                "use crate::theme::Tokens;\nuse crate::{\n    samples,\n    window::{frame::Frame, app},\n};",
            ),
            ("app/src/window/frame.rs", "fn f() -> crate::runs::Run { super::app::open() }"),
            ("app/src/window/app.rs", "/// crate::runs::Run\nfn open() {}"),
            ("app/src/theme.rs", "#[cfg(test)]\nmod tests {\n    use crate::runs::run;\n}"),
            ("app/src/samples.rs", ""),
        ];
        let told_all = told(&circle);
        assert_eq!(told_all.len(), 3, "{told_all:?}");
        assert!(told_all[0].contains("runs is in a circle of imports, over runs::run"), "{told_all:?}");
        let cut: Vec<_> = circle.iter().filter(|(path, _)| !path.ends_with("frame.rs")).copied().collect();
        assert_eq!(told(&cut), Vec::<String>::new());
    }

    #[test]
    fn a_parent_and_a_child_that_name_each_other_are_a_circle() {
        let parent = ("app/src/cli/mod.rs", "mod run;\nfn f() { run::run() }\npub struct Out;");
        assert_eq!(told(&[parent, ("app/src/cli/run.rs", "use super::Out;")]).len(), 2);
        assert_eq!(told(&[parent, ("app/src/cli/run.rs", "pub fn run() {}")]).len(), 0);
    }
}
