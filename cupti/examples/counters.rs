//! Counts kernels whose traffic is known, and says how far the counters are from it.
//!
//! `counters` runs everything; `counters plain` only launches the three kernels, for a comparison
//! with `ncu`; `counters list PART` prints the metrics of this chip whose names contain PART.
//! Needs a GPU, the driver, NVRTC and CUPTI.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use cudarc::driver::{CudaContext, CudaFunction, CudaSlice, CudaStream, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::{CompileOptions, compile_ptx_with_opts};
use cupti::clock::{self, Mark};
use cupti::{GpuTime, Metric, Mode, Quantity, RangeCounts, Sampling, Session};

type Done<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

const SOURCE: &str = r#"
__device__ unsigned long long now() {
    unsigned long long t;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
    return t;
}

// Reads n values, `times` times over; writes only for sums that do not come up.
extern "C" __global__ void read_all(const uint4* p, unsigned long long n, unsigned times, unsigned* out) {
    unsigned sum = 0;
    for (unsigned r = 0; r < times; ++r)
        for (unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x; i < n;
             i += gridDim.x * (unsigned long long)blockDim.x) {
            uint4 v;
            asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p + i));
            sum += v.x ^ v.y ^ v.z ^ v.w;
        }
    if (sum == 0x12345678u) *out = sum;
}

extern "C" __global__ void fill(uint4* p, unsigned long long n, unsigned value) {
    for (unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x; i < n;
         i += gridDim.x * (unsigned long long)blockDim.x)
        p[i] = make_uint4(value, value + 1, value, value);
}

// Runs for `ns`; leaves its first and last moment in `mark`.
extern "C" __global__ void spin(unsigned long long ns, unsigned long long* mark) {
    unsigned long long start = now(), end = start;
    while (end - start < ns) end = now();
    if (threadIdx.x == 0) {
        atomicMin(mark, start);
        atomicMax(mark + 1, end);
    }
}
"#;

const GIB: usize = 1 << 30;
const SMALL: usize = 8 << 20;
const TIMES: u32 = 64;
const MARKS: usize = 24;

struct Bench {
    stream: Arc<CudaStream>,
    read: CudaFunction,
    fill: CudaFunction,
    spin: CudaFunction,
    buffer: CudaSlice<u32>,
    out: CudaSlice<u32>,
    ctas: u32,
}

impl Bench {
    fn new(context: &Arc<CudaContext>) -> Done<Self> {
        let options = CompileOptions { arch: Some("compute_80"), ..CompileOptions::default() };
        let module = context.load_module(compile_ptx_with_opts(SOURCE, options)?)?;
        let stream = context.default_stream();
        let sms =
            context.attribute(cudarc::driver::sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
        let bench = Self {
            read: module.load_function("read_all")?,
            fill: module.load_function("fill")?,
            spin: module.load_function("spin")?,
            buffer: stream.alloc_zeros(GIB / 4)?,
            out: stream.alloc_zeros(1)?,
            ctas: sms as u32 * 4,
            stream,
        };
        Ok(bench)
    }

    fn grid(&self) -> LaunchConfig {
        LaunchConfig { grid_dim: (self.ctas, 1, 1), block_dim: (512, 1, 1), shared_mem_bytes: 0 }
    }

    fn read(&self, bytes: usize, times: u32) -> Done {
        let count = (bytes / 16) as u64;
        let mut launch = self.stream.launch_builder(&self.read);
        launch.arg(&self.buffer).arg(&count).arg(&times).arg(&self.out);
        // SAFETY: the buffer holds as many values.
        unsafe { launch.launch(self.grid()) }?;
        Ok(())
    }

    fn fill(&self) -> Done {
        let (count, value) = ((GIB / 16) as u64, 7_u32);
        let mut launch = self.stream.launch_builder(&self.fill);
        launch.arg(&self.buffer).arg(&count).arg(&value);
        // SAFETY: the buffer holds as many values.
        unsafe { launch.launch(self.grid()) }?;
        Ok(())
    }

    /// Kernels of `nanos` each, apart from each other, and when they say that they ran.
    fn marks(&self, nanos: u64, marks: &mut Vec<Mark>) -> Done {
        let mut places = Vec::new();
        for _ in 0..MARKS {
            places.push(self.stream.clone_htod(&[u64::MAX, 0])?);
        }
        self.stream.synchronize()?;
        for place in &places {
            let config = LaunchConfig { grid_dim: (self.ctas / 4, 1, 1), ..self.grid() };
            let mut launch = self.stream.launch_builder(&self.spin);
            launch.arg(&nanos).arg(place);
            // SAFETY: the place holds two values.
            unsafe { launch.launch(config) }?;
            self.stream.synchronize()?;
            std::thread::sleep(Duration::from_micros(100));
        }
        for place in &places {
            let mark = self.stream.clone_dtoh(place)?;
            marks.push(Mark { start: GpuTime(mark[0]), end: GpuTime(mark[1]) });
        }
        Ok(())
    }

    /// Median microseconds of reading the buffer, by events.
    fn read_micros(&self, context: &Arc<CudaContext>) -> Done<f32> {
        let flags = Some(cudarc::driver::sys::CUevent_flags::CU_EVENT_DEFAULT);
        let mut times = Vec::new();
        for _ in 0..21 {
            let (from, to) = (context.new_event(flags)?, context.new_event(flags)?);
            from.record(&self.stream)?;
            self.read(GIB, 1)?;
            to.record(&self.stream)?;
            times.push(from.elapsed_ms(&to)? * 1000.0);
        }
        times.sort_by(f32::total_cmp);
        Ok(times[10])
    }
}

fn main() -> Done {
    let context = CudaContext::new(0)?;
    let bench = Bench::new(&context)?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["plain"] => plain(&bench),
        ["list", part] => list(part),
        _ => everything(&context, &bench),
    }
}

fn plain(bench: &Bench) -> Done {
    bench.read(GIB, 1)?;
    bench.fill()?;
    bench.read(SMALL, TIMES)?;
    Ok(bench.stream.synchronize()?)
}

fn list(part: &str) -> Done {
    let mut session = Session::open()?;
    for mode in [Mode::Range, Mode::Sampling] {
        for name in session.metrics(mode)?.iter().filter(|name| name.contains(part)) {
            println!("{mode:?} {name}");
        }
    }
    Ok(())
}

fn everything(context: &Arc<CudaContext>, bench: &Bench) -> Done {
    bench.read_micros(context)?;
    println!("read 1 GiB, plain:             {:.2} us", bench.read_micros(context)?);
    let mut session = Session::open()?;
    println!("chip {}, library {:?}", session.chip(), session.library());
    println!("read 1 GiB, session open:      {:.2} us", bench.read_micros(context)?);
    for mode in [Mode::Range, Mode::Sampling] {
        println!("{mode:?}: {} metrics", session.metrics(mode)?.len());
        for named in session.names(mode, &Quantity::COUNTED)? {
            let over = named.over.map_or(String::new(), |over| format!(" / {over}"));
            println!("  {:18} {}{over} x {}", named.quantity.name(), named.metric, named.factor);
        }
    }
    counted(&mut session, bench, "read 1 GiB", || bench.read(GIB, 1))?;
    counted(&mut session, bench, "fill 1 GiB", || bench.fill())?;
    counted(&mut session, bench, "read 8 MiB 64 times", || bench.read(SMALL, TIMES))?;
    let read = session.count(&[Quantity::DramReadBytes], || bench.fill(), || bench.read(GIB, 1))?;
    sampled(&mut session, bench, read.get(Quantity::DramReadBytes).unwrap_or_default());
    clocks(&mut session, bench)?;
    refusals(&mut session, bench);
    drop(session);
    println!("read 1 GiB, session closed:    {:.2} us", bench.read_micros(context)?);
    Ok(())
}

fn counted(session: &mut Session, bench: &Bench, what: &str, launch: impl Fn() -> Done) -> Done {
    let counted = session.count(&Quantity::COUNTED, || bench.fill(), &launch)?;
    println!("{what}: {} passes", counted.passes);
    for quantity in Quantity::COUNTED {
        match counted.get(quantity) {
            Some(bytes) if quantity.is_amount() => {
                println!("  {:18} {bytes:15.0} = {:.4} GiB", quantity.name(), bytes / GIB as f64);
            }
            value => println!("  {:18} {value:?}", quantity.name()),
        }
    }
    let more = [
        "dram__bytes_read.sum",
        "dram__bytes_write.sum",
        "lts__t_sectors_op_read.sum",
        "lts__t_sectors_srcunit_tex_op_read.sum",
        "lts__t_sectors_srcunit_tex_op_read_lookup_hit.sum",
        "lts__t_sectors_srcunit_tex_op_read_lookup_miss.sum",
        "lts__t_sector_hit_rate.pct",
        "l1tex__m_xbar2l1tex_read_bytes.sum",
        "gpu__time_duration.sum",
    ]
    .map(Metric::new);
    let RangeCounts { passes, values } = session.range(&more, || bench.fill(), &launch)?;
    println!("  by name, {passes} passes:");
    for (metric, value) in values {
        println!("    {:52} {:?}", metric.name(), value);
    }
    Ok(())
}

fn sampled(session: &mut Session, bench: &Bench, counted: f64) {
    for micros in [1, 2, 5, 10] {
        let sampling = Sampling { interval: Duration::from_micros(micros), ..Sampling::default() };
        let began = std::time::Instant::now();
        let series = match session.sample(&Quantity::SAMPLED, &sampling, || bench.read(GIB, 1)) {
            Ok(series) => series,
            Err(e) => {
                println!("sampling at {micros} us: {e}");
                continue;
            }
        };
        let mut steps: Vec<u64> =
            series.samples.starts.iter().zip(&series.samples.ends).map(|(start, end)| end.0 - start.0).collect();
        steps.sort_unstable();
        let total = series.total(Quantity::DramReadBytes).unwrap_or_default();
        let busy = series.values(Quantity::SmActive).flatten().filter(|share| *share > 0.0).count();
        println!(
            "sampling at {micros} us: {} samples, {} rejected, {busy} with SMs active; step {:?}..{:?}..{:?} ns; \
             {total:.0} bytes read, {:+.2} % of counted; took {:?}",
            series.len(),
            series.samples.rejected,
            steps.first(),
            steps.get(steps.len() / 2),
            steps.last(),
            (total / counted - 1.0) * 100.0,
            began.elapsed(),
        );
        let gaps = series.samples.ends.iter().zip(series.samples.starts.iter().skip(1)).filter(|(e, s)| e != s).count();
        let from = series.values(Quantity::SmActive).position(|share| share.unwrap_or(0.0) > 0.0).unwrap_or(0);
        println!("  {gaps} gaps; first active is sample {from}, then (bytes, SM active):");
        let pairs = series.values(Quantity::DramReadBytes).zip(series.values(Quantity::SmActive));
        for (bytes, active) in pairs.skip(from.saturating_sub(2)).take(8) {
            println!("    {:10.0} {:.3}", bytes.unwrap_or(-1.0), active.unwrap_or(-1.0));
        }
    }
}

fn clocks(session: &mut Session, bench: &Bench) -> Done {
    let mut marks = Vec::new();
    let records = session.kernel_records(|| bench.marks(5_000, &mut marks))?;
    let spins: Vec<_> = records.kernels.iter().filter(|kernel| kernel.name.contains("spin")).cloned().collect();
    println!("{} records, {} lost, {} rejected", records.kernels.len(), records.lost, records.rejected);
    if let (Some(kernel), Some(mark)) = (spins.first(), marks.first()) {
        println!("  first: record {:?}..{:?}, mark {:?}..{:?}", kernel.start, kernel.end, mark.start, mark.end);
    }
    println!("  records to globaltimer: {:?}", clock::of_records(&marks, &spins));
    for micros in [1, 2] {
        let mut marks = Vec::new();
        let sampling =
            Sampling { interval: Duration::from_micros(micros), max_samples: 1 << 14, hardware_bytes: 1 << 30 };
        match session.sample(&[Quantity::SmActive], &sampling, || bench.marks(20_000, &mut marks)) {
            Ok(series) => println!(
                "  samples of {micros} us to globaltimer: {:?} from {} samples, {} rejected",
                clock::of_samples(&marks, &[], &series.samples, 0),
                series.len(),
                series.samples.rejected
            ),
            Err(e) => println!("  samples of {micros} us: {e}"),
        }
    }
    Ok(())
}

fn refusals(session: &mut Session, bench: &Bench) {
    let read = || bench.read(SMALL, 1);
    let one = Sampling { max_samples: 1, ..Sampling::default() };
    for refused in [
        Session::open().map(drop),
        session.range(&[Metric::new("dram__bytes_read.sum"), Metric::new("dram__bytes_red.sum")], read, read).map(drop),
        session.sample(&Quantity::SAMPLED, &one, read).map(drop),
    ] {
        match refused {
            Ok(()) => println!("not refused"),
            Err(e) => println!("refused: {e}"),
        }
    }
}
