//! What one call into the tokenizers crate may use. All of it follows from the length of the text.
//!
//! Three things are limited: the bytes that the text has on its way (a normalizer may replace a space
//! by a book), the memory of a step, and the processor time between steps. The crate allocates as it
//! likes, and an allocation that fails ends the process; so each step asks for `room` first, for its
//! worst case, and gets a status where that is not there.

use crate::error::{Code, Error, Result};
use crate::panics::{panic_text, quiet};
use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A text may become this many times as long, and SLACK bytes more. NFKC makes 11 bytes of one, a
/// space that is written as U+2581 has 3, and byte-level spelling doubles what is beyond ASCII.
pub const GROWTH: usize = 32;
pub const SLACK: usize = 64 << 10;
/// Processor time of a call, as a multiple of what honest tokenizers take.
const TIME: Duration = Duration::from_secs(2);
const TIME_PER_BYTE: Duration = Duration::from_micros(20);
/// Room that every call asks for.
const LEAST_ROOM: usize = 1 << 20;

/// Begins the message of every error that says that a limit was passed.
pub const TOO_MUCH: &str = "the tokenizer makes too much of ";

struct Meter {
    text: usize,
    until: Duration,
    /// Bytes that normalizers have given.
    normalized: usize,
    room: usize,
    ticks: usize,
    regexes: usize,
    /// The first error. The crate drops those of normalizers.
    error: Option<Error>,
}

thread_local! {
    /// `Running` takes out what is in it. A value that the thread would have to drop at its end is announced to the C
    /// library, which ends the process where it has no memory for that.
    static METER: RefCell<ManuallyDrop<Option<Meter>>> =
        const { RefCell::new(ManuallyDrop::new(None)) };
}

/// What the calls of all threads have asked for together.
static ASKED: AtomicUsize = AtomicUsize::new(0);

/// Processor time of this thread, which a busy machine does not lengthen.
fn processor_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a local.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn with<T>(body: impl FnOnce(&mut Meter) -> T) -> Option<T> {
    METER.with_borrow_mut(|meter| meter.as_mut().map(body))
}

/// Longest form of a text of so many bytes.
fn most(text: usize) -> usize {
    text.saturating_mul(GROWTH).saturating_add(SLACK)
}

/// Ends the metering also when the body panics.
struct Running;

impl Drop for Running {
    fn drop(&mut self) {
        METER.with_borrow_mut(|meter| {
            if let Some(meter) = meter.take() {
                ASKED.fetch_sub(meter.room, Ordering::Relaxed);
            }
        });
    }
}

/// Processor time for a text of so many bytes.
fn time(text: usize) -> Duration {
    TIME + TIME_PER_BYTE * u32::try_from(text).unwrap_or(u32::MAX)
}

/// Runs the crate on a text of so many bytes. Its errors and panics come from the file: what parses
/// may still not fit together.
pub fn run<T>(text: usize, body: impl FnOnce() -> tokenizers::Result<T>) -> Result<T> {
    run_for(time(text), text, body)
}

fn run_for<T>(
    time: Duration,
    text: usize,
    body: impl FnOnce() -> tokenizers::Result<T>,
) -> Result<T> {
    METER.set(ManuallyDrop::new(Some(Meter {
        text,
        until: processor_time() + time,
        normalized: 0,
        room: 0,
        ticks: 0,
        regexes: 0,
        error: None,
    })));
    let running = Running;
    let result = catch_unwind(AssertUnwindSafe(|| {
        quiet(|| {
            room(LEAST_ROOM)?;
            body()
        })
    }));
    let first = with(|meter| meter.error.take()).flatten();
    drop(running);
    match (first, result) {
        (Some(error), _) => Err(error),
        (None, Ok(Ok(value))) => Ok(value),
        (None, Ok(Err(error))) => Err(own(error)),
        (None, Err(cause)) => Err(does_not_work(panic_text(&*cause))),
    }
}

/// An error that came through the crate.
pub fn own(error: tokenizers::Error) -> Error {
    match error.downcast::<Error>() {
        Ok(own) => *own,
        Err(other) => does_not_work(&other.to_string()),
    }
}

/// What opening a file needs too much of is the file's fault; what this machine lacks is not.
pub fn when_opened(error: Error) -> Error {
    match error.code {
        Code::OutOfRange => Error::format(error.message),
        _ => error,
    }
}

fn does_not_work(why: &str) -> Error {
    Error::format(format!("the tokenizer does not work: {why}"))
}

/// Keeps the first error: the crate does not hand on those of normalizers.
fn fail<T>(error: Error) -> Result<T> {
    with(|meter| meter.error.get_or_insert_with(|| error.clone()).clone());
    Err(error)
}

/// Whether an earlier step of this call has failed.
pub fn check() -> Result<()> {
    match with(|meter| meter.error.clone()).flatten() {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// Fails when there is no memory for so many bytes more, beside what other threads have asked for.
pub fn room(bytes: usize) -> Result<()> {
    let had = with(|meter| meter.room).unwrap_or(0);
    if bytes <= had {
        return Ok(());
    }
    let all = ASKED.fetch_add(bytes - had, Ordering::Relaxed) + (bytes - had);
    let in_meter = with(|meter| meter.room = bytes).is_some();
    let there = Vec::<u8>::new().try_reserve_exact(all).is_ok();
    if !in_meter {
        ASKED.fetch_sub(bytes - had, Ordering::Relaxed);
    }
    if there {
        return Ok(());
    }
    fail(Error::new(
        Code::OutOfMemory,
        format!("there is no memory for {bytes} bytes, which this may need"),
    ))
}

/// A text of `bytes` bytes on its way through the tokenizer.
pub fn length(bytes: usize) -> Result<()> {
    let text = with(|meter| meter.text).unwrap_or(bytes);
    if bytes <= most(text) {
        return Ok(());
    }
    fail(Error::range(format!(
        "{TOO_MUCH}{text} bytes of text: more than {} bytes, the limit",
        most(text)
    )))
}

/// What a normalizer has given, besides what it gave before in this call.
pub fn normalized(bytes: usize) -> Result<()> {
    let all = with(|meter| {
        meter.normalized = meter.normalized.saturating_add(bytes);
        meter.normalized
    });
    length(all.unwrap_or(0))
}

/// One more step. Looks at the clock now and then, at once where the step is a long one.
pub fn tick(bytes: usize) -> Result<()> {
    const OFTEN: usize = 4096;
    let late = with(|meter| {
        meter.ticks += 64 + bytes;
        if meter.ticks < OFTEN {
            return None;
        }
        meter.ticks = 0;
        (processor_time() > meter.until).then_some(meter.text)
    });
    match late.flatten() {
        None => Ok(()),
        Some(text) => fail(Error::range(format!(
            "{TOO_MUCH}{text} bytes of text: it takes more than {:?} of processor time, the limit",
            time(text)
        ))),
    }
}

/// A step on this text would take so many operations at worst, each some nanoseconds.
pub fn work(operations: u128, what: impl FnOnce() -> String) -> Result<()> {
    const MOST: u128 = 4 << 30;
    if operations <= MOST {
        return Ok(());
    }
    fail(Error::range(format!("{TOO_MUCH}{}", what())))
}

/// A search that is too hard.
pub fn gave_up(why: String) -> Error {
    let error = Error::range(format!("{TOO_MUCH}a text: {why}"));
    with(|meter| meter.error.get_or_insert_with(|| error.clone()).clone());
    error
}

/// One more regex of a file.
pub fn regexes(size: usize, most: usize) -> Result<()> {
    let all = with(|meter| {
        meter.regexes = meter.regexes.saturating_add(size);
        meter.regexes
    });
    match all.filter(|all| *all > most) {
        None => Ok(()),
        Some(all) => Err(Error::format(format!(
            "regexes of {all} parts together with their repetitions written out; the limit is {most}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_the_text_decides() {
        let limit = 10 * GROWTH + SLACK;
        assert!(run(10, || Ok(length(limit)?)).is_ok());
        let error = run(10, || Ok(length(limit + 1)?)).unwrap_err();
        assert_eq!(error.code, Code::OutOfRange);
        assert!(error.message.contains(&limit.to_string()), "{error}");
        // Pieces of one text count together.
        let parts = || {
            normalized(limit)?;
            Ok(normalized(1)?)
        };
        assert_eq!(run(10, parts).unwrap_err().code, Code::OutOfRange);
    }

    #[test]
    fn an_error_that_the_crate_drops_is_not_lost() {
        let result = run(0, || {
            let _ = length(SLACK + 1);
            assert!(check().is_err());
            Ok(())
        });
        assert_eq!(result.unwrap_err().code, Code::OutOfRange);
        assert!(run(0, || Ok(check()?)).is_ok());
    }

    #[test]
    fn a_call_that_takes_too_long_ends() {
        let long = || Ok(tick(1 << 20)?);
        assert_eq!(
            run_for(Duration::ZERO, 7, long).unwrap_err().code,
            Code::OutOfRange
        );
        assert!(run(7, long).is_ok());
        // Many short steps are a long one.
        let short = || Ok((0..1000).try_for_each(|_| tick(0))?);
        assert!(run_for(Duration::ZERO, 7, short).is_err());
        assert!(time(1 << 20) > time(0));
    }

    #[test]
    fn memory_that_is_not_there_is_a_status() {
        let error = run(0, || Ok(room(1 << 62)?)).unwrap_err();
        assert_eq!(error.code, Code::OutOfMemory);
        assert_eq!(ASKED.load(Ordering::Relaxed) >> 40, 0);
    }

    #[test]
    fn panics_and_errors_of_the_crate_are_the_file_s_fault() {
        assert_eq!(
            run(0, || -> tokenizers::Result<()> { panic!("x") })
                .unwrap_err()
                .code,
            Code::Format
        );
        assert_eq!(
            run(0, || -> tokenizers::Result<()> { Err("x".into()) })
                .unwrap_err()
                .code,
            Code::Format
        );
    }
}
