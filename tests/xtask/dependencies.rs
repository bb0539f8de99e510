//! What a package's dependency tree must not hold.

use std::process::Command;

use anyhow::{Context as _, Result, bail};

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
    Ok(faults)
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
    let output = Command::new("cargo")
        .args(["tree", "--edges", "normal", "--prefix", "none", "--format", "{p}"])
        .args(arguments)
        .output()
        .context("starting cargo tree")?;
    if !output.status.success() {
        bail!("cargo tree failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    let mut packages: Vec<String> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(|line| line.split_whitespace().take(2).collect::<Vec<_>>().join(" "))
        .filter(|package| !package.is_empty())
        .collect();
    packages.sort();
    packages.dedup();
    Ok(packages.into_iter().filter_map(|package| package.split(' ').next().map(str::to_owned)).collect())
}
