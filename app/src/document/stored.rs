//! The document as text.

use std::sync::Arc;

use engine::capture::L2State;
use engine::hw::Device;
use engine::pack::Forced;
use engine::plan::Strategy;
use engine::session::{Auto, PlanOptions};
use engine::tile::Tile;
use engine::workload::BatchSpec;
use engine::{Error, Result};
use serde::{Deserialize, Serialize};

use super::Document;

/// A document as RON has it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    batch: BatchSpec,
    scheduler: String,
    strategy: Strategy,
    auto_scheduler: bool,
    auto_strategy: bool,
    device: Device,
    tile: Option<Tile>,
    split_constant: f64,
    #[serde(default)]
    forced: Vec<Forced>,
    pod: String,
    explain: bool,
    l2: L2State,
}

impl Document {
    /// The text of the document; the same text for the same document.
    ///
    /// # Errors
    /// [`Error::Batch`] where a figure cannot be written.
    pub fn to_ron(&self) -> Result<String> {
        let options = &self.options;
        let stored = Stored {
            batch: (*self.spec).clone(),
            scheduler: options.scheduler.clone(),
            strategy: options.strategy,
            auto_scheduler: options.auto.scheduler,
            auto_strategy: options.auto.strategy,
            device: options.device.clone(),
            tile: options.tile,
            split_constant: options.pack.split_constant,
            forced: options.pack.forced.clone(),
            pod: options.pod.name().to_owned(),
            explain: options.explain,
            l2: self.l2,
        };
        ron::to_string(&stored).map_err(|error| Error::Batch(format!("the document cannot be written: {error}")))
    }

    /// Reads [`Self::to_ron`].
    ///
    /// # Errors
    /// [`Error::Batch`] where the text is none, and whatever is wrong with its device or names.
    pub fn from_ron(text: &str) -> Result<Self> {
        let stored: Stored =
            ron::from_str(text).map_err(|error| Error::Batch(format!("the document cannot be read: {error}")))?;
        stored.device.validate()?;
        let scheduler = engine::pack::find(&stored.scheduler)?.name().to_owned();
        let mut options = PlanOptions {
            scheduler,
            strategy: stored.strategy,
            auto: Auto { scheduler: stored.auto_scheduler, strategy: stored.auto_strategy },
            tile: stored.tile,
            pod: stored.pod.parse()?,
            explain: stored.explain,
            ..PlanOptions::new(&stored.device)
        };
        options.pack.split_constant = stored.split_constant;
        options.pack.forced = stored.forced;
        Ok(Self { spec: Arc::new(stored.batch), options, l2: stored.l2 })
    }
}

#[cfg(test)]
mod tests {
    use engine::units::NodeIdx;

    use super::*;

    #[test]
    fn a_document_comes_back_as_it_was() {
        for (sample, device) in crate::samples::samples().iter().zip(engine::hw::builtin().iter().cycle()) {
            let spec = BatchSpec::from_ron(sample.text).unwrap();
            let mut options = PlanOptions::new(device);
            options.pack.split_constant = 0.1 + 0.2;
            options.tile = Some(Tile { m: 64, n: 32 });
            options.pack.forced = vec![Forced::Sharing { child: NodeIdx(3), split: true }];
            let document = Document { spec: Arc::new(spec), options, l2: L2State::Warm };
            let text = document.to_ron().unwrap();
            assert_eq!(Document::from_ron(&text).unwrap(), document, "{}", sample.key);
        }
        assert!(Document::from_ron("(batch: 3)").unwrap_err().to_string().contains("cannot be read"));
    }
}
