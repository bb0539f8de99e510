//! What a package's dependency tree must not hold, and that the Rust we ask for compiles all of it.

use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::Fault;

/// (arguments of `cargo tree`, crates that must not come up).
const RULES: [(&[&str], &[&str]); 3] = [
    (&["-p", "engine", "--no-default-features"], &["egui", "eframe", "cudarc", "libloading"]),
    (&["-p", "kernels"], &["egui", "engine"]),
    (&["-p", "cupti"], &["egui", "engine", "kernels"]),
];

pub(crate) fn check() -> Result<Vec<Fault>> {
    let mut faults = Vec::new();
    for (arguments, forbidden) in RULES {
        for name in names(arguments)? {
            if forbidden.contains(&name.as_str()) {
                faults.push(Fault {
                    source: format!("cargo tree {}", arguments.join(" ")),
                    line: 1,
                    text: format!("{name} must not be a dependency"),
                });
            }
        }
    }
    faults.extend(two_eguis()?);
    faults.extend(rust_versions()?);
    Ok(faults)
}

/// Our `rust-version` against that of every dependency, on all platforms, and against what the README says.
fn rust_versions() -> Result<Vec<Fault>> {
    let metadata: Value = serde_json::from_str(&cargo(&["metadata", "--format-version", "1"])?)?;
    let readme = std::fs::read_to_string("README.md").context("reading README.md")?;
    too_new(&metadata, &readme)
}

/// What asks for a newer Rust than our packages do, and what tells a person another.
fn too_new(metadata: &Value, readme: &str) -> Result<Vec<Fault>> {
    let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    let fault = |source: &str, text: String| Fault { source: source.to_owned(), line: 1, text };
    // Packages without a source are ours.
    let (own, others): (Vec<&Value>, Vec<&Value>) = packages.iter().partition(|package| package["source"].is_null());
    let ours = own.iter().filter_map(|package| package["rust_version"].as_str()).min_by_key(|text| version(text));
    let ours = ours.context("no package of the workspace has a rust-version")?;
    let mut faults: Vec<Fault> = others
        .iter()
        .filter_map(|package| {
            let needs = package["rust_version"].as_str().filter(|needs| version(needs) > version(ours))?;
            let (name, release) = (package["name"].as_str()?, package["version"].as_str()?);
            Some(fault("Cargo.toml", format!("{name} {release} needs Rust {needs}, and our rust-version is {ours}")))
        })
        .collect();
    if !readme.contains(&format!("Rust {ours} or later")) {
        faults.push(fault("README.md", format!("it does not ask for 'Rust {ours} or later', our rust-version")));
    }
    Ok(faults)
}

/// `1.95` and `1.95.0` as numbers.
fn version(text: &str) -> [u32; 3] {
    let mut parts = text.split('.').map(|part| part.parse().unwrap_or(0));
    std::array::from_fn(|_| parts.next().unwrap_or(0))
}

/// A second egui would mean two windows' worth of types that do not fit each other.
fn two_eguis() -> Result<Option<Fault>> {
    let eguis = names(&["--workspace"])?.into_iter().filter(|name| name == "egui").count();
    Ok((eguis > 1).then(|| Fault {
        source: "Cargo.lock".to_owned(),
        line: 1,
        text: format!("{eguis} versions of egui"),
    }))
}

/// Names of the packages in a tree, each version once.
fn names(arguments: &[&str]) -> Result<Vec<String>> {
    let tree = ["tree", "--edges", "normal", "--prefix", "none", "--format", "{p}"];
    let mut packages: Vec<String> = cargo(&[&tree, arguments].concat())?
        .lines()
        .map(|line| line.split_whitespace().take(2).collect::<Vec<_>>().join(" "))
        .filter(|package| !package.is_empty())
        .collect();
    packages.sort();
    packages.dedup();
    Ok(packages.into_iter().filter_map(|package| package.split(' ').next().map(str::to_owned)).collect())
}

/// What cargo writes to stdout.
fn cargo(arguments: &[&str]) -> Result<String> {
    let output =
        Command::new("cargo").args(arguments).output().with_context(|| format!("starting cargo {}", arguments[0]))?;
    if !output.status.success() {
        bail!("cargo {} failed: {}", arguments[0], String::from_utf8_lossy(&output.stderr));
    }
    String::from_utf8(output.stdout).context("cargo wrote what is no text")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dependency_that_needs_a_newer_rust_is_a_fault_and_so_is_a_readme_that_says_another() {
        let metadata = |ours: &str| {
            serde_json::json!({ "packages": [
                { "name": "app", "version": "0.1.0", "source": null, "rust_version": ours },
                { "name": "egui", "version": "0.37.0", "source": "registry", "rust_version": "1.95" },
                { "name": "tiles", "version": "0.18.0", "source": "registry", "rust_version": "1.95.0" },
                { "name": "old", "version": "1.0.0", "source": "registry", "rust_version": null },
            ] })
        };
        let told = |ours: &str, readme: &str| -> Vec<String> {
            too_new(&metadata(ours), readme).unwrap().iter().map(Fault::to_string).collect()
        };
        let old = told("1.92", "Rust 1.92 or later");
        assert_eq!(old.len(), 2, "{old:?}");
        assert!(old[0].contains("egui 0.37.0 needs Rust 1.95, and our rust-version is 1.92"), "{old:?}");
        assert!(told("1.95", "Rust 1.95 or later").is_empty());
        assert!(told("1.100", "with Rust 1.100 or later").is_empty(), "1.100 is newer than 1.95");
        assert!(told("1.95", "Rust 1.92 or later")[0].contains("README.md"));
    }
}
