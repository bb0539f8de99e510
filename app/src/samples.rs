//! The sample batches, embedded, so that the program shows something wherever it is started.

/// A batch file of `sample_batches/`.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Its name without `.ron`; stands for a batch file on the command line.
    pub key: &'static str,
    /// The text of the file.
    pub text: &'static str,
}

/// The sample that the program opens with.
pub const DEFAULT: &str = "teach-2-two-levels";

macro_rules! embedded {
    ($($key:literal),* $(,)?) => {
        &[$(Sample { key: $key, text: include_str!(concat!("../../sample_batches/", $key, ".ron")) }),*]
    };
}

/// All samples in the order of menus.
pub fn samples() -> &'static [Sample] {
    embedded![
        "pat-01",
        "pat-02",
        "pat-03",
        "pat-04",
        "pat-05",
        "pat-06",
        "pat-07",
        "pat-08",
        "pat-09",
        "pat-10",
        "pat-11",
        "pat-12",
        "pat-13",
        "pat-14",
        "pat-15",
        "pat-16",
        "pat-17",
        "pat-18",
        "pat-19",
        "pat-20",
        "pod-c0",
        "pod-c1",
        "pod-c2",
        "teach-1-system-prompt",
        "teach-2-two-levels",
        "teach-3-few-shot",
        "teach-4-one-long",
        "teach-5-nothing-shared",
        "teach-6-tiny",
        "teach-7-chat-forest",
        "teach-8-wave",
        "teach-9-explicit-blocks",
        "teach-10-hybrid",
    ]
}

/// A sample by its key.
pub fn find(key: &str) -> Option<&'static Sample> {
    samples().iter().find(|sample| sample.key == key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_the_folder_and_every_sample_builds() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../sample_batches");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .filter_map(|entry| {
                entry.unwrap().file_name().to_str().and_then(|name| name.strip_suffix(".ron")).map(str::to_owned)
            })
            .collect();
        files.sort();
        let mut listed: Vec<&str> = samples().iter().map(|sample| sample.key).collect();
        listed.sort_unstable();
        assert_eq!(listed, files, "app/src/samples.rs and sample_batches/ differ");
        for sample in samples() {
            let spec =
                engine::workload::BatchSpec::from_ron(sample.text).unwrap_or_else(|e| panic!("{}: {e}", sample.key));
            assert!(
                !spec.name.is_empty() && !spec.look_for.is_empty(),
                "{} lacks a name or what to look for",
                sample.key
            );
            spec.build().unwrap_or_else(|e| panic!("{}: {e}", sample.key));
        }
        assert!(find(DEFAULT).is_some());
    }
}
