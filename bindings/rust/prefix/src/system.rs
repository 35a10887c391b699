//! What this library and this machine are.

use prefix_sys as sys;
use prefix_sys::Init;

use crate::error::{call, static_text, Result};
use crate::library;
use crate::raw::count;

/// `major.minor.patch` of the library that runs.
pub fn version() -> Result<&'static str> {
    library::ready()?;
    // Safety: no precondition; also below.
    Ok(static_text(unsafe { sys::prefix_version_string() }))
}

/// One line for bug reports: version, compiler, instruction-set level.
pub fn build_info() -> Result<&'static str> {
    library::ready()?;
    Ok(static_text(unsafe { sys::prefix_build_info() }))
}

/// What the library was built with and this machine can run: `cpu`, `bf16`, `gguf`, ...
pub fn features() -> Result<Vec<&'static str>> {
    library::ready()?;
    let count = unsafe { sys::prefix_feature_count() };
    Ok((0..count)
        .map(|index| static_text(unsafe { sys::prefix_feature_name(index) }))
        .collect())
}

/// Whether it is among [`features`].
pub fn has_feature(name: &str) -> Result<bool> {
    library::ready()?;
    // Safety: a text with its length.
    Ok(unsafe { sys::prefix_has_feature(name.as_ptr().cast(), name.len()) } != 0)
}

/// What an engine could run on.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceInfo {
    /// `cpu` or `cuda`.
    pub kind: &'static str,
    /// As its maker calls it; "" when that is not known.
    pub name: &'static str,
    /// The instruction-set level that `isa = auto` takes, for instance `avx512_bf16`; of a GPU `sm_90`.
    pub level: &'static str,
    /// Whether engines can run on it.
    pub available: bool,
    /// Whether they do unless the option `device` names another.
    pub chosen: bool,
    /// Cores that this process may use; multiprocessors of a GPU.
    pub threads: usize,
    /// Memory of the device.
    pub total_bytes: u64,
    /// How much of it is free; 0 of a GPU.
    pub free_bytes: u64,
    /// Why it is not available; "" when it is.
    pub reason: &'static str,
}

/// The CPU, then the GPUs in the order of the option `device = cuda:0`, `cuda:1`, ...
pub fn devices() -> Result<Vec<DeviceInfo>> {
    library::ready()?;
    let number = unsafe { sys::prefix_device_count() };
    (0..number)
        .map(|index| {
            let mut c = sys::prefix_device_details::init();
            // Safety: a struct with its size.
            call(|err| unsafe { sys::prefix_device_info(index, &mut c, err) })?;
            Ok(DeviceInfo {
                kind: static_text(c.kind),
                name: static_text(c.name),
                level: static_text(c.level),
                available: c.available != 0,
                chosen: c.chosen != 0,
                threads: usize::try_from(c.threads).unwrap_or(0),
                total_bytes: count(c.total_bytes),
                free_bytes: count(c.free_bytes),
                reason: static_text(c.reason),
            })
        })
        .collect()
}
