//! Structs that the library fills: what both sides know of them (rule 4 of prefix.h).

use crate::error::{Code, Error, Result};
use crate::prefix_h::Sized32;

/// The size that the caller's struct says it has.
///
/// # Safety
/// `out` is NULL or begins with its struct_size and has so many bytes.
pub(super) unsafe fn check_size<T: Sized32>(out: *mut T, name: &str) -> Result<usize> {
    if out.is_null() {
        return Err(Error::argument(format!("{name} is NULL")));
    }
    let given = unsafe { out.cast::<i32>().read() };
    let least = T::FIRST_LAYOUT;
    usize::try_from(given)
        .ok()
        .filter(|size| *size >= least)
        .ok_or_else(|| {
            Error::new(
                Code::StructTooOld,
                format!(
                    "{}: struct_size is {given}; it must be at least {least}",
                    T::NAME
                ),
            )
        })
}

/// Copies the fields that both sides know; struct_size of `out` stays the caller's.
///
/// # Safety
/// As check_size.
pub(super) unsafe fn fill<T: Sized32>(out: *mut T, value: T) -> Result<()> {
    let known = unsafe { check_size(out, "out") }?.min(size_of::<T>());
    let size = size_of::<i32>();
    let from = (&raw const value).cast::<u8>();
    // SAFETY: both have `known` bytes.
    unsafe {
        std::ptr::copy_nonoverlapping(from.add(size), out.cast::<u8>().add(size), known - size)
    };
    Ok(())
}

/// A struct that has grown, with a program and a library of different age.
#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C)]
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct New {
        struct_size: i32,
        a: i32,
        b: i64,
        c: i64,
    }
    const OLD: usize = std::mem::offset_of!(New, c);

    unsafe impl Sized32 for New {
        const NAME: &'static str = "new";
        const FIRST_LAYOUT: usize = OLD;

        fn with_size(self, struct_size: i32) -> Self {
            New {
                struct_size,
                ..self
            }
        }
    }

    /// What a program with room for `size` bytes has after the library filled it.
    fn filled(size: i32) -> (Result<()>, New, i64) {
        let mut memory = (
            New {
                struct_size: size,
                a: 90,
                b: 91,
                c: 92,
            },
            93,
        );
        let value = New {
            struct_size: 0,
            a: 1,
            b: 2,
            c: 3,
        };
        let result = unsafe { fill(&raw mut memory.0, value) };
        (result, memory.0, memory.1)
    }

    #[test]
    fn structs_are_filled_as_far_as_both_sides_know_them() {
        for (size, c) in [(OLD as i32, 92), (OLD as i32 + 8, 3), (1000, 3)] {
            let (result, found, behind) = filled(size);
            assert!(result.is_ok());
            let (a, b) = (1, 2);
            let wanted = New {
                struct_size: size,
                a,
                b,
                c,
            };
            assert_eq!((found, behind), (wanted, 93));
        }
        for size in [OLD as i32 - 1, 4, 0, -1] {
            let (result, found, _) = filled(size);
            assert_eq!(result.unwrap_err().code as i32, Code::StructTooOld as i32);
            assert_eq!((found.a, found.b, found.c), (90, 91, 92));
        }
    }
}
