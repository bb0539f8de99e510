//! The one session of a process: opens CUPTI, holds it, and lets go of it in reverse order.

use std::collections::BTreeSet;
use std::ffi::{CStr, c_char, c_void};
use std::marker::PhantomData;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use cupti_sys::{
    Api, CUpti_CallbackDomain, CUpti_CallbackId, CUpti_Device_GetChipName_Params, CUpti_Profiler_API,
    CUpti_Profiler_DeInitialize_Params, CUpti_Profiler_DeviceSupported_Params, CUpti_Profiler_Initialize_Params,
    CUpti_Profiler_Support_Level, CUpti_SubscriberHandle, CUptiResult, LoadError, Loaded, Params, Places, load,
};

use crate::driver::{self, Current};
use crate::error::{CuptiError, check};
use crate::host::Host;
use crate::metrics::{Mode, Named, Quantity};

/// Range profiling and PM sampling came with this CUDA version.
const OLDEST_DRIVER: i32 = 12060;

/// Whether a session is open in this process.
static OPEN: AtomicBool = AtomicBool::new(false);

/// Gives the one place for a session back when the session goes, or when opening it fails.
#[derive(Debug)]
struct Place;

impl Place {
    fn take() -> Result<Self, CuptiError> {
        if OPEN.swap(true, Ordering::AcqRel) { Err(CuptiError::AlreadyOpen) } else { Ok(Self) }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        OPEN.store(false, Ordering::Release);
    }
}

/// The library stays open once it was: it starts threads that unloading would crash.
static LIBRARY: OnceLock<Loaded> = OnceLock::new();

fn library() -> Result<&'static Loaded, LoadError> {
    if let Some(loaded) = LIBRARY.get() {
        return Ok(loaded);
    }
    let loaded = load(&Places::of_process())?;
    Ok(LIBRARY.get_or_init(|| loaded))
}

/// CUPTI, holding the counters of the GPU whose context is current on this thread.
///
/// At most one is open in a process. It stays on the thread that opened it. Opening it subscribes
/// to CUPTI, so that another profiler is refused, or refuses.
pub struct Session {
    pub(crate) api: &'static Api,
    pub(crate) current: Current,
    chip: String,
    subscriber: CUpti_SubscriberHandle,
    asked: Option<Box<dyn Fn() -> bool>>,
    bases: [Option<BTreeSet<String>>; 2],
    // Behind the calls in `drop`: given back last.
    _place: Place,
    _stays_on_thread: PhantomData<*const ()>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("chip", &self.chip).field("current", &self.current).finish_non_exhaustive()
    }
}

impl Session {
    /// Opens CUPTI for the context that is current on this thread.
    pub fn open() -> Result<Self, CuptiError> {
        let place = Place::take()?;
        let current = driver::current()?;
        Self::with(place, &library()?.api, current)
    }

    /// The library file that the session uses.
    pub fn library(&self) -> Option<&'static Path> {
        LIBRARY.get().map(|loaded| loaded.path.as_path())
    }

    /// The chip as CUPTI calls it, such as `GH100`.
    pub fn chip(&self) -> &str {
        &self.chip
    }

    /// Base names of all metrics that the chip has in this mode, by name. A [`crate::Metric`] is one of
    /// them with a rollup behind it, such as `.sum`.
    pub fn metrics(&mut self, mode: Mode) -> Result<&BTreeSet<String>, CuptiError> {
        let slot = usize::from(mode == Mode::Sampling);
        if self.bases[slot].is_none() {
            let bases = Host::open(self, mode)?.base_metrics()?;
            self.bases[slot] = Some(bases);
        }
        Ok(self.bases[slot].get_or_insert_default())
    }

    /// What this chip calls each quantity; those that it does not have are left out.
    pub fn names(&mut self, mode: Mode, quantities: &[Quantity]) -> Result<Vec<Named>, CuptiError> {
        let bases = self.metrics(mode)?;
        Ok(quantities.iter().filter_map(|quantity| quantity.named_among(mode, bases)).collect())
    }

    /// Has every pass, and every sample that is evaluated, ask whether to go on; where `asked` says to stop, the count
    /// ends with [`CuptiError::Stopped`].
    pub fn stop_when(&mut self, asked: impl Fn() -> bool + 'static) {
        self.asked = Some(Box::new(asked));
    }

    /// [`CuptiError::Stopped`] once somebody asked.
    pub(crate) fn go_on(&self) -> Result<(), CuptiError> {
        if self.asked.as_ref().is_some_and(|asked| asked()) { Err(CuptiError::Stopped) } else { Ok(()) }
    }

    /// Waits for the GPU, so that what follows sees all work that was launched.
    pub(crate) fn synchronize(&self) -> Result<(), CuptiError> {
        (self.current.synchronize)().map_err(|code| CuptiError::Gpu { code })
    }

    /// Runs what is to be counted and waits for it.
    pub(crate) fn launch<E>(&self, launch: &mut impl FnMut() -> Result<(), E>) -> Result<(), CuptiError>
    where
        E: Into<crate::LaunchError>,
    {
        launch().map_err(|e| CuptiError::Launch(e.into()))?;
        self.synchronize()
    }

    fn with(place: Place, api: &'static Api, current: Current) -> Result<Self, CuptiError> {
        driver_serves(api, &current)?;
        let mut subscriber = std::ptr::null_mut();
        // SAFETY: the callback ignores its arguments, and no callback is enabled.
        let result = unsafe { api.cuptiSubscribe(&raw mut subscriber, Some(no_callback), std::ptr::null_mut()) };
        check("cuptiSubscribe", result)?;
        // From here on, `drop` undoes what was done.
        let mut session = Self {
            api,
            current,
            chip: String::new(),
            subscriber,
            asked: None,
            bases: [None, None],
            _place: place,
            _stays_on_thread: PhantomData,
        };
        // SAFETY: the block states its size.
        let result = unsafe { api.cuptiProfilerInitialize(&mut CUpti_Profiler_Initialize_Params::new()) };
        check("cuptiProfilerInitialize", result)?;
        session.device_serves()?;
        session.chip = session.ask_chip()?;
        Ok(session)
    }

    #[cfg(test)]
    pub(crate) fn with_table(api: &'static Api, current: Current) -> Result<Self, CuptiError> {
        Self::with(Place::take()?, api, current)
    }

    fn device_serves(&self) -> Result<(), CuptiError> {
        for (kind, what) in [
            (CUpti_Profiler_API::CUPTI_PROFILER_RANGE_PROFILING, "range profiling"),
            (CUpti_Profiler_API::CUPTI_PROFILER_PM_SAMPLING, "PM sampling"),
        ] {
            let mut asked =
                CUpti_Profiler_DeviceSupported_Params { cuDevice: self.current.device, api: kind, ..Params::new() };
            // SAFETY: the block states its size.
            check("cuptiProfilerDeviceSupported", unsafe { self.api.cuptiProfilerDeviceSupported(&raw mut asked) })?;
            if asked.isSupported != CUpti_Profiler_Support_Level::CUPTI_PROFILER_CONFIGURATION_SUPPORTED {
                return Err(CuptiError::NotSupported { what: format!("{what}{}", reason(&asked)) });
            }
        }
        Ok(())
    }

    fn ask_chip(&self) -> Result<String, CuptiError> {
        let mut asked = CUpti_Device_GetChipName_Params { deviceIndex: self.device_index(), ..Params::new() };
        // SAFETY: the block states its size.
        check("cuptiDeviceGetChipName", unsafe { self.api.cuptiDeviceGetChipName(&raw mut asked) })?;
        // SAFETY: CUPTI returned a name that it keeps.
        Ok(unsafe { text(asked.pChipName) })
    }

    pub(crate) fn device_index(&self) -> usize {
        usize::try_from(self.current.device).unwrap_or_default()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // SAFETY: both undo what `with` did, once. A failure leaves nothing to do.
        unsafe {
            self.api.cuptiProfilerDeInitialize(&mut CUpti_Profiler_DeInitialize_Params::new());
            self.api.cuptiUnsubscribe(self.subscriber);
        }
    }
}

/// A driver of an older CUDA than CUPTI's own fails in many ways later; one clear error instead.
fn driver_serves(api: &Api, current: &Current) -> Result<(), CuptiError> {
    let mut version = 0;
    // SAFETY: writes to a local.
    check("cuptiGetVersion", unsafe { api.cuptiGetVersion(&raw mut version) })?;
    // 13.0 is 130001; until 12.9 versions were small numbers, all of them CUDA 12's that get here.
    let major = if version >= 130_000 { i32::try_from(version / 10_000).unwrap_or_default() } else { 12 };
    let needed = OLDEST_DRIVER.max(major * 1000);
    if current.version < needed {
        return Err(CuptiError::DriverTooOld { driver: current.version, needed });
    }
    Ok(())
}

/// Which part of the configuration stands in the way.
fn reason(asked: &CUpti_Profiler_DeviceSupported_Params) -> &'static str {
    let supported = CUpti_Profiler_Support_Level::CUPTI_PROFILER_CONFIGURATION_SUPPORTED;
    let parts = [
        (asked.architecture, ": its architecture is too old"),
        (asked.sli, " while SLI is on"),
        (asked.vGpu, ": it is a virtual GPU, whose host must allow profiling"),
        (asked.confidentialCompute, " under confidential computing"),
        (asked.cmp, ": it is a mining processor"),
        (asked.wsl, " under WSL"),
    ];
    parts.into_iter().find(|(level, _)| *level != supported).map_or("", |(_, why)| why)
}

/// Copies a C string; empty for null.
///
/// # Safety
/// `string` is null or ends with a zero byte.
pub(crate) unsafe fn text(string: *const c_char) -> String {
    if string.is_null() {
        return String::new();
    }
    // SAFETY: not null; the caller promises the end.
    unsafe { CStr::from_ptr(string) }.to_string_lossy().into_owned()
}

unsafe extern "C" fn no_callback(_: *mut c_void, _: CUpti_CallbackDomain, _: CUpti_CallbackId, _: *const c_void) {}

/// Calls a function of the table that takes one parameter block.
///
/// # Safety
/// All pointers in the block are valid for the call.
pub(crate) unsafe fn call<P: Params>(
    name: &'static str,
    function: unsafe extern "C" fn(*mut P) -> CUptiResult,
    params: &mut P,
) -> Result<(), CuptiError> {
    // SAFETY: the block states its size; the caller vouches for its pointers.
    check(name, unsafe { function(params) })
}
