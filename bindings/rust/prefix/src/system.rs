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

/// One instruction-set level of the CPU.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceInfo {
    /// `cpu`.
    pub kind: &'static str,
    /// The level, for instance `avx512_bf16`; a value of the option `isa`.
    pub level: &'static str,
    /// Whether engines can run on it.
    pub available: bool,
    /// Whether `isa = auto` takes this one.
    pub chosen: bool,
    /// Cores that this process may use.
    pub threads: usize,
    /// Memory of the device.
    pub total_bytes: u64,
    /// How much of it is free.
    pub free_bytes: u64,
    /// Why it is not available; "" when it is.
    pub reason: &'static str,
}

/// Every instruction-set level of the CPU, best first.
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
