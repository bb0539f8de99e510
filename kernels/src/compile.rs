//! Kernel sources to machine code: NVRTC with the embedded headers, `ptxas` figures from its log, and a cache on disk.
//!
//! A cache entry is `<hash>.cubin` with the resource figures in `<hash>.txt` beside it; the hash covers the sources,
//! the NVRTC version, the architecture and the options, so a stale entry is never found.

use std::ffi::{CString, c_int, c_void};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cudarc::nvrtc::{result as nvrtc, sys};

use crate::error::KernelError;
use crate::plan::Dtype;
use crate::spec::{Arch, HybridSpec, KernelSpec, PrefillSpec, Roles};
use crate::stop::{Asked, Stop};

/// The headers, by the name under which the sources include them.
const HEADERS: [(&str, &str); 32] = [
    ("async_copy.cuh", include_str!("../cuda/async_copy.cuh")),
    ("consumer.cuh", include_str!("../cuda/consumer.cuh")),
    ("decode.cuh", include_str!("../cuda/decode.cuh")),
    ("dependent.cuh", include_str!("../cuda/dependent.cuh")),
    ("epilogue.cuh", include_str!("../cuda/epilogue.cuh")),
    ("few.cuh", include_str!("../cuda/few.cuh")),
    ("fold.cuh", include_str!("../cuda/fold.cuh")),
    ("layout.cuh", include_str!("../cuda/layout.cuh")),
    ("lean.cuh", include_str!("../cuda/lean.cuh")),
    ("masks.cuh", include_str!("../cuda/masks.cuh")),
    ("merge.cuh", include_str!("../cuda/merge.cuh")),
    ("mma.cuh", include_str!("../cuda/mma.cuh")),
    ("output.cuh", include_str!("../cuda/output.cuh")),
    ("params.cuh", include_str!("../cuda/params.cuh")),
    ("partials.cuh", include_str!("../cuda/partials.cuh")),
    ("prefill.cuh", include_str!("../cuda/prefill.cuh")),
    ("prefill_mma.cuh", include_str!("../cuda/prefill_mma.cuh")),
    ("prefill_wgmma.cuh", include_str!("../cuda/prefill_wgmma.cuh")),
    ("producer.cuh", include_str!("../cuda/producer.cuh")),
    ("queue.cuh", include_str!("../cuda/queue.cuh")),
    ("registers.cuh", include_str!("../cuda/registers.cuh")),
    ("roles.cuh", include_str!("../cuda/roles.cuh")),
    ("rows_of_q.cuh", include_str!("../cuda/rows_of_q.cuh")),
    ("scout.cuh", include_str!("../cuda/scout.cuh")),
    ("softmax.cuh", include_str!("../cuda/softmax.cuh")),
    ("tall.cuh", include_str!("../cuda/tall.cuh")),
    ("tile.cuh", include_str!("../cuda/tile.cuh")),
    ("token_copies.cuh", include_str!("../cuda/token_copies.cuh")),
    ("trace.cuh", include_str!("../cuda/trace.cuh")),
    ("warpgroup.cuh", include_str!("../cuda/warpgroup.cuh")),
    ("watch.cuh", include_str!("../cuda/watch.cuh")),
    ("wgmma.cuh", include_str!("../cuda/wgmma.cuh")),
];
const DECODE: &str = include_str!("../cuda/decode_kernel.cu");
const MERGE: &str = include_str!("../cuda/merge_kernel.cu");
const PREFILL: &str = include_str!("../cuda/prefill_kernel.cu");
const CO_RUN: &str = include_str!("../cuda/co_run_kernel.cu");
const HYBRID: &str = include_str!("../cuda/hybrid_kernel.cu");
const LIMITS: &str = include_str!("../cuda/limits_kernel.cu");

/// Threads of a CTA of the merge kernel: a warp for each KV head at 32 query heads over 8.
const MERGE_THREADS: u32 = 256;

/// Spill bytes per thread, stores and loads, that cost less than a CTA fewer on each SM. Some versions of `ptxas` spill one
/// register, stored once and loaded twice, in kernels of several tiles that others compile without: NVRTC 13.0 where 13.5
/// does not. A CTA fewer halves the bandwidth of decode.
const FEW_SPILLED: u32 = 16;

/// What `ptxas` says about one kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// Registers per thread.
    pub registers: u32,
    /// Bytes of spill stores and loads per thread; 0 for every configuration that is shipped.
    pub spill_bytes: u32,
    /// Whether `ptxas` made warpgroup instructions wait for each other, or left registers as they are where a kernel
    /// hands them from warpgroup to warpgroup; false for every configuration that is shipped.
    pub hindered: bool,
    /// Dynamic shared memory per CTA in bytes.
    pub shared_bytes: u32,
    /// Threads per CTA.
    pub threads: u32,
}

/// Machine code of one kernel.
#[derive(Clone, Debug)]
pub struct CompiledKernel {
    /// Entry point.
    pub name: &'static str,
    /// ELF image for the driver.
    pub cubin: Vec<u8>,
    /// Its resource figures.
    pub resources: Resources,
}

/// Told to the caller when a kernel is really compiled, not found in the cache.
#[derive(Clone, Debug)]
pub struct CompileEvent {
    /// What was compiled.
    pub what: String,
    /// How long it took.
    pub took: Duration,
}

type Listener = Box<dyn Fn(&CompileEvent)>;

/// Compiles for one architecture, with or without a GPU.
pub struct Compiler {
    arch: Arch,
    cache: Option<PathBuf>,
    version: (i32, i32),
    source_override: Option<PathBuf>,
    on_compile: Option<Listener>,
    stop: Stop,
}

impl std::fmt::Debug for Compiler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compiler").field("arch", &self.arch).field("cache", &self.cache).finish_non_exhaustive()
    }
}

/// The NVRTC that is installed, as (major, minor).
pub fn nvrtc_version() -> Result<(i32, i32), KernelError> {
    // SAFETY: only tries to open the library.
    if !unsafe { sys::is_culib_present() } {
        return Err(KernelError::NoCompiler);
    }
    let (mut major, mut minor) = (0, 0);
    // SAFETY: the library is present, and both pointers are valid for the call.
    let status = unsafe { sys::nvrtcVersion(&raw mut major, &raw mut minor) };
    if status == sys::nvrtcResult::NVRTC_SUCCESS { Ok((major, minor)) } else { Err(KernelError::NoCompiler) }
}

impl Compiler {
    /// A compiler for `arch` that keeps its results in `cache`, a folder that it makes when needed.
    pub fn new(arch: Arch, cache: Option<PathBuf>) -> Result<Self, KernelError> {
        Ok(Self {
            arch,
            cache,
            version: nvrtc_version()?,
            source_override: None,
            on_compile: None,
            stop: Stop::default(),
        })
    }

    /// Asks before and during each real compilation whether to go on; where `asked` says to stop, it ends with
    /// [`KernelError::Stopped`]. NVRTC asks thousands of times while it compiles, but never in `ptxas`, its last step;
    /// before CUDA 12.8 it asks not at all.
    pub fn stop_when(&self, asked: impl Fn() -> bool + Send + Sync + 'static) {
        self.stop.when(asked);
    }

    /// Calls `f` after each real compilation, for a progress line.
    #[must_use]
    pub fn on_compile(mut self, f: impl Fn(&CompileEvent) + 'static) -> Self {
        self.on_compile = Some(Box::new(f));
        self
    }

    /// Reads the sources from a folder instead of the embedded ones; for work on the kernels.
    #[must_use]
    pub fn with_sources(mut self, folder: PathBuf) -> Self {
        self.source_override = Some(folder);
        self
    }

    /// The target.
    pub fn arch(&self) -> &Arch {
        &self.arch
    }

    /// The decode kernel of `spec`. Where its registers would spill at the wanted residency, it gets those of one CTA
    /// fewer on an SM; but not for a register or two.
    pub fn decode(&self, spec: &KernelSpec) -> Result<CompiledKernel, KernelError> {
        let mut residency = spec.least_residency(&self.arch).max(1);
        let mut options = spec.options(&self.arch, residency)?;
        loop {
            let mut kernel = self.compile("packscope_decode", "decode_kernel.cu", DECODE, &options, &label(spec))?;
            residency = (residency - 1).max(1);
            let fewer = spec.options(&self.arch, residency)?;
            if kernel.resources.spill_bytes <= FEW_SPILLED || fewer == options {
                kernel.resources.shared_bytes = spec.shared_bytes(&self.arch)?;
                kernel.resources.threads = spec.threads(&self.arch);
                return Ok(kernel);
            }
            options = fewer;
        }
    }

    /// The prefill kernel of `spec`.
    pub fn prefill(&self, spec: &PrefillSpec) -> Result<CompiledKernel, KernelError> {
        let options = spec.options(&self.arch)?;
        let what = format!("{}prefill d{}", if spec.slim { "slim " } else { "" }, spec.head_dim);
        let mut kernel = self.compile("packscope_prefill", "prefill_kernel.cu", PREFILL, &options, &what)?;
        kernel.resources.shared_bytes = spec.shared_bytes(&self.arch)?;
        kernel.resources.threads = spec.threads(&self.arch);
        Ok(kernel)
    }

    /// The kernel of `spec` for prefill and decode together.
    pub fn hybrid(&self, spec: &HybridSpec) -> Result<CompiledKernel, KernelError> {
        let options = spec.options(&self.arch)?;
        let roles = if spec.roles == Roles::Either { "or" } else { "and" };
        let what = format!("prefill {roles} decode {}x{} d{}", spec.tile.m, spec.tile.n, spec.head_dim);
        let mut kernel = self.compile("packscope_hybrid", "hybrid_kernel.cu", HYBRID, &options, &what)?;
        kernel.resources.shared_bytes = spec.shared_bytes(&self.arch)?;
        kernel.resources.threads = spec.threads();
        Ok(kernel)
    }

    /// The merge kernel for a head dimension, a type, and whether it is traced.
    pub fn merge(&self, head_dim: u32, dtype: Dtype, trace: bool) -> Result<CompiledKernel, KernelError> {
        let options = [
            format!("-DPS_D={head_dim}"),
            format!("-DPS_BF16={}", u32::from(dtype == Dtype::Bf16)),
            format!("-DPS_TRACE={}", u32::from(trace)),
            format!("-DPS_MERGE_THREADS={MERGE_THREADS}"),
        ];
        let mut kernel = self.compile("packscope_merge", "merge_kernel.cu", MERGE, &options, "merge")?;
        kernel.resources.threads = MERGE_THREADS;
        Ok(kernel)
    }

    /// The kernels that measure what the GPU can do; `entry` names one of them.
    pub fn limits(&self, entry: &'static str) -> Result<CompiledKernel, KernelError> {
        self.compile(
            entry,
            "limits_kernel.cu",
            LIMITS,
            &["-DPS_BF16=0".to_owned(), "-DPS_TRACE=0".to_owned()],
            "limits",
        )
    }

    /// The kernels that measure tensor cores and memory at once; `entry` names one of them.
    pub fn co_run(&self, entry: &'static str) -> Result<CompiledKernel, KernelError> {
        if !self.arch.warpgroups() {
            return Err(KernelError::Unsupported(format!("tensor work beside reads on {}", self.arch.name())));
        }
        let options = ["-DPS_D=128", "-DPS_BF16=0", "-DPS_TRACE=0", "-DPS_WGMMA=1"].map(str::to_owned);
        self.compile(entry, "co_run_kernel.cu", CO_RUN, &options, "limits of tensor work beside reads")
    }

    fn compile(
        &self,
        name: &'static str,
        file: &str,
        source: &str,
        extra: &[String],
        what: &str,
    ) -> Result<CompiledKernel, KernelError> {
        let mut options = vec![
            format!("--gpu-architecture={}", self.arch.name()),
            "--std=c++17".to_owned(),
            "--ptxas-options=-v".to_owned(),
            "-lineinfo".to_owned(),
            format!("-DPS_ARCH={}", self.arch.capability),
        ];
        options.extend_from_slice(extra);
        let headers = self.headers()?;
        let source = self.source(file, source)?;
        let key = self.key(&source, &headers, &options);
        if let Some((cubin, resources)) = self.cached(&key) {
            return Ok(CompiledKernel { name, cubin, resources });
        }
        self.stop.check()?;
        let start = Instant::now();
        let compiled = run_nvrtc(&source, file, &headers, &options, self.stop.asked());
        let (cubin, log) = compiled.map_err(|log| match self.stop.check() {
            // NVRTC calls that an error of its own.
            Err(stopped) => stopped,
            Ok(()) => KernelError::Compile { kernel: what.to_owned(), arch: self.arch.name(), log },
        })?;
        let resources = parse_log(&log, name);
        self.store(&key, &cubin, resources)?;
        if let Some(f) = &self.on_compile {
            f(&CompileEvent { what: format!("{what} for {}", self.arch.name()), took: start.elapsed() });
        }
        Ok(CompiledKernel { name, cubin, resources })
    }

    fn source(&self, file: &str, embedded: &str) -> Result<String, KernelError> {
        match &self.source_override {
            None => Ok(embedded.to_owned()),
            Some(folder) => {
                let path = folder.join(file);
                std::fs::read_to_string(&path)
                    .map_err(|source| KernelError::Cache { path: path.display().to_string(), source })
            }
        }
    }

    fn headers(&self) -> Result<Vec<(&'static str, String)>, KernelError> {
        HEADERS.iter().map(|(name, text)| Ok((*name, self.source(name, text)?))).collect()
    }

    /// FNV-1a, 128 bits: enough to tell builds apart, and stable between runs and machines.
    fn key(&self, source: &str, headers: &[(&str, String)], options: &[String]) -> String {
        let mut hash: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
        let mut eat = |text: &str| {
            for byte in text.bytes().chain([0]) {
                hash = (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
            }
        };
        eat(&format!("{}.{}", self.version.0, self.version.1));
        eat(source);
        for (name, text) in headers {
            eat(name);
            eat(text);
        }
        for option in options {
            eat(option);
        }
        format!("{hash:032x}")
    }

    fn cached(&self, key: &str) -> Option<(Vec<u8>, Resources)> {
        let folder = self.cache.as_ref()?;
        let text = std::fs::read_to_string(folder.join(format!("{key}.txt"))).ok()?;
        let mut words = text.split_whitespace();
        let resources = Resources {
            registers: words.next()?.parse().ok()?,
            spill_bytes: words.next()?.parse().ok()?,
            hindered: words.next()?.parse().ok()?,
            ..Resources::default()
        };
        let bytes: usize = words.next()?.parse().ok()?;
        let cubin = std::fs::read(folder.join(format!("{key}.cubin"))).ok()?;
        (cubin.len() == bytes).then_some((cubin, resources))
    }

    fn store(&self, key: &str, cubin: &[u8], r: Resources) -> Result<(), KernelError> {
        let Some(folder) = &self.cache else { return Ok(()) };
        // Written aside and renamed: another process may be looking for the same kernel.
        let write = |name: String, bytes: &[u8]| {
            let path = folder.join(&name);
            let aside = folder.join(format!("{name}.{}", std::process::id()));
            std::fs::create_dir_all(folder)
                .and_then(|()| std::fs::write(&aside, bytes))
                .and_then(|()| std::fs::rename(&aside, &path))
                .map_err(|source| KernelError::Cache { path: path.display().to_string(), source })
        };
        write(format!("{key}.cubin"), cubin)?;
        // The length is what shows a cubin cut short by a full disk.
        let figures = format!("{} {} {} {}\n", r.registers, r.spill_bytes, r.hindered, cubin.len());
        write(format!("{key}.txt"), figures.as_bytes())
    }
}

fn label(spec: &KernelSpec) -> String {
    let tiles: Vec<String> = spec.tiles.iter().map(|t| format!("{}x{}", t.m, t.n)).collect();
    let kind = match (spec.beside_prefill, spec.fused) {
        (true, _) => "beside-prefill ",
        (false, true) => "fused ",
        (false, false) => "",
    };
    format!("{kind}decode {} d{}", tiles.join("+"), spec.head_dim)
}

/// Runs NVRTC and returns the machine code and the log, or the log alone when it fails.
fn run_nvrtc(
    source: &str,
    file: &str,
    headers: &[(&str, String)],
    options: &[String],
    asked: Option<Asked>,
) -> Result<(Vec<u8>, String), String> {
    let c = |s: &str| CString::new(s).map_err(|_| "a source holds a zero byte".to_owned());
    let (source, file) = (c(source)?, c(file)?);
    let names: Vec<CString> = headers.iter().map(|(n, _)| c(n)).collect::<Result<_, _>>()?;
    let texts: Vec<CString> = headers.iter().map(|(_, t)| c(t)).collect::<Result<_, _>>()?;
    let name_pointers: Vec<_> = names.iter().map(|s| s.as_ptr()).collect();
    let text_pointers: Vec<_> = texts.iter().map(|s| s.as_ptr()).collect();
    let mut program = std::ptr::null_mut();
    // SAFETY: all strings outlive the call, and the two lists have `headers.len()` entries.
    let status = unsafe {
        sys::nvrtcCreateProgram(
            &raw mut program,
            source.as_ptr(),
            file.as_ptr(),
            i32::try_from(headers.len()).unwrap_or(0),
            text_pointers.as_ptr(),
            name_pointers.as_ptr(),
        )
    };
    if status != sys::nvrtcResult::NVRTC_SUCCESS {
        return Err(format!("nvrtcCreateProgram: {status:?}"));
    }
    let question = asked.map(|asked| Question { asked, stopped: AtomicBool::new(false) });
    if let Some(question) = &question {
        // SAFETY: `program` was created above, and `question` outlives it.
        unsafe { question.ask_while_compiling(program) };
    }
    // SAFETY: `program` was created above and is destroyed below, once.
    let compiled = unsafe { nvrtc::compile_program(program, options) };
    // SAFETY: as above.
    let log = unsafe { nvrtc::get_program_log(program) }
        .map(|raw| String::from_utf8_lossy(&raw.iter().map(|&b| b as u8).collect::<Vec<_>>()).into_owned())
        .map(|text| text.trim_end_matches('\0').to_owned())
        .unwrap_or_default();
    let cubin = compiled.map_err(|e| format!("{e:?}\n{log}")).and_then(|()| read_cubin(program));
    // SAFETY: the program is not used after this.
    let _ = unsafe { nvrtc::destroy_program(program) };
    cubin.map(|c| (c, log))
}

/// What NVRTC asks while it compiles. Once it was told to stop it must not hear otherwise.
struct Question {
    asked: Asked,
    stopped: AtomicBool,
}

impl Question {
    /// Has NVRTC ask, where it is new enough to.
    ///
    /// # Safety
    /// `program` is alive, and `self` lives until it is destroyed.
    unsafe fn ask_while_compiling(&self, program: sys::nvrtcProgram) {
        type Ask = unsafe extern "C" fn(payload: *mut c_void, unused: *mut c_void) -> c_int;
        type Set = unsafe extern "C" fn(program: sys::nvrtcProgram, ask: Ask, payload: *mut c_void) -> sys::nvrtcResult;
        // SAFETY: the library is there, or there were no program; the type is that of its header.
        let set = unsafe { sys::culib().get::<Set>(b"nvrtcSetFlowCallback\0") };
        if let Ok(set) = set {
            // SAFETY: the caller promises both. Where it is refused, nobody asks.
            let _ = unsafe { set(program, Self::ask, std::ptr::from_ref(self).cast_mut().cast()) };
        }
    }

    /// 1 to stop.
    unsafe extern "C" fn ask(payload: *mut c_void, _: *mut c_void) -> c_int {
        // SAFETY: the payload is the question that was handed over above; it may be asked on any thread.
        let question = unsafe { &*payload.cast::<Self>() };
        if (question.asked)() {
            question.stopped.store(true, Ordering::Relaxed);
        }
        c_int::from(question.stopped.load(Ordering::Relaxed))
    }
}

fn read_cubin(program: sys::nvrtcProgram) -> Result<Vec<u8>, String> {
    let mut size = 0;
    // SAFETY: the caller's program is alive and compiled; `size` is valid for the call.
    let status = unsafe { sys::nvrtcGetCUBINSize(program, &raw mut size) };
    if status != sys::nvrtcResult::NVRTC_SUCCESS || size == 0 {
        return Err(format!("nvrtcGetCUBINSize: {status:?}, {size} bytes"));
    }
    let mut cubin = vec![0_u8; size];
    // SAFETY: the buffer has the size that NVRTC asked for.
    let status = unsafe { sys::nvrtcGetCUBIN(program, cubin.as_mut_ptr().cast()) };
    if status == sys::nvrtcResult::NVRTC_SUCCESS { Ok(cubin) } else { Err(format!("nvrtcGetCUBIN: {status:?}")) }
}

/// Registers and spills of `entry` from ptxas's messages.
fn parse_log(log: &str, entry: &str) -> Resources {
    // What stands before the first of these may be a warning that names the function too.
    let mine = log.split("Compiling entry function").skip(1).find(|part| part.contains(entry)).unwrap_or(log);
    // One figure per function: the entry and what it calls.
    let numbers_before = |what: &str| -> Vec<u32> {
        let before = mine.match_indices(what).filter_map(|(at, _)| mine[..at].split_whitespace().next_back());
        before.filter_map(|word| word.parse().ok()).collect()
    };
    let spilled = |what: &str| numbers_before(what).iter().sum::<u32>();
    Resources {
        registers: numbers_before(" registers").first().copied().unwrap_or(0),
        spill_bytes: spilled(" bytes spill stores") + spilled(" bytes spill loads"),
        // By their text: the numbers of these remarks differ between versions.
        hindered: log.lines().any(|l| l.contains("serialized") || (l.contains("setmaxnreg") && l.contains("ignored"))),
        ..Resources::default()
    }
}

/// Text of a C string constant; used for entry points.
pub(crate) fn entry_name(name: &str) -> CString {
    CString::new(name).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_of_ptxas_is_read() {
        let log = "ptxas info : (C7512) Potential Performance Loss for the function 'packscope_decode'\n\
                   ptxas info : Compiling entry function 'other' for 'sm_90a'\n Used 9 registers\n\
                   ptxas info : Compiling entry function 'packscope_decode' for 'sm_90a'\n\
                   ptxas . 32 bytes stack frame, 36 bytes spill stores, 44 bytes spill loads\n\
                   ptxas info : Used 168 registers, used 2 barriers\n";
        let r = parse_log(log, "packscope_decode");
        assert_eq!((r.registers, r.spill_bytes), (168, 80));
        assert_eq!(parse_log(log, "other").registers, 9);
        assert!(!r.hindered);
        let remarks = [
            "ptxas info : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine register count",
            "ptxas info : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to",
        ];
        assert!(remarks.iter().all(|remark| parse_log(&format!("{remark}\n{log}"), "packscope_decode").hindered));
    }
}
