//! NVRTC: takes the time that it is told to, asks while it does whether to go on, and gives back a few bytes.

#![allow(non_snake_case, reason = "the names of the library that it stands in for")]

use std::ffi::{c_char, c_int, c_void};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::state;

const SUCCESS: c_int = 0;
const CANCELLED: c_int = 16;
/// What is compiled.
const CUBIN: [u8; 4] = *b"cubn";
/// A program; all are alike.
const PROGRAM: usize = 16;

type Ask = unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int;

/// The question of the program being compiled, and the address of its payload.
static ASK: Mutex<Option<(Ask, usize)>> = Mutex::new(None);

#[unsafe(no_mangle)]
unsafe extern "C" fn nvrtcVersion(major: *mut c_int, minor: *mut c_int) -> c_int {
    // SAFETY: the caller passes two places.
    unsafe { (*major, *minor) = (13, 0) };
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvrtcCreateProgram(
    program: *mut usize,
    _source: *const c_char,
    _name: *const c_char,
    _count: c_int,
    _headers: *const *const c_char,
    _names: *const *const c_char,
) -> c_int {
    // SAFETY: the caller passes a place.
    unsafe { *program = PROGRAM };
    ASK.lock().map_or(1, |mut ask| {
        *ask = None;
        SUCCESS
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvrtcSetFlowCallback(_program: usize, ask: Ask, payload: *mut c_void) -> c_int {
    ASK.lock().map_or(1, |mut place| {
        *place = Some((ask, payload.expose_provenance()));
        SUCCESS
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvrtcCompileProgram(_program: usize, _count: c_int, _options: *const *const c_char) -> c_int {
    let (start, takes) = (Instant::now(), state::with(|state| state.compile_time()));
    let question = ASK.lock().ok().and_then(|ask| *ask);
    while start.elapsed() < takes {
        if let Some((ask, payload)) = question {
            let payload = std::ptr::with_exposed_provenance_mut(payload);
            // SAFETY: who set the question keeps it until the program is compiled.
            if unsafe { ask(payload, std::ptr::null_mut()) } != 0 {
                return CANCELLED;
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvrtcGetProgramLogSize(_program: usize, size: *mut usize) -> c_int {
    // SAFETY: the caller passes a place.
    unsafe { *size = 1 };
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvrtcGetProgramLog(_program: usize, log: *mut c_char) -> c_int {
    // SAFETY: the caller passes the one byte that it was told of.
    unsafe { *log = 0 };
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvrtcGetCUBINSize(_program: usize, size: *mut usize) -> c_int {
    // SAFETY: the caller passes a place.
    unsafe { *size = CUBIN.len() };
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvrtcGetCUBIN(_program: usize, cubin: *mut c_char) -> c_int {
    // SAFETY: the caller passes as many bytes as it was told of.
    unsafe { std::ptr::copy_nonoverlapping(CUBIN.as_ptr(), cubin.cast(), CUBIN.len()) };
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvrtcDestroyProgram(_program: *mut usize) -> c_int {
    SUCCESS
}
