//! Rules for what is generated, which libprefix asks for in threads of its own.

use super::library::{check, Library};
use crate::error::Result;
use crate::panics::quiet;
use crate::prefix_h::{self, prefix_constraint, prefix_constraint_calls, Sized32};
use std::ffi::c_void;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr::null_mut;
use std::sync::Arc;

/// What the rules are.
pub trait Constrains: Send + Sync {
    /// A text begins.
    fn begin(&self) -> Box<dyn Steps>;
}

/// A text while it is written. False: it ends, in error.
pub trait Steps: Send {
    /// Sets the bits of the tokens that may come next; none is set.
    fn allow(&mut self, mask: &mut [u32]) -> bool;
    fn accept(&mut self, token: i32) -> bool;
}

/// A reference to them in libprefix.
pub struct Constraint {
    handle: *mut prefix_constraint,
    library: Library,
}

// SAFETY: as for Engine.
unsafe impl Send for Constraint {}
unsafe impl Sync for Constraint {}

/// What libprefix has of the rules, and of a text.
type User = Arc<dyn Constrains>;
type State = Box<dyn Steps>;

impl Constraint {
    pub(super) fn new(library: Library, rules: User) -> Result<Constraint> {
        let calls = prefix_constraint_calls {
            begin: Some(begin),
            allow: Some(allow),
            accept: Some(accept),
            end: Some(end),
            release: Some(release),
            ..prefix_constraint_calls::sized()
        };
        let user: *mut User = Box::into_raw(Box::new(rules));
        let mut handle = null_mut();
        let create = library.prefix_constraint_create;
        let made = check(|err| unsafe { create(&calls, user.cast(), &mut handle, err) });
        if made.is_err() {
            // SAFETY: what fails releases nothing.
            drop(unsafe { Box::from_raw(user) });
        }
        made.map(|()| Constraint { handle, library })
    }

    pub(super) fn handle(&self) -> *mut prefix_constraint {
        self.handle
    }
}

impl Drop for Constraint {
    fn drop(&mut self) {
        unsafe { (self.library.prefix_constraint_release)(self.handle) }
    }
}

/// The status of a call, which must not unwind into libprefix.
fn status(body: impl FnOnce() -> bool) -> i32 {
    match catch_unwind(AssertUnwindSafe(|| quiet(body))) {
        Ok(true) => prefix_h::PREFIX_OK,
        Ok(false) => 1,
        Err(cause) => {
            std::mem::forget(cause); // dropping it may panic in theory
            2
        }
    }
}

// SAFETY of all of them: `user` is that of Constraint::new, a state is one that begin gave, and each is used by one
// thread at a time until it is given back, once.

unsafe extern "C" fn begin(user: *mut c_void, state: *mut *mut c_void) -> i32 {
    let user = unsafe { &*user.cast::<User>() };
    status(|| {
        let new: *mut State = Box::into_raw(Box::new(user.begin()));
        unsafe { state.write(new.cast()) };
        true
    })
}

unsafe extern "C" fn allow(state: *mut c_void, mask: *mut u32, words: usize) -> i32 {
    let state = unsafe { &mut *state.cast::<State>() };
    let mask = unsafe { std::slice::from_raw_parts_mut(mask, words) };
    status(|| state.allow(mask))
}

unsafe extern "C" fn accept(state: *mut c_void, token: i32) -> i32 {
    let state = unsafe { &mut *state.cast::<State>() };
    status(|| state.accept(token))
}

unsafe extern "C" fn end(state: *mut c_void) {
    let state = unsafe { Box::from_raw(state.cast::<State>()) };
    status(|| {
        drop(state);
        true
    });
}

unsafe extern "C" fn release(user: *mut c_void) {
    let user = unsafe { Box::from_raw(user.cast::<User>()) };
    status(|| {
        drop(user);
        true
    });
}
