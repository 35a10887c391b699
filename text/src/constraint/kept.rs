//! What is made at first use and kept.

use crate::error::Result;
use std::sync::{Arc, Mutex};

/// Made by one of those who ask at the same time, while the others wait. What could not be made is tried again by the
/// next one.
pub struct Kept<T>(Mutex<Option<Arc<T>>>);

impl<T> Kept<T> {
    pub fn new() -> Kept<T> {
        Kept(Mutex::new(None))
    }

    pub fn get(&self, make: impl FnOnce() -> Result<T>) -> Result<Arc<T>> {
        // Where making it panicked there is none.
        let mut kept = self.0.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(made) = &*kept {
            return Ok(made.clone());
        }
        let made = Arc::new(make()?);
        *kept = Some(made.clone());
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use std::panic::{catch_unwind, AssertUnwindSafe};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::Barrier;
    use std::thread;

    #[test]
    fn it_is_made_once_however_many_ask() {
        let (kept, made, all) = (Kept::new(), AtomicUsize::new(0), Barrier::new(8));
        let make = || {
            // As long as it takes the others to come.
            for _ in 0..1000 {
                thread::yield_now();
            }
            Ok(made.fetch_add(1, Ordering::Relaxed))
        };
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    all.wait();
                    assert_eq!(*kept.get(make).unwrap(), 0);
                });
            }
        });
        assert_eq!(made.into_inner(), 1);
    }

    #[test]
    fn what_could_not_be_made_is_tried_again() {
        let kept = Kept::new();
        let error = kept.get(|| Err(Error::range("too large"))).unwrap_err();
        assert_eq!(error.message, "too large");
        assert!(catch_unwind(AssertUnwindSafe(|| kept.get(|| panic!("a bug")))).is_err());
        assert_eq!(*kept.get(|| Ok(7)).unwrap(), 7);
        assert_eq!(*kept.get(|| Ok(8)).unwrap(), 7);
    }
}
