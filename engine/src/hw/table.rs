//! The built-in devices and files of the same form.

use std::sync::LazyLock;

use super::Device;
use crate::error::{Error, Result};

const FILES: [(&str, &str); 10] = [
    ("h200-sxm", include_str!("devices/h200-sxm.ron")),
    ("h100-sxm", include_str!("devices/h100-sxm.ron")),
    ("h100-sxm-pat", include_str!("devices/h100-sxm-pat.ron")),
    ("a100-sxm-80gb", include_str!("devices/a100-sxm-80gb.ron")),
    ("a100-sxm-40gb", include_str!("devices/a100-sxm-40gb.ron")),
    ("h20-sxm", include_str!("devices/h20-sxm.ron")),
    ("b200", include_str!("devices/b200.ron")),
    ("l40s", include_str!("devices/l40s.ron")),
    ("rtx-4090", include_str!("devices/rtx-4090.ron")),
    ("teaching-8sm", include_str!("devices/teaching-8sm.ron")),
];

static BUILTIN: LazyLock<Vec<Device>> = LazyLock::new(|| {
    // A built-in file that does not parse is left out here; the test below names it.
    FILES.iter().filter_map(|(_, text)| from_ron(text).ok()).collect()
});

/// The devices that come with packscope; the first is the default.
pub fn builtin() -> &'static [Device] {
    &BUILTIN
}

/// Keys of the built-in devices.
pub fn names() -> Vec<&'static str> {
    FILES.iter().map(|(key, _)| *key).collect()
}

/// A built-in device by its key.
pub fn find(key: &str) -> Result<&'static Device> {
    builtin().iter().find(|device| device.key == key).ok_or_else(|| Error::UnknownName {
        kind: "device",
        name: key.to_owned(),
        known: format!("{}, or a device file ending in .ron", names().join(", ")),
    })
}

/// Reads a device file and checks its figures.
pub fn from_ron(text: &str) -> Result<Device> {
    let device: Device = ron::from_str(text).map_err(|error| crate::workload::ron_error(text, &error))?;
    device.validate()?;
    Ok(device)
}

/// A device as the text of a device file.
///
/// # Errors
/// [`crate::Error::Device`] where a figure cannot be written.
pub fn to_ron(device: &Device) -> Result<String> {
    let pretty = ron::ser::PrettyConfig::new().depth_limit(2).struct_names(false);
    let text = ron::ser::to_string_pretty(device, pretty);
    text.map(|text| text + "\n").map_err(|error| crate::Error::Device(format!("it cannot be written: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_device_parses_and_names_the_source_of_its_figures() {
        for (key, text) in FILES {
            let device = from_ron(text).unwrap_or_else(|error| panic!("{key}: {error}"));
            assert_eq!(device.key, key);
            for field in ["sm_count", "hbm_bytes_per_s", "tensor_flops", "l2", "loaded_latency", "kernels", "sim"] {
                assert!(device.sources.contains_key(field), "{key} does not say where {field} comes from");
            }
        }
    }

    /// Both run the same machine code on the same SMs, so what changes in one table changes in the other.
    #[test]
    fn hopper_gpus_have_the_same_kernels() {
        let [h200, h100] = ["h200-sxm", "h100-sxm"].map(|key| find(key).unwrap());
        let kernels = |of: &Device| [of.kernels.clone(), of.kernels_d64.clone(), of.kernels_d256.clone()];
        assert_eq!(kernels(h100), kernels(h200));
        assert_eq!((h100.merge_kernel, h100.queue_items), (h200.merge_kernel, h200.queue_items));
        assert_eq!(h100.prefill_kernel, h200.prefill_kernel);
        let marked = |of: &Device| of.marked_reads.map(|marks| (marks.kv_bytes.0, marks.read_again));
        assert_eq!(marked(h100), marked(h200));
        #[cfg(feature = "cuda")]
        assert_eq!(marked(h100), Some((kernels::MARKED_BYTES, kernels::READ_AGAIN)));
    }

    #[test]
    fn files_from_before_reading_again_counted_are_read() {
        let (_, text) = FILES.iter().find(|(key, _)| *key == "h200-sxm").unwrap();
        for earlier in ["", "short_bytes: 262144, "] {
            let before = text.replace("read_again: 1.3, ", earlier);
            assert_ne!(before, *text);
            assert_eq!(from_ron(&before).unwrap(), from_ron(text).unwrap());
        }
    }

    #[test]
    fn a_written_device_is_read_as_it_was() {
        for (key, text) in FILES {
            let device = from_ron(text).unwrap();
            assert_eq!(from_ron(&to_ron(&device).unwrap()).unwrap(), device, "{key}");
        }
    }

    #[test]
    fn a_refusal_repeats_little_of_a_key() {
        let (key, text) = FILES[0];
        let long = text.replace(&format!("key: \"{key}\""), &format!("key: \"{}\"", "long\\n".repeat(70_000)));
        let told = from_ron(&long).unwrap_err().to_string();
        assert!(told.contains("key is 'long␊long") && told.len() < 500, "{told:.300}");
    }

    #[test]
    fn an_unknown_device_names_those_that_exist() {
        let text = find("b300").unwrap_err().to_string();
        assert!(text.contains("b300") && text.contains("h200-sxm"), "{text}");
    }
}
