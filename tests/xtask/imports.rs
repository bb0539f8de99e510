//! Import directions: within the engine and within the app a module may use only those left of it, and packages
//! use only what the architecture gives them.

use crate::Fault;
use crate::sources::Source;

/// Modules of the engine from left to right; those on one step do not use each other, but for
/// `workload`, whose file errors the device table shares.
const STEPS: [&[&str]; 17] = [
    &["units"],
    &["shown"],
    &["error"],
    &["cancel", "decision"],
    &["workload"],
    &["hw", "import"],
    &["tile"],
    &["pack"],
    &["plan"],
    &["capture", "numerics"],
    &["backend"],
    &["metrics"],
    &["export"],
    &["session"],
    &["calibrate"],
    &["replan"],
    &["replay", "sweep"],
];

/// Rooms of the app from left to right.
const ROOMS: [&[&str]; 8] = [
    &["paths", "samples", "theme"],
    &["document"],
    &["timeline"],
    &["runs"],
    &["picture"],
    &["jobs"],
    &["window"],
    &["cli"],
];

/// (folder, its modules in order).
const ORDERS: [(&str, &[&[&str]]); 2] = [("engine/src/", &STEPS), ("app/src/", &ROOMS)];

/// (folder, crates that its sources may not name).
const FORBIDDEN: [(&str, &[&str]); 5] = [
    ("engine/", &["egui", "eframe", "packscope", "cudarc", "libloading"]),
    ("app/", &["kernels", "cupti", "cupti_sys", "cudarc"]),
    ("kernels/", &["engine", "egui", "cupti", "packscope"]),
    ("cupti/", &["engine", "egui", "kernels", "packscope"]),
    ("cupti/sys/", &["cudarc", "cupti"]),
];

pub(crate) fn check(sources: &[Source]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for source in sources.iter().filter(|source| source.is_rust()) {
        for (folder, order) in ORDERS {
            if let Some(module) = module_in(folder, &source.path) {
                faults.extend(imports_against(order, source, module));
            }
        }
        for (folder, crates) in FORBIDDEN {
            if source.path.starts_with(folder) {
                faults.extend(foreign_imports(source, crates));
            }
        }
    }
    faults
}

/// `pack` for `engine/src/pack/pat.rs` and for `engine/src/pack.rs`; none for the roots of a crate.
fn module_in<'a>(folder: &str, path: &'a str) -> Option<&'a str> {
    let rest = path.strip_prefix(folder)?;
    let module = rest.split('/').next()?.trim_end_matches(".rs");
    (!["lib", "main"].contains(&module)).then_some(module)
}

fn step_of(order: &[&[&str]], module: &str) -> Option<usize> {
    order.iter().position(|step| step.contains(&module))
}

fn imports_against(order: &[&[&str]], source: &Source, module: &str) -> Vec<Fault> {
    let Some(own) = step_of(order, module) else {
        return vec![Fault::at(
            source,
            1,
            format!("module {module} has no place in the order of tests/xtask/imports.rs"),
        )];
    };
    let mut faults = Vec::new();
    for (number, line) in source.text.lines().enumerate() {
        if is_comment(line) {
            continue;
        }
        for used in paths_after(line, "crate::") {
            let allowed = used == module || step_of(order, used).is_none_or(|step| step < own);
            if !allowed {
                faults.push(Fault::at(
                    source,
                    number + 1,
                    format!("{module} may not use {used}, which is not left of it"),
                ));
            }
        }
    }
    faults
}

fn foreign_imports(source: &Source, crates: &[&str]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (number, line) in source.text.lines().enumerate() {
        let named = crates.iter().find(|name| {
            line.trim_start().starts_with(&format!("use {name}::")) || paths_after(line, "").any(|path| path == **name)
        });
        if let (Some(name), false) = (named, is_comment(line)) {
            faults.push(Fault::at(source, number + 1, format!("{name} may not be used here")));
        }
    }
    faults
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with("//")
}

/// Identifiers that stand right behind `prefix` and are followed by `::`, `;`, `{` or a name's end.
/// With an empty prefix: identifiers at the start of a path, that is, followed by `::` and not
/// preceded by `::` or a letter.
fn paths_after<'a>(line: &'a str, prefix: &'a str) -> impl Iterator<Item = &'a str> {
    let separator = if prefix.is_empty() { "::" } else { prefix };
    line.match_indices(separator).filter_map(move |(at, found)| {
        if prefix.is_empty() {
            let head = &line[..at];
            let start = head.rfind(|c: char| !(c.is_alphanumeric() || c == '_')).map_or(0, |p| p + 1);
            (!head[..start].ends_with("::")).then_some(&head[start..])
        } else {
            let rest = &line[at + found.len()..];
            let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
            Some(&rest[..end])
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(path: &str, text: &str) -> usize {
        check(&[Source { path: path.to_owned(), text: text.to_owned() }]).len()
    }

    #[test]
    fn a_module_that_looks_right_of_itself_is_found() {
        assert_eq!(faults("engine/src/tile/solver.rs", "use crate::plan::LaunchPlan;"), 1);
        assert_eq!(faults("engine/src/metrics/traffic.rs", "use crate::backend::Cancel;"), 0);
        assert_eq!(faults("engine/src/plan/build.rs", "use crate::session;\nuse crate::units::Nanos;"), 1);
        assert_eq!(faults("engine/src/fancy.rs", ""), 1);
    }

    #[test]
    fn a_room_that_looks_right_of_itself_is_found() {
        assert_eq!(faults("app/src/picture/timeline.rs", "use crate::window::frame::Frame;"), 1);
        assert_eq!(faults("app/src/window/app.rs", "fn f() { crate::cli::main(); }"), 1);
        assert_eq!(faults("app/src/cli/commands/view.rs", "use crate::window::{self, Opening};"), 0);
        assert_eq!(faults("app/src/attic/mod.rs", ""), 1);
        assert_eq!(faults("app/src/main.rs", "fn main() {}"), 0);
    }

    #[test]
    fn a_package_that_names_a_forbidden_crate_is_found() {
        assert_eq!(faults("app/src/main.rs", "use kernels::launch;"), 1);
        assert_eq!(faults("engine/src/units.rs", "fn f() { egui::Rect::NOTHING; }"), 1);
        assert_eq!(faults("app/src/main.rs", "use engine::session;"), 0);
    }
}
