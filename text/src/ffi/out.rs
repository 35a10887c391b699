//! Results into the caller's buffers, whole or not at all (rule 3 of prefix.h).

use crate::error::{Code, Error, Result};

/// An array of the caller: `capacity` elements at `at`.
pub struct Buffer<T> {
    pub name: &'static str,
    pub at: *mut T,
    pub capacity: usize,
}

impl<T: Copy> Buffer<T> {
    /// The same with what goes into it.
    pub fn of(self, items: &[T]) -> Filled<'_, T> {
        Filled {
            items,
            buffer: self,
        }
    }

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

/// An array of the caller, with what goes into it.
pub struct Filled<'a, T> {
    items: &'a [T],
    buffer: Buffer<T>,
}

/// The same, whatever its elements are.
pub trait Fill {
    fn len(&self) -> usize;
    fn check(&self) -> Result<()>;
    fn takes(&self) -> Result<bool>;
    /// # Safety
    /// As Buffer::write, with the room that `takes` found.
    unsafe fn write(&self);
}

impl<T: Copy> Fill for Filled<'_, T> {
    fn len(&self) -> usize {
        self.items.len()
    }

    fn check(&self) -> Result<()> {
        self.buffer.check()
    }

    fn takes(&self) -> Result<bool> {
        self.buffer.takes(self.items.len())
    }

    unsafe fn write(&self) {
        unsafe { self.buffer.write(self.items) };
    }
}

/// Several arrays at once: nothing is written where one of them is too small. `needed` is that of the
/// first; the caller knows the length of the others.
///
/// # Safety
/// As `array`, for all.
pub unsafe fn arrays(needed: *mut usize, all: &[&dyn Fill]) -> Result<()> {
    for one in all {
        one.check()?;
    }
    if let Some(first) = all.first() {
        unsafe { tell(needed, first.len()) };
    }
    let mut wanted = Vec::new();
    for one in all {
        if one.takes()? {
            wanted.push(one);
        }
    }
    for one in wanted {
        unsafe { one.write() };
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
