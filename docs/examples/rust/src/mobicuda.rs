//! As much of mobicuda_c.h as this program needs, made safe: handles end by themselves, errors are `Result`s.
use std::ffi::{c_char, c_void, CStr, CString};
use std::path::Path;

#[repr(C)]
struct EngineOptions {
    struct_size: usize,
    backend: i32,
    precision: i32,
    max_batch: i64,
    // What follows in the header is left at its defaults: the library sees that struct_size ends here.
}

const MAX_RANK: usize = 8;

#[repr(C)]
#[derive(Default)]
struct TensorInfo {
    struct_size: usize,
    dtype: i32,
    layout: i32,
    rank: usize,
    shape: [i64; MAX_RANK],
    elements: i64,
}

extern "C" {
    fn mobicuda_last_error_status() -> i32;
    fn mobicuda_last_error_text() -> *const c_char;
    fn mobicuda_version() -> *const c_char;
    fn mobicuda_engine_load_onnx(
        path: *const c_char,
        import: *const c_void,
        options: *const EngineOptions,
        engine: *mut *mut c_void,
    ) -> i32;
    fn mobicuda_engine_get_input(engine: *const c_void, info: *mut TensorInfo) -> i32;
    fn mobicuda_engine_get_output(engine: *const c_void, info: *mut TensorInfo) -> i32;
    fn mobicuda_engine_destroy(engine: *mut c_void);
    fn mobicuda_session_create(engine: *const c_void, session: *mut *mut c_void) -> i32;
    fn mobicuda_session_run(
        session: *mut c_void,
        input: *const f32,
        input_count: usize,
        output: *mut f32,
        output_count: usize,
    ) -> i32;
    fn mobicuda_session_destroy(session: *mut c_void);
}

#[derive(Clone, Copy)]
pub enum Backend {
    Custom = 1,
    Cpu = 2,
}

pub const DEVICE_UNAVAILABLE: i32 = 6;

#[derive(Debug)]
pub struct Error {
    pub status: i32,
    pub text: String,
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Error {}

fn text_of(text: *const c_char) -> String {
    // SAFETY: the library's texts are never null and end with NUL.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

fn check(status: i32) -> Result<(), Error> {
    if status == 0 {
        return Ok(());
    }
    // SAFETY: both read what the call that has just failed on this thread left.
    Err(unsafe { Error { status: mobicuda_last_error_status(), text: text_of(mobicuda_last_error_text()) } })
}

pub fn version() -> String {
    // SAFETY: no arguments, and a text that stays.
    text_of(unsafe { mobicuda_version() })
}

/// A compiled network. Threads may share it.
pub struct Engine {
    handle: *mut c_void,
    /// Elements of one image's input and output.
    pub input: usize,
    pub output: usize,
}

// SAFETY: "An engine may be used by several threads at once" (mobicuda_c.h).
unsafe impl Send for Engine {}
unsafe impl Sync for Engine {}

impl Engine {
    pub fn load(path: &Path, backend: Backend, max_batch: i64) -> Result<Engine, Error> {
        let path = CString::new(path.as_os_str().as_encoded_bytes())
            .map_err(|_| Error { status: 1, text: "the path has a NUL".into() })?;
        let options = EngineOptions {
            struct_size: std::mem::size_of::<EngineOptions>(),
            backend: backend as i32,
            precision: 0,
            max_batch,
        };
        let mut engine = Engine { handle: std::ptr::null_mut(), input: 0, output: 0 };
        let mut info = TensorInfo { struct_size: std::mem::size_of::<TensorInfo>(), ..Default::default() };
        // SAFETY: all pointers are of living values of the header's types; drop() ends the handle.
        unsafe {
            check(mobicuda_engine_load_onnx(path.as_ptr(), std::ptr::null(), &options, &mut engine.handle))?;
            check(mobicuda_engine_get_input(engine.handle, &mut info))?;
            engine.input = info.elements as usize;
            check(mobicuda_engine_get_output(engine.handle, &mut info))?;
            engine.output = info.elements as usize;
        }
        Ok(engine)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // SAFETY: the handle is ours, or null.
        unsafe { mobicuda_engine_destroy(self.handle) }
    }
}

/// Runs an engine: one for each thread. Keeps the network alive by itself.
pub struct Session {
    handle: *mut c_void,
    output: usize,
    input: usize,
}

// SAFETY: a session belongs to one thread at a time, which &mut self sees to.
unsafe impl Send for Session {}

impl Session {
    pub fn new(engine: &Engine) -> Result<Session, Error> {
        let mut session = Session { handle: std::ptr::null_mut(), output: engine.output, input: engine.input };
        // SAFETY: as above.
        check(unsafe { mobicuda_session_create(engine.handle, &mut session.handle) })?;
        Ok(session)
    }

    pub fn run(&mut self, input: &[f32]) -> Result<Vec<f32>, Error> {
        let mut output = vec![0.0; input.len() / self.input * self.output];
        // SAFETY: pointers and counts are those of the slices.
        check(unsafe {
            mobicuda_session_run(self.handle, input.as_ptr(), input.len(), output.as_mut_ptr(), output.len())
        })?;
        Ok(output)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // SAFETY: the handle is ours, or null.
        unsafe { mobicuda_session_destroy(self.handle) }
    }
}
