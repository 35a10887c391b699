//! Raw bindings to libprefix: exactly the functions, structs and constants of `prefix.h`, and with the
//! feature `text` those of `prefix_text.h`. The headers are the manual; the crate `prefix` is the safe
//! face.
//!
//! How the library is found is decided by the build script, in this order:
//!
//! 1. `PREFIX_LIB_DIR`, the folder that holds `libprefix.so`;
//! 2. with the feature `bundled`: cmake on the source tree (`PREFIX_SOURCE_DIR`, default: the tree that this
//!    crate is a part of);
//! 3. `pkg-config`, when `prefix.pc` is installed.
//!
//! With the feature `dynamic` nothing is linked: `dynamic::load` opens the library at run time.

#![allow(non_camel_case_types)]

#[macro_use]
mod functions;

#[cfg(feature = "dynamic")]
pub mod dynamic;

#[rustfmt::skip]
mod prefix_h;
pub use prefix_h::*;

#[cfg(feature = "text")]
#[rustfmt::skip]
mod prefix_text_h;
#[cfg(feature = "text")]
pub use prefix_text_h::*;

/// As a length: up to the terminating zero.
pub const PREFIX_NUL: usize = usize::MAX;

/// The names of all functions of `prefix.h`.
pub const FUNCTIONS: &[&str] = prefix_h::NAMES;
/// The names of all functions of `prefix_text.h`.
#[cfg(feature = "text")]
pub const TEXT_FUNCTIONS: &[&str] = prefix_text_h::NAMES;

/// Structs that the library fills or reads begin with their size; this makes one with all else zero, as the
/// `_INIT` macros of the header do.
pub trait Init: Sized {
    fn init() -> Self;
}

macro_rules! sized {
    ($($name:ident),* $(,)?) => {$(
        impl Init for $name {
            fn init() -> Self {
                // Safety: integers, floats, pointers and optional functions, for which all bits zero are values.
                let mut all: $name = unsafe { ::core::mem::zeroed() };
                all.struct_size = ::core::mem::size_of::<$name>() as i32;
                all
            }
        }
    )*};
}
sized!(
    prefix_error,
    prefix_option_details,
    prefix_engine_info,
    prefix_device_details,
    prefix_memory,
    prefix_engine_stats,
    prefix_constraint_calls,
    prefix_event,
    prefix_result_info,
    prefix_job_totals,
    prefix_cache_info,
    prefix_cache_usage,
    prefix_order_info,
    prefix_partition_info,
    prefix_estimate_info,
    prefix_cache_event,
    prefix_snapshot_info,
);
