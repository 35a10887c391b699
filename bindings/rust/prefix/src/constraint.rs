//! Which tokens may come next in a generation, as other code decides it.

use std::ffi::c_void;

use prefix_sys as sys;
use prefix_sys::Init;

use crate::error::Result;
use crate::raw::{caught, Handle};
use crate::{library, Token};

/// What the library is told of a panic.
const PANICKED: i32 = -1;

/// The tokens that may come next: none of them at first.
#[derive(Debug)]
pub struct TokenMask<'a>(&'a mut [u32]);

impl TokenMask<'_> {
    /// Lets a token come.
    ///
    /// # Panics
    /// For what is no token of the model.
    pub fn allow(&mut self, token: Token) {
        let words = self.0.len();
        match usize::try_from(token).map(|bit| (self.0.get_mut(bit / 32), bit % 32)) {
            Ok((Some(word), bit)) => *word |= 1 << bit,
            _ => panic!("token {token} is outside [0, {})", 32 * words),
        }
    }

    /// All of them: token i is bit i % 32 of word i / 32.
    pub fn words(&mut self) -> &mut [u32] {
        self.0
    }
}

/// One generation that is constrained. The calls come from threads of the library, one at a time, and the step of all
/// requests that run waits for them. They may call nothing of this crate, nor drop what is of it: some come under
/// locks of the engine.
///
/// `Err` of any number ends the request with [`Status::InvalidArgument`](crate::Status::InvalidArgument) and a
/// sentence that has the number; so does a panic, whose number is -1.
pub trait ConstraintState: Send {
    /// Says which tokens may come next. Where the text may end here, the model's end tokens are among them; with none
    /// the request ends.
    fn allow(&mut self, mask: &mut TokenMask<'_>) -> std::result::Result<(), i32>;

    /// The generation goes on behind this token; not called for the last one.
    fn accept(&mut self, token: Token) -> std::result::Result<(), i32>;
}

/// Which tokens may come next, for any number of generations: [`Batch::constrain`](crate::Batch::constrain).
///
/// ```no_run
/// use prefix::{Constraint, ConstraintState, Token, TokenMask};
///
/// /// Only even tokens.
/// struct Even;
///
/// impl ConstraintState for Even {
///     fn allow(&mut self, mask: &mut TokenMask<'_>) -> Result<(), i32> {
///         mask.words().fill(0x5555_5555);
///         Ok(())
///     }
///     fn accept(&mut self, _: Token) -> Result<(), i32> {
///         Ok(())
///     }
/// }
///
/// # fn main() -> prefix::Result<()> {
/// let engine = prefix::Engine::open("model.gguf")?;
/// let mut batch = engine.batch()?;
/// let request = batch.add(prefix::Request::generate(&[1, 5, 9]))?;
/// batch.constrain(request, Some(&Constraint::new(|| Even)?))?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Constraint {
    handle: Handle<sys::prefix_constraint>,
}

// Safety: the header lets any thread give a constraint to batches at any time.
unsafe impl Sync for Constraint {}

impl Constraint {
    /// `begin` gives the state of a new generation; several threads may call it at once. A panic of it ends the request
    /// as one of the state does. Batches and jobs that have the constraint keep it.
    pub fn new<State, Begin>(begin: Begin) -> Result<Constraint>
    where
        State: ConstraintState + 'static,
        Begin: Fn() -> State + Send + Sync + 'static,
    {
        library::ready()?;
        let mut calls = sys::prefix_constraint_calls::init();
        calls.begin = Some(begin_state::<State, Begin>);
        calls.allow = Some(allow::<State>);
        calls.accept = Some(accept::<State>);
        calls.end = Some(end::<State>);
        calls.release = Some(release::<Begin>);
        let user = Box::into_raw(Box::new(begin)).cast();
        // Safety: `user` is what the functions take it for, and lives until `release`.
        match Handle::create(|out, err| unsafe {
            sys::prefix_constraint_create(&calls, user, out, err)
        }) {
            Ok(handle) => Ok(Constraint { handle }),
            Err(error) => {
                // Safety: there is no constraint that would release it.
                unsafe { release::<Begin>(user) };
                Err(error)
            }
        }
    }

    pub(crate) fn raw(&self) -> *mut sys::prefix_constraint {
        self.handle.get()
    }
}

/// No panic goes through C.
fn guarded(function: impl FnOnce() -> std::result::Result<(), i32>) -> i32 {
    match caught(function) {
        Some(Ok(())) => 0,
        Some(Err(0)) | None => PANICKED, // 0 would be none
        Some(Err(number)) => number,
    }
}

// Safety, for all: `user` is a box of Begin and `state` one of State, made here and given back by end and release alone;
// the library calls for a state one at a time.

unsafe extern "C" fn begin_state<State: ConstraintState, Begin: Fn() -> State>(
    user: *mut c_void,
    state: *mut *mut c_void,
) -> i32 {
    guarded(|| {
        let begin = unsafe { &*user.cast::<Begin>() };
        unsafe { *state = Box::into_raw(Box::new(begin())).cast() };
        Ok(())
    })
}

unsafe extern "C" fn allow<State: ConstraintState>(
    state: *mut c_void,
    mask: *mut u32,
    words: usize,
) -> i32 {
    guarded(|| {
        let mask = unsafe { std::slice::from_raw_parts_mut(mask, words) };
        unsafe { &mut *state.cast::<State>() }.allow(&mut TokenMask(mask))
    })
}

unsafe extern "C" fn accept<State: ConstraintState>(state: *mut c_void, token: Token) -> i32 {
    guarded(|| unsafe { &mut *state.cast::<State>() }.accept(token))
}

unsafe extern "C" fn end<State: ConstraintState>(state: *mut c_void) {
    guarded(|| {
        drop(unsafe { Box::from_raw(state.cast::<State>()) });
        Ok(())
    });
}

unsafe extern "C" fn release<Begin>(user: *mut c_void) {
    guarded(|| {
        drop(unsafe { Box::from_raw(user.cast::<Begin>()) });
        Ok(())
    });
}
