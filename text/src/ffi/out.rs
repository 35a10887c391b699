//! Results into the caller's buffers, whole or not at all (rule 3 of prefix.h).

use crate::error::{Code, Error, Result};

/// An array of the caller: `capacity` elements at `at`.
pub struct Buffer<T> {
    pub name: &'static str,
    pub at: *mut T,
    pub capacity: usize,
}

impl<T: Copy> Buffer<T> {
    fn check(&self) -> Result<()> {
        if self.at.is_null() && self.capacity != 0 {
            return Err(Error::argument(format!(
                "{} is NULL, but its capacity is {}",
                self.name, self.capacity
            )));
        }
        Ok(())
    }

    /// Whether it takes n elements; false when the caller only asks how many there are.
    fn takes(&self, n: usize) -> Result<bool> {
        if self.capacity == 0 {
            return Ok(false);
        }
        if self.capacity < n {
            return Err(Error::new(
                Code::BufferTooSmall,
                format!(
                    "{} has room for {}; {n} are needed",
                    self.name, self.capacity
                ),
            ));
        }
        Ok(true)
    }

    /// # Safety
    /// `at` points to `capacity` elements when capacity is not 0.
    unsafe fn write(&self, items: &[T]) {
        unsafe { std::ptr::copy_nonoverlapping(items.as_ptr(), self.at, items.len()) };
    }
}

/// # Safety
/// `needed` is NULL or points to one.
unsafe fn tell(needed: *mut usize, n: usize) {
    if !needed.is_null() {
        unsafe { needed.write(n) };
    }
}

/// # Safety
/// `out` points to `capacity` elements when capacity is not 0; `needed` is NULL or points to one.
pub unsafe fn array<T: Copy>(
    items: &[T],
    out: *mut T,
    capacity: usize,
    needed: *mut usize,
) -> Result<()> {
    let out = Buffer {
        name: "out",
        at: out,
        capacity,
    };
    out.check()?;
    unsafe { tell(needed, items.len()) };
    if out.takes(items.len())? {
        unsafe { out.write(items) };
    }
    Ok(())
}

/// Two arrays at once: nothing is written where one of them is too small. `needed` is that of the
/// first; the caller knows the length of the second.
///
/// # Safety
/// As `array`, for both.
pub unsafe fn arrays<T: Copy, U: Copy>(
    items: &[T],
    out: Buffer<T>,
    needed: *mut usize,
    others: &[U],
    other: Buffer<U>,
) -> Result<()> {
    out.check()?;
    other.check()?;
    unsafe { tell(needed, items.len()) };
    let (first, second) = (out.takes(items.len())?, other.takes(others.len())?);
    if first {
        unsafe { out.write(items) };
    }
    if second {
        unsafe { other.write(others) };
    }
    Ok(())
}

/// Text or bytes and a zero; whether they were written, and not only asked for.
///
/// # Safety
/// As `array`.
pub unsafe fn bytes(bytes: &[u8], buf: *mut u8, cap: usize, needed: *mut usize) -> Result<bool> {
    let buf = Buffer {
        name: "buf",
        at: buf,
        capacity: cap,
    };
    buf.check()?;
    unsafe { tell(needed, bytes.len()) };
    let wanted = buf.takes(bytes.len() + 1)?;
    if wanted {
        unsafe {
            buf.write(bytes);
            buf.at.add(bytes.len()).write(0);
        }
    }
    Ok(wanted)
}

/// The same, where it does not matter which.
///
/// # Safety
/// As `array`.
pub unsafe fn text(text: &str, buf: *mut u8, cap: usize, needed: *mut usize) -> Result<()> {
    unsafe { bytes(text.as_bytes(), buf, cap, needed) }.map(|_| ())
}
