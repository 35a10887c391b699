//! Results into the caller's buffers: `needed` gets the full size, and as much as fits is written.

use crate::error::{Error, Result};

/// # Safety
/// `out` points to `capacity` elements when capacity is not 0; `needed` is NULL or points to one.
pub unsafe fn array<T: Copy>(
    items: &[T],
    out: *mut T,
    capacity: usize,
    needed: *mut usize,
) -> Result<()> {
    if out.is_null() && capacity != 0 {
        return Err(Error::argument(format!(
            "out is NULL, but its capacity is {capacity}"
        )));
    }
    if !needed.is_null() {
        unsafe { needed.write(items.len()) };
    }
    let n = items.len().min(capacity);
    if n != 0 {
        unsafe { std::ptr::copy_nonoverlapping(items.as_ptr(), out, n) };
    }
    Ok(())
}

/// Text or bytes; a zero follows when there is room.
///
/// # Safety
/// As `array`.
pub unsafe fn bytes(bytes: &[u8], buf: *mut u8, cap: usize, needed: *mut usize) -> Result<()> {
    unsafe { array(bytes, buf, cap, needed)? };
    if bytes.len() < cap {
        unsafe { buf.add(bytes.len()).write(0) };
    }
    Ok(())
}
