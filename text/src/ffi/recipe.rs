//! prefix_recipe_*.

use super::{entry, out, text_in, PrefixError};
use crate::tasks::{shipped_json, SHIPPED};

#[no_mangle]
pub extern "C" fn prefix_recipe_count() -> usize {
    SHIPPED.len()
}

#[no_mangle]
pub extern "C" fn prefix_recipe_name(index: usize) -> *const u8 {
    SHIPPED
        .get(index)
        .map_or(std::ptr::null(), |(name, _)| name.as_ptr())
}

#[no_mangle]
pub unsafe extern "C" fn prefix_recipe_json(
    name: *const u8,
    name_len: usize,
    buf: *mut u8,
    cap: usize,
    needed: *mut usize,
    err: *mut PrefixError,
) -> i32 {
    unsafe {
        entry(err, "prefix_recipe_json", || {
            let text = shipped_json(text_in(name, name_len, "name")?)?;
            out::text(text, buf, cap, needed)
        })
    }
}
