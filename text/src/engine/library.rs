//! The functions of libprefix, found in the process by their names, and how they are called.

use crate::error::{Code, Error, Result};
use crate::prefix_h::{self, prefix_error};
use std::ffi::{c_char, c_void};
use std::ptr::null_mut;

/// Entry points of libprefix, by the declarations of prefix.h.
macro_rules! library {
    ($($name:ident,)*) => {
        #[derive(Clone, Copy)]
        pub(super) struct Library {
            $(pub(super) $name: prefix_h::$name,)*
        }

        impl Library {
            pub(super) fn find() -> Result<Library> {
                Ok(Library {
                    $($name: {
                        let address = symbol(concat!(stringify!($name), "\0"))?;
                        // SAFETY: the symbol is the function of that name, declared as in prefix.h.
                        unsafe { std::mem::transmute::<*mut c_void, prefix_h::$name>(address) }
                    },)*
                })
            }
        }
    };
}

library! {
    prefix_abi_version,
    prefix_options_create,
    prefix_options_release,
    prefix_options_set_int,
    prefix_options_set_json,
    prefix_options_get,
    prefix_options_json,
    prefix_log_write,
    prefix_engine_retain,
    prefix_engine_release,
    prefix_engine_info_json,
    prefix_engine_get_info,
    prefix_engine_end_tokens,
    prefix_batch_create,
    prefix_batch_release,
    prefix_batch_add_logits,
    prefix_batch_add_logprobs,
    prefix_batch_add_choices,
    prefix_batch_add_embedding,
    prefix_batch_add_generate,
    prefix_batch_constrain,
    prefix_constraint_create,
    prefix_constraint_release,
    prefix_queue_create,
    prefix_queue_retain,
    prefix_queue_release,
    prefix_queue_next,
    prefix_queue_post,
    prefix_submit,
    prefix_job_release,
    prefix_job_notify_events,
    prefix_job_next_event,
    prefix_job_cancel,
    prefix_job_cancel_request,
    prefix_job_result_info,
    prefix_job_result_message,
    prefix_job_result_values,
    prefix_job_result_logprobs,
    prefix_job_partial_tokens,
    prefix_job_partial_top,
    prefix_job_get_totals,
}

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
pub(super) fn check(body: impl FnOnce(*mut prefix_error) -> i32) -> Result<()> {
    let mut error = prefix_error::new();
    match body(&mut error) {
        0 => Ok(()),
        status => Err(Error::new(Code::from_status(status), error.text())),
    }
}

/// What a call writes into a buffer of the right size; the first call only asks for it.
pub(super) fn sized<T: Clone + Default>(
    body: impl Fn(*mut T, usize, *mut usize, *mut prefix_error) -> i32,
) -> Result<Vec<T>> {
    let mut out: Vec<T> = Vec::new();
    loop {
        let mut needed = 0;
        match check(|err| body(out.as_mut_ptr(), out.len(), &mut needed, err)) {
            Ok(()) if needed <= out.len() => {
                out.truncate(needed);
                return Ok(out);
            }
            Ok(()) => {}
            Err(e) if e.code == Code::BufferTooSmall => {} // it has grown since
            Err(e) => return Err(e),
        }
        out.resize(needed + 1, T::default()); // text ends with a zero
    }
}
