//! The grid that a file describes, and its points.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::hw::Device;
use crate::pack;
use crate::plan::Strategy;
use crate::tile::Tile;
use crate::units::grouped;
use crate::workload::{BatchSpec, ron_text_of};

/// Version of the file's schema.
const SCHEMA: u32 = 1;
/// The tile that the scheduler's rule gives.
const OWN_TILE: &str = "auto";
/// Most points of a sweep.
const MOST: usize = 1_000_000;

/// A sweep as a person writes it. Axes that are left out have one value, the usual one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SweepSpec {
    /// Always 1.
    pub schema: u32,
    /// Batches.
    pub batches: Vec<BatchSource>,
    /// Devices, by name or file.
    #[serde(default = "devices")]
    pub devices: Vec<String>,
    /// Schedulers.
    #[serde(default = "schedulers")]
    pub schedulers: Vec<String>,
    /// Strategies.
    #[serde(default = "strategies")]
    pub strategies: Vec<String>,
    /// Tiles such as `64x128`, or `auto` for the scheduler's rule.
    #[serde(default = "tiles")]
    pub tiles: Vec<String>,
    /// Constants of the profit rule of `pat`.
    #[serde(default = "split_constants")]
    pub split_constants: Vec<f64>,
    /// Query heads / KV heads instead of each batch's own, such as `32/8`.
    #[serde(default)]
    pub heads: Vec<String>,
}

fn devices() -> Vec<String> {
    vec!["h200-sxm".to_owned()]
}

fn schedulers() -> Vec<String> {
    vec![pack::DEFAULT.to_owned()]
}

fn strategies() -> Vec<String> {
    vec![Strategy::default().name().to_owned()]
}

fn tiles() -> Vec<String> {
    vec![OWN_TILE.to_owned()]
}

fn split_constants() -> Vec<f64> {
    vec![pack::PackOptions::default().split_constant]
}

/// Where batches come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum BatchSource {
    /// Batches 0 to `count` of those that `bench --set random --seed SEED` draws.
    Random {
        /// The seed.
        seed: u64,
        /// How many.
        count: u32,
    },
    /// The same of `random-hybrid`.
    RandomHybrid {
        /// The seed.
        seed: u64,
        /// How many.
        count: u32,
    },
    /// A tree string.
    Tree(String),
    /// Windows `START:COUNT` of a Mooncake trace, whose name counts from the sweep's folder.
    Trace {
        /// The trace.
        file: PathBuf,
        /// Its windows.
        windows: Vec<String>,
        /// Tokens that each request is into its output.
        #[serde(default = "one")]
        step: u64,
    },
    /// Samples, by name.
    Samples(Vec<String>),
    /// The configurations of a set of `bench`.
    Published(String),
    /// A batch file.
    File(PathBuf),
}

fn one() -> u64 {
    1
}

/// A batch with the name that rows have.
#[derive(Clone, Debug)]
pub struct Named {
    /// Its name, unlike all others'.
    pub name: String,
    /// The batch.
    pub spec: Arc<BatchSpec>,
}

/// A way of running a batch, by the words of the grid.
#[derive(Clone, Debug, PartialEq)]
pub struct WayOf {
    /// Device by the word of the grid.
    pub device: String,
    /// Scheduler.
    pub scheduler: String,
    /// Strategy.
    pub strategy: String,
    /// Tile, or `auto`.
    pub tile: String,
    /// Constant of the profit rule of `pat`.
    pub split_constant: f64,
}

/// One combination.
#[derive(Clone, Debug)]
pub struct Point {
    /// Place in the grid.
    pub number: u64,
    /// Hash of everything that decides its row: equal on every machine and in every version of Rust.
    pub key: u64,
    /// The batch.
    pub batch: Named,
    /// The way.
    pub way: WayOf,
    /// The device.
    pub device: Arc<Device>,
}

impl SweepSpec {
    /// Reads a sweep.
    ///
    /// # Errors
    /// [`Error::File`] with line and column; [`Error::Batch`] for another schema, an axis without values or
    /// a tile that is none; [`Error::UnknownName`].
    pub fn from_ron(text: &str) -> Result<Self> {
        let spec: Self = ron_text_of(text)?;
        if spec.schema != SCHEMA {
            return Err(Error::Batch(format!(
                "the sweep has schema {}, but this build reads schema {SCHEMA}",
                spec.schema
            )));
        }
        let axes = [
            ("batches", spec.batches.len()),
            ("devices", spec.devices.len()),
            ("schedulers", spec.schedulers.len()),
            ("strategies", spec.strategies.len()),
            ("tiles", spec.tiles.len()),
            ("split_constants", spec.split_constants.len()),
        ];
        if let Some((axis, _)) = axes.iter().find(|(_, count)| *count == 0) {
            return Err(Error::Batch(format!("{axis} is empty; leave it out, or give it a value")));
        }
        spec.schedulers.iter().try_for_each(|name| pack::find(name).map(|_| ()))?;
        spec.strategies.iter().try_for_each(|name| name.parse::<Strategy>().map(|_| ()))?;
        spec.tiles.iter().try_for_each(|word| tile_of(word).map(|_| ()))?;
        Ok(spec)
    }
}

/// The tile of a word of the grid; `None` where the scheduler's rule gives it.
pub(super) fn tile_of(word: &str) -> Result<Option<Tile>> {
    if word == OWN_TILE {
        return Ok(None);
    }
    let refused = || {
        let word = crate::shown::quoted(word);
        Error::Batch(format!("tiles names '{word}', which is no tile; write one like 64x128, or {OWN_TILE}"))
    };
    Tile::parse(word).map(Some).ok_or_else(refused)
}

/// Every combination, batches first, in the order of the file. `batches` are those of the spec's sources, `devices`
/// those of its words.
///
/// # Errors
/// [`Error::Batch`] for more than a million, or two batches of one name.
pub fn points(spec: &SweepSpec, batches: &[Named], devices: &[Arc<Device>]) -> Result<Vec<Point>> {
    let ways: usize = [&spec.devices, &spec.schedulers, &spec.strategies, &spec.tiles].map(Vec::len).iter().product();
    let count = batches.len().saturating_mul(ways).saturating_mul(spec.split_constants.len());
    if count > MOST {
        let (count, most) = (grouped(count as u64), grouped(MOST as u64));
        return Err(Error::Batch(format!("the grid has {count} points, but at most {most} are run")));
    }
    let mut points = Vec::with_capacity(count);
    for batch in batches {
        let text = batch.spec.to_ron()?;
        for (word, device) in spec.devices.iter().zip(devices) {
            // A device file may change under its name.
            let facts = format!("{device:?}");
            for way in ways_of(spec, word) {
                let number = points.len() as u64;
                let key = key_of(&[&batch.name, &text, &facts, &format!("{way:?}")]);
                points.push(Point { number, key, batch: batch.clone(), way, device: Arc::clone(device) });
            }
        }
    }
    let mut keys: Vec<u64> = points.iter().map(|point| point.key).collect();
    keys.sort_unstable();
    if keys.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(Error::Batch(
            "two points of the grid are the same; name each batch, device and way once".to_owned(),
        ));
    }
    Ok(points)
}

fn ways_of<'a>(spec: &'a SweepSpec, device: &'a str) -> impl Iterator<Item = WayOf> + 'a {
    spec.schedulers.iter().flat_map(move |scheduler| {
        spec.strategies.iter().flat_map(move |strategy| {
            spec.tiles.iter().flat_map(move |tile| {
                spec.split_constants.iter().map(move |constant| WayOf {
                    device: device.to_owned(),
                    scheduler: scheduler.clone(),
                    strategy: strategy.clone(),
                    tile: tile.clone(),
                    split_constant: *constant,
                })
            })
        })
    })
}

/// FNV-1a of 64 bits over all parts, each with an end that no text has.
fn key_of(parts: &[&str]) -> u64 {
    const OFFSET: u64 = 0xCBF2_9CE4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01B3;
    let bytes = parts.iter().flat_map(|part| part.bytes().chain(std::iter::once(0xFF)));
    bytes.fold(OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}

impl BatchSource {
    /// A file that it reads, where that counts from the sweep's folder.
    pub fn file_from(&self, folder: &Path) -> Option<PathBuf> {
        match self {
            Self::Trace { file, .. } | Self::File(file) => Some(folder.join(file)),
            _ => None,
        }
    }
}
