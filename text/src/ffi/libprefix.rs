//! The libprefix that the program has loaded, found at run time: this library works without it, and
//! an engine handle can only come from a loaded one. The declarations follow prefix.h;
//! tests/tasks/handles_test.cc proves through the C interface that the structs have the same layout.

use super::PrefixError;
use crate::error::{Code, Error, Result};
use std::ffi::{c_char, c_void};
use std::ptr::null_mut;

type Handle = *mut c_void;

/// `prefix_result_info` of prefix.h.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ResultInfo {
    pub struct_size: i32,
    pub status: i32,
    pub finish: i32,
    pub reserved: i32,
    pub user_tag: i64,
    pub prompt_tokens: i64,
    pub cached_tokens: i64,
    pub shared_tokens: i64,
    pub computed_tokens: i64,
    pub generated_tokens: i64,
    pub queue_us: i64,
    pub first_us: i64,
    pub total_us: i64,
}

/// `prefix_job_totals` of prefix.h.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Totals {
    pub struct_size: i32,
    pub reserved: i32,
    pub requests: i64,
    pub failed: i64,
    pub tokens_given: i64,
    pub tokens_computed: i64,
    pub tokens_cached: i64,
    pub tokens_shared: i64,
    pub tokens_generated: i64,
    pub steps: i64,
    pub rows: i64,
    pub seconds: f64,
}

macro_rules! functions {
    ($($name:ident: fn($($arg:ty),*) $(-> $result:ty)?;)*) => {
        /// Entry points of libprefix.
        #[derive(Clone, Copy)]
        struct Library {
            $($name: unsafe extern "C" fn($($arg),*) $(-> $result)?,)*
        }

        impl Library {
            fn find() -> Result<Library> {
                Ok(Library {
                    $($name: {
                        let address = symbol(concat!(stringify!($name), "\0"))?;
                        // SAFETY: the symbol is the function of that name, declared as in prefix.h.
                        unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($arg),*) $(-> $result)?>(address) }
                    },)*
                })
            }
        }
    };
}

functions! {
    prefix_abi_version: fn() -> i32;
    prefix_options_create: fn(*mut Handle, *mut PrefixError) -> i32;
    prefix_options_release: fn(Handle);
    prefix_options_set_json: fn(Handle, *const u8, usize, *mut PrefixError) -> i32;
    prefix_options_get: fn(Handle, *const u8, usize, *mut u8, usize, *mut usize, *mut PrefixError) -> i32;
    prefix_engine_retain: fn(Handle, *mut PrefixError) -> i32;
    prefix_engine_release: fn(Handle);
    prefix_engine_info_json: fn(Handle, *mut u8, usize, *mut usize, *mut PrefixError) -> i32;
    prefix_batch_create: fn(Handle, *mut Handle, *mut PrefixError) -> i32;
    prefix_batch_release: fn(Handle);
    prefix_batch_add_logits: fn(Handle, *const i32, usize, *const i32, usize, Handle, i64, *mut usize, *mut PrefixError) -> i32;
    prefix_batch_add_logprobs: fn(Handle, *const i32, usize, i32, Handle, i64, *mut usize, *mut PrefixError) -> i32;
    prefix_batch_add_choices: fn(Handle, *const i32, usize, *const i32, usize, *const i64, usize, Handle, i64, *mut usize, *mut PrefixError) -> i32;
    prefix_batch_add_embedding: fn(Handle, *const i32, usize, Handle, i64, *mut usize, *mut PrefixError) -> i32;
    prefix_batch_add_generate: fn(Handle, *const i32, usize, Handle, i64, *mut usize, *mut PrefixError) -> i32;
    prefix_submit: fn(Handle, Handle, *mut Handle, *mut PrefixError) -> i32;
    prefix_job_release: fn(Handle);
    prefix_job_wait: fn(Handle, i64, *mut PrefixError) -> i32;
    prefix_job_cancel: fn(Handle, *mut PrefixError) -> i32;
    prefix_job_result_info: fn(Handle, usize, *mut ResultInfo, *mut PrefixError) -> i32;
    prefix_job_result_message: fn(Handle, usize, *mut u8, usize, *mut usize, *mut PrefixError) -> i32;
    prefix_job_result_values: fn(Handle, usize, *mut f32, usize, *mut usize, *mut PrefixError) -> i32;
    prefix_job_result_tokens: fn(Handle, usize, *mut i32, usize, *mut usize, *mut PrefixError) -> i32;
    prefix_job_get_totals: fn(Handle, *mut Totals, *mut PrefixError) -> i32;
}

const ABI_VERSION: i32 = 1;

fn symbol(name: &str) -> Result<*mut c_void> {
    let name_c = name.as_ptr().cast::<c_char>();
    // SAFETY: both names end with a zero; RTLD_NOLOAD only finds what is loaded already.
    let address = unsafe {
        let global = libc::dlsym(libc::RTLD_DEFAULT, name_c);
        if !global.is_null() {
            global
        } else {
            let library = libc::dlopen(
                c"libprefix.so.1".as_ptr(),
                libc::RTLD_NOW | libc::RTLD_NOLOAD,
            );
            if library.is_null() {
                null_mut()
            } else {
                libc::dlsym(library, name_c)
            }
        }
    };
    if address.is_null() {
        return Err(Error::new(
            Code::Misuse,
            format!(
                "libprefix.so.1 is not loaded in this process, or lacks {}; tasks run on an engine of libprefix",
                name.trim_end_matches('\0')
            ),
        ));
    }
    Ok(address)
}

/// Runs a call that reports through a prefix_error.
fn check(body: impl FnOnce(*mut PrefixError) -> i32) -> Result<()> {
    let mut error = PrefixError::new();
    match body(&mut error) {
        0 => Ok(()),
        status => Err(Error::new(Code::from_status(status), error.text())),
    }
}

/// Both calls of the two-call convention; retried when the size grew in between.
fn sized<T: Clone + Default>(
    body: impl Fn(*mut T, usize, *mut usize, *mut PrefixError) -> i32,
) -> Result<Vec<T>> {
    let mut out: Vec<T> = Vec::new();
    loop {
        let mut needed = 0;
        check(|err| body(out.as_mut_ptr(), out.len(), &mut needed, err))?;
        if needed <= out.len() {
            out.truncate(needed);
            return Ok(out);
        }
        out.resize(needed, T::default());
    }
}

/// One request, as the functions prefix_batch_add_* take it.
pub enum Request<'a> {
    Logits {
        ids: &'a [i32],
    },
    Logprobs {
        from: usize,
    },
    Choices {
        tokens: &'a [i32],
        offsets: &'a [i64],
    },
    Embedding,
    Generate,
}

/// A reference to an engine.
pub struct Engine {
    handle: Handle,
    library: Library,
}

// SAFETY: prefix.h declares all functions used here as callable from any thread.
unsafe impl Send for Engine {}
unsafe impl Sync for Engine {}

impl Engine {
    /// # Safety
    /// `handle` is whatever a caller gives as engine; libprefix checks it.
    pub unsafe fn retain(handle: *mut c_void) -> Result<Engine> {
        if handle.is_null() {
            return Err(Error::argument("engine is NULL"));
        }
        let library = Library::find()?;
        let version = unsafe { (library.prefix_abi_version)() };
        if version < ABI_VERSION {
            return Err(Error::new(
                Code::Misuse,
                format!("libprefix has ABI version {version}; tasks need {ABI_VERSION}"),
            ));
        }
        check(|err| unsafe { (library.prefix_engine_retain)(handle, err) })?;
        Ok(Engine { handle, library })
    }

    pub fn info_json(&self) -> Result<String> {
        let bytes = sized(|buf, cap, needed, err| unsafe {
            (self.library.prefix_engine_info_json)(self.handle, buf, cap, needed, err)
        })?;
        String::from_utf8(bytes).map_err(|e| Error::new(Code::Internal, e.to_string()))
    }

    pub fn options(&self, json: &str) -> Result<Options> {
        let mut handle = null_mut();
        check(|err| unsafe { (self.library.prefix_options_create)(&mut handle, err) })?;
        let options = Options {
            handle,
            library: self.library,
        };
        check(|err| unsafe {
            (self.library.prefix_options_set_json)(handle, json.as_ptr(), json.len(), err)
        })?;
        Ok(options)
    }

    pub fn batch(&self) -> Result<Batch> {
        let mut handle = null_mut();
        check(|err| unsafe { (self.library.prefix_batch_create)(self.handle, &mut handle, err) })?;
        Ok(Batch {
            handle,
            library: self.library,
        })
    }

    pub fn submit(&self, batch: &Batch) -> Result<Job> {
        let mut handle = null_mut();
        check(|err| unsafe {
            (self.library.prefix_submit)(self.handle, batch.handle, &mut handle, err)
        })?;
        Ok(Job {
            handle,
            library: self.library,
        })
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        unsafe { (self.library.prefix_engine_release)(self.handle) }
    }
}

pub struct Options {
    handle: Handle,
    library: Library,
}

// SAFETY: never changed after Engine::options made it.
unsafe impl Send for Options {}
unsafe impl Sync for Options {}

impl Options {
    /// The value in force of an option.
    pub fn text(&self, key: &str) -> Result<String> {
        let bytes = sized(|buf, cap, needed, err| unsafe {
            let get = self.library.prefix_options_get;
            get(self.handle, key.as_ptr(), key.len(), buf, cap, needed, err)
        })?;
        String::from_utf8(bytes).map_err(|e| Error::new(Code::Internal, e.to_string()))
    }
}

impl Drop for Options {
    fn drop(&mut self) {
        unsafe { (self.library.prefix_options_release)(self.handle) }
    }
}

pub struct Batch {
    handle: Handle,
    library: Library,
}

// SAFETY: a batch may move between threads; &mut keeps calls apart.
unsafe impl Send for Batch {}

impl Batch {
    pub fn add(&mut self, tokens: &[i32], request: &Request, options: &Options) -> Result<()> {
        let l = &self.library;
        let (at, n) = (tokens.as_ptr(), tokens.len());
        let (batch, options) = (self.handle, options.handle);
        check(|err| unsafe {
            match request {
                Request::Logits { ids } => (l.prefix_batch_add_logits)(
                    batch,
                    at,
                    n,
                    ids.as_ptr(),
                    ids.len(),
                    options,
                    0,
                    null_mut(),
                    err,
                ),
                Request::Logprobs { from } => (l.prefix_batch_add_logprobs)(
                    batch,
                    at,
                    n,
                    *from as i32,
                    options,
                    0,
                    null_mut(),
                    err,
                ),
                Request::Choices { tokens, offsets } => (l.prefix_batch_add_choices)(
                    batch,
                    at,
                    n,
                    tokens.as_ptr(),
                    tokens.len(),
                    offsets.as_ptr(),
                    offsets.len(),
                    options,
                    0,
                    null_mut(),
                    err,
                ),
                Request::Embedding => {
                    (l.prefix_batch_add_embedding)(batch, at, n, options, 0, null_mut(), err)
                }
                Request::Generate => {
                    (l.prefix_batch_add_generate)(batch, at, n, options, 0, null_mut(), err)
                }
            }
        })
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        unsafe { (self.library.prefix_batch_release)(self.handle) }
    }
}

pub struct Job {
    handle: Handle,
    library: Library,
}

// SAFETY: as for Engine.
unsafe impl Send for Job {}
unsafe impl Sync for Job {}

impl Job {
    /// Whether the job is done.
    pub fn wait(&self, timeout_ms: i64) -> Result<bool> {
        match check(|err| unsafe { (self.library.prefix_job_wait)(self.handle, timeout_ms, err) }) {
            Ok(()) => Ok(true),
            Err(e) if e.code == Code::Timeout => Ok(false),
            Err(e) => Err(e),
        }
    }

    pub fn cancel(&self) -> Result<()> {
        check(|err| unsafe { (self.library.prefix_job_cancel)(self.handle, err) })
    }

    pub fn info(&self, index: usize) -> Result<ResultInfo> {
        let mut info = ResultInfo {
            struct_size: size_of::<ResultInfo>() as i32,
            ..Default::default()
        };
        check(|err| unsafe {
            (self.library.prefix_job_result_info)(self.handle, index, &mut info, err)
        })?;
        Ok(info)
    }

    pub fn message(&self, index: usize) -> Result<String> {
        let bytes = sized(|buf, cap, needed, err| unsafe {
            (self.library.prefix_job_result_message)(self.handle, index, buf, cap, needed, err)
        })?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    pub fn values(&self, index: usize) -> Result<Vec<f32>> {
        sized(|out, capacity, needed, err| unsafe {
            (self.library.prefix_job_result_values)(self.handle, index, out, capacity, needed, err)
        })
    }

    pub fn tokens(&self, index: usize) -> Result<Vec<i32>> {
        sized(|out, capacity, needed, err| unsafe {
            (self.library.prefix_job_result_tokens)(self.handle, index, out, capacity, needed, err)
        })
    }

    pub fn totals(&self) -> Result<Totals> {
        let mut totals = Totals {
            struct_size: size_of::<Totals>() as i32,
            ..Default::default()
        };
        check(|err| unsafe {
            (self.library.prefix_job_get_totals)(self.handle, &mut totals, err)
        })?;
        Ok(totals)
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        unsafe { (self.library.prefix_job_release)(self.handle) }
    }
}
