//! Memory for the moment when the system has none. Rust ends the process where a list cannot grow; a library may not. So
//! what the system refuses comes from a reserve, and whoever goes on for long asks in between (`check`) whether it has
//! to stop: that is an error like others, and what it frees goes back.
//!
//! ```text
//!   RESERVE  |#####| free |##| free |########|.......................|
//!                 `──────────^                `─ end: nothing was here yet
//!            the list of blocks that came back, the last one first; empty again when all have
//! ```
//!
//! Its pages are those of a static variable: they take memory when they are written for the first time.

use crate::error::{Code, Error, Result};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

const BYTES: usize = 8 << 20;
/// Of a block; what wants more asks before (`try_reserve`).
const LARGEST: usize = BYTES / 4;
/// Blocks are multiples of it, and aligned to it.
const UNIT: usize = 16;
/// How many of the blocks that came back are looked at for one that is large enough.
const LOOKS: usize = 256;
/// What has to be there again before work goes on.
const ENOUGH: usize = 1 << 20;

#[global_allocator]
static MEMORY: Memory = Memory {
    reserve: Reserve::new(),
};

/// An error while the system refuses memory.
pub fn check() -> Result<()> {
    if MEMORY.reserve.blocks.load(Ordering::Relaxed) == 0 {
        return Ok(());
    }
    let layout = Layout::new::<[u8; ENOUGH]>();
    // SAFETY: the layout has a size. The compiler must not see that nobody uses the block, and leave it out.
    let probe = std::hint::black_box(unsafe { System.alloc(layout) });
    if probe.is_null() {
        return Err(Error::new(
            Code::OutOfMemory,
            "the system gives no more memory",
        ));
    }
    // SAFETY: of this layout, from above.
    unsafe { System.dealloc(probe, layout) };
    Ok(())
}

/// A list of so many, or an error: it may be larger than the blocks of the reserve.
pub fn list_of<T>(count: usize, element: impl FnMut() -> T) -> Result<Vec<T>> {
    let mut list = Vec::new();
    if list.try_reserve_exact(count).is_err() {
        return Err(none_for(count));
    }
    list.resize_with(count, element);
    Ok(list)
}

pub fn none_for(count: usize) -> Error {
    let message = format!("there is no memory for a list of {count}");
    Error::new(Code::OutOfMemory, message)
}

struct Memory {
    reserve: Reserve<BYTES>,
}

// SAFETY: blocks are the system's or the reserve's, which tells its own by their addresses.
unsafe impl GlobalAlloc for Memory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let block = System.alloc(layout);
        match block.is_null() {
            true => self.reserve.take(layout),
            false => block,
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let block = System.alloc_zeroed(layout);
        if !block.is_null() {
            return block;
        }
        let block = self.reserve.take(layout);
        if !block.is_null() {
            block.write_bytes(0, layout.size());
        }
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        match self.reserve.holds(block) {
            true => self.reserve.give_back(block, layout),
            false => System.dealloc(block, layout),
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !self.reserve.holds(block) {
            let moved = System.realloc(block, layout, size);
            if !moved.is_null() {
                return moved;
            }
        }
        let moved = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
        if !moved.is_null() {
            moved.copy_from_nonoverlapping(block, size.min(layout.size()));
            self.dealloc(block, layout);
        }
        moved
    }
}

/// A block that came back, in its first bytes.
struct Free {
    next: *mut Free,
    bytes: usize,
}

struct State {
    /// Offset of what was never given out since the reserve was empty.
    end: usize,
    free: *mut Free,
}

#[repr(align(16))]
struct Space<const N: usize>(UnsafeCell<[MaybeUninit<u8>; N]>);

struct Reserve<const N: usize> {
    space: Space<N>,
    state: Mutex<State>,
    /// That are in use.
    blocks: AtomicUsize,
}

// SAFETY: the space and the pointers into it are used under the lock, but for blocks that are given out.
unsafe impl<const N: usize> Sync for Reserve<N> {}

impl<const N: usize> Reserve<N> {
    const fn new() -> Reserve<N> {
        Reserve {
            space: Space(UnsafeCell::new([MaybeUninit::uninit(); N])),
            state: Mutex::new(State {
                end: 0,
                free: std::ptr::null_mut(),
            }),
            blocks: AtomicUsize::new(0),
        }
    }

    fn start(&self) -> *mut u8 {
        self.space.0.get().cast()
    }

    fn holds(&self, block: *mut u8) -> bool {
        (block as usize).wrapping_sub(self.start() as usize) < N
    }

    fn size(layout: Layout) -> usize {
        layout.size().max(1).next_multiple_of(UNIT)
    }

    /// NULL where none is left, or none so large.
    fn take(&self, layout: Layout) -> *mut u8 {
        if layout.size() > LARGEST.min(N) || layout.align() > UNIT {
            return std::ptr::null_mut();
        }
        let bytes = Self::size(layout);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut link: *mut *mut Free = &mut state.free;
        for _ in 0..LOOKS {
            // SAFETY: links lead to blocks that came back, each with its own beginning in it, to a NULL at the end.
            unsafe {
                let found = *link;
                if found.is_null() {
                    break;
                }
                if (*found).bytes < bytes {
                    link = &mut (*found).next;
                    continue;
                }
                let left = (*found).bytes - bytes;
                *link = (*found).next;
                if left > 0 {
                    let rest = found.cast::<u8>().add(bytes).cast::<Free>();
                    rest.write(Free {
                        next: *link,
                        bytes: left,
                    });
                    *link = rest;
                }
                self.blocks.fetch_add(1, Ordering::Relaxed);
                return found.cast();
            }
        }
        if N - state.end < bytes {
            return std::ptr::null_mut();
        }
        // SAFETY: inside of the space, as was just seen.
        let block = unsafe { self.start().add(state.end) };
        state.end += bytes;
        self.blocks.fetch_add(1, Ordering::Relaxed);
        block
    }

    /// SAFETY: the block was taken with this layout, and nobody uses it any more.
    unsafe fn give_back(&self, block: *mut u8, layout: Layout) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if self.blocks.fetch_sub(1, Ordering::Relaxed) == 1 {
            *state = State {
                end: 0,
                free: std::ptr::null_mut(),
            };
            return;
        }
        let free = block.cast::<Free>();
        free.write(Free {
            next: state.free,
            bytes: Self::size(layout),
        });
        state.free = free;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::random;

    fn layout(bytes: usize) -> Layout {
        Layout::from_size_align(bytes, 8).unwrap()
    }

    #[test]
    fn blocks_of_the_reserve_come_back() {
        let reserve = Box::new(Reserve::<4096>::new());
        let all: Vec<*mut u8> = (0..4).map(|_| reserve.take(layout(1000))).collect();
        assert!(all.iter().all(|block| reserve.holds(*block)));
        assert!(reserve.take(layout(100)).is_null(), "none is left");
        assert!(!reserve.take(layout(60)).is_null());
        for block in [all[1], all[2]] {
            unsafe { reserve.give_back(block, layout(1000)) };
        }
        assert_eq!(reserve.take(layout(1008)), all[2]);
        assert_eq!(reserve.take(layout(500)), all[1]);
        assert_eq!(reserve.take(layout(496)), unsafe { all[1].add(512) });
        assert!(reserve.take(layout(1)).is_null());
    }

    #[test]
    fn an_empty_reserve_is_whole_again() {
        let reserve = Box::new(Reserve::<4096>::new());
        for _ in 0..3 {
            let halves = [2048, 2048].map(|bytes| (reserve.take(layout(bytes)), layout(bytes)));
            assert!(reserve.take(layout(1)).is_null());
            for (block, layout) in halves {
                unsafe { reserve.give_back(block, layout) };
            }
            let whole = reserve.take(layout(4096));
            assert_eq!(whole, reserve.start());
            unsafe { reserve.give_back(whole, layout(4096)) };
        }
    }

    #[test]
    fn what_is_too_large_is_not_there() {
        let reserve = Box::new(Reserve::<4096>::new());
        assert!(reserve.take(layout(4097)).is_null());
        assert!(reserve.take(layout(usize::MAX / 4)).is_null());
        let aligned = Layout::from_size_align(64, 32).unwrap();
        assert!(reserve.take(aligned).is_null());
        assert!(!reserve.holds(std::ptr::null_mut()));
        assert!(!reserve.holds(unsafe { reserve.start().add(4096) }));
        assert!(!reserve.holds(reserve.start().wrapping_sub(1)));
    }

    #[test]
    fn what_grows_takes_along_what_it_holds() {
        let memory = Box::new(Memory {
            reserve: Reserve::new(),
        });
        let block = memory.reserve.take(layout(100));
        let other = memory.reserve.take(layout(16));
        unsafe {
            block.write_bytes(7, 100);
            let moved = memory.realloc(block, layout(100), 4000);
            assert!(!memory.reserve.holds(moved));
            let there = std::slice::from_raw_parts(moved, 100);
            assert!(there.iter().all(|byte| *byte == 7));
            memory.dealloc(moved, layout(4000));
        }
        assert_eq!(memory.reserve.take(layout(100)), block, "it came back");
        assert!(memory.reserve.holds(other));
    }

    /// Blocks keep what is written to them, whatever comes and goes beside them.
    #[test]
    fn blocks_do_not_overlap() {
        let reserve = Box::new(Reserve::<65536>::new());
        let mut random = random(1);
        let mut blocks: Vec<(*mut u8, usize, u8)> = Vec::new();
        for round in 0..20_000 {
            let bytes = 1 + random(2000) as usize;
            let block = match random(2) {
                0 => std::ptr::null_mut(),
                _ => reserve.take(layout(bytes)),
            };
            if !block.is_null() {
                assert_eq!(block as usize % UNIT, 0);
                unsafe { block.write_bytes(round as u8, bytes) };
                blocks.push((block, bytes, round as u8));
            } else if !blocks.is_empty() {
                let at = random(blocks.len() as u64) as usize;
                let (block, bytes, value) = blocks.swap_remove(at);
                let there = unsafe { std::slice::from_raw_parts(block, bytes) };
                assert!(there.iter().all(|byte| *byte == value), "round {round}");
                unsafe { reserve.give_back(block, layout(bytes)) };
            }
        }
    }
}
