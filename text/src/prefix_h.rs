//! prefix.h: the declarations that bindgen made of it for the crate libprefix-sys, and what its macros do.
//! One generated file serves both crates, so neither can be older than the other.

#![allow(non_camel_case_types, dead_code)]

/// Of each function the type of a pointer to it, by its name.
macro_rules! functions {
    ($(
        $(#[$meta:meta])*
        pub fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)?;
    )*) => {
        $( pub type $name = unsafe extern "C" fn($($type),*) $(-> $result)?; )*
    };
}

#[rustfmt::skip]
#[path = "../../bindings/rust/prefix-sys/src/prefix_h.rs"]
mod generated;

pub use generated::*;

use std::ffi::c_char;

/// A length: up to the terminating zero.
pub const PREFIX_NUL: usize = usize::MAX;

/// A struct that a library fills: plain numbers behind its size.
///
/// # Safety
/// The struct is `repr(C)`, begins with the i32 struct_size, and all bits zero are a value of it.
pub unsafe trait Sized32: Copy {
    const NAME: &'static str;
    /// Its size in the first release that has it: programs with less have none.
    const FIRST_LAYOUT: usize = size_of::<Self>();

    /// Zeros behind the size, as an _INIT macro gives.
    fn sized() -> Self {
        // SAFETY: what the trait says.
        let zeros: Self = unsafe { std::mem::zeroed() };
        zeros.with_size(size_of::<Self>() as i32)
    }

    fn with_size(self, size: i32) -> Self;
}

macro_rules! sized {
    ($($name:ident),*) => {$(
        unsafe impl Sized32 for $name {
            const NAME: &'static str = stringify!($name);

            fn with_size(self, struct_size: i32) -> Self {
                $name { struct_size, ..self }
            }
        }
    )*};
}
sized!(
    prefix_error,
    prefix_constraint_calls,
    prefix_engine_info,
    prefix_event,
    prefix_result_info,
    prefix_job_totals
);

impl prefix_error {
    /// What PREFIX_ERROR_INIT gives.
    pub const fn new() -> Self {
        prefix_error {
            struct_size: size_of::<prefix_error>() as i32,
            code: 0,
            domain: [0; 48],
            message: [0; 456],
        }
    }

    pub fn text(&self) -> &str {
        let message = bytes_of(&self.message);
        let end = message.iter().position(|b| *b == 0).unwrap_or(0);
        std::str::from_utf8(&message[..end]).unwrap_or("")
    }

    /// As much as fits of both.
    pub fn set(&mut self, code: i32, domain: &str, message: &str) {
        self.code = code;
        copy_text(&mut self.domain, domain);
        copy_text(&mut self.message, message);
    }
}

impl Default for prefix_error {
    fn default() -> Self {
        Self::new()
    }
}

fn bytes_of(text: &[c_char]) -> &[u8] {
    // SAFETY: c_char is a byte.
    unsafe { std::slice::from_raw_parts(text.as_ptr().cast(), text.len()) }
}

/// Copies whole characters and a zero.
fn copy_text(to: &mut [c_char], text: &str) {
    let mut n = text.len().min(to.len() - 1);
    while !text.is_char_boundary(n) {
        n -= 1;
    }
    for (to, from) in to.iter_mut().zip(&text.as_bytes()[..n]) {
        *to = *from as c_char;
    }
    to[n] = 0;
}
