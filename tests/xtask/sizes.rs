//! Sizes: a file of more than 900 lines fails, one of more than 500 is named. Rust functions are
//! measured by clippy (120 lines); functions on the device may have 250.

use crate::Fault;
use crate::sources::Source;

const LONGEST_FILE: usize = 900;
const LONG_FILE: usize = 500;
const LONGEST_DEVICE_FUNCTION: usize = 250;

pub(crate) fn check(sources: &[Source]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for source in sources.iter().filter(|s| (s.is_rust() || s.is_cuda()) && !s.is_generated()) {
        let lines = source.text.lines().count();
        if lines > LONGEST_FILE {
            faults.push(Fault::at(source, lines, format!("{lines} lines, but a file has at most {LONGEST_FILE}")));
        } else if lines > LONG_FILE {
            eprintln!("note: {} has {lines} lines; do two things live in it?", source.path);
        }
        if source.is_cuda() {
            faults.extend(device_functions(source));
        }
    }
    faults
}

/// Outermost blocks that open on a line with a parameter list are functions.
fn device_functions(source: &Source) -> Vec<Fault> {
    let mut faults = Vec::new();
    let (mut depth, mut start) = (0_usize, None);
    let mut outer = 0;
    for (number, line) in source.text.lines().enumerate() {
        let code = line.split("//").next().unwrap_or_default();
        if start.is_none() && code.contains('{') && (code.contains(')') || code.trim() == "{") {
            start = Some(number);
            outer = depth;
        }
        depth += code.matches('{').count();
        depth = depth.saturating_sub(code.matches('}').count());
        if let Some(begin) = start
            && depth <= outer
        {
            let lines = number - begin + 1;
            if lines > LONGEST_DEVICE_FUNCTION {
                let text = format!("a device function of {lines} lines, at most {LONGEST_DEVICE_FUNCTION}");
                faults.push(Fault::at(source, begin + 1, text));
            }
            start = None;
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_device_functions_that_are_too_long_are_found() {
        let long_file = Source { path: "engine/src/x.rs".to_owned(), text: "\n".repeat(901) };
        assert_eq!(check(&[long_file]).len(), 1);
        let body = format!("__device__ void f(int x) {{\n{}}}\n", "x += 1;\n".repeat(250));
        let long_function = Source { path: "kernels/cuda/x.cuh".to_owned(), text: body };
        assert_eq!(check(&[long_function]).len(), 1);
    }
}
