//! What one rendering may use. Templates come with models and are untrusted: a few lines can ask
//! for terabytes. The engine's fuel bounds the number of instructions; this bounds what a single
//! instruction may do, by counting bytes produced and values visited.

use minijinja::{Error, ErrorKind};
use std::cell::Cell;

/// Instructions of one rendering.
pub const FUEL: u64 = 5_000_000;
/// Bytes produced and values visited in one rendering.
pub const UNITS: u64 = 128 << 20;
/// Bytes of one rendered text, or of any text on the way to it.
pub const OUTPUT: usize = 16 << 20;
/// Nesting of values.
pub const DEPTH: usize = 64;
/// Nesting of macro calls and the like.
pub const RECURSION: usize = 100;

/// Begins the message of every error that says that a limit was passed.
pub const TOO_MUCH: &str = "the template makes ";
/// Begins the message of the error that says that there is no memory.
pub const NO_ROOM: &str = "there is no memory for the template: ";
/// Each time so many more units are used, there has to be memory for them: at most ROOM bytes for one.
const STEP: u64 = 8 << 20;
const ROOM: u64 = 8;

/// What renderings may use together.
#[derive(Clone, Copy)]
pub struct Allowance {
    pub fuel: u64,
    pub units: u64,
}

impl Allowance {
    pub const ONE: Allowance = Allowance {
        fuel: FUEL,
        units: UNITS,
    };
    /// To find where turns end, a conversation is rendered once per message. This is enough for some
    /// thousand messages of a kilobyte.
    pub const TURNS: Allowance = Allowance {
        fuel: 40 * FUEL,
        units: 20 * UNITS,
    };

    /// What the next rendering may use of it.
    pub fn next(&self) -> Allowance {
        Allowance {
            fuel: self.fuel.min(FUEL),
            units: self.units.min(UNITS),
        }
    }
}

thread_local! {
    static LEFT: Cell<u64> = const { Cell::new(0) };
    /// Down to here there was memory when it was looked for. What is refunded and spent again is not looked for again.
    static ROOM_TO: Cell<u64> = const { Cell::new(0) };
}

/// The rendering that begins on this thread may use so many units.
pub fn begin(units: u64) {
    LEFT.set(units);
    ROOM_TO.set(units);
}

/// Units that it has not used.
pub fn left() -> u64 {
    LEFT.get()
}

pub fn spend(units: u64) -> Result<(), Error> {
    match LEFT.get().checked_sub(units) {
        Some(left) => {
            if left < ROOM_TO.get() || units >= STEP {
                room((units + STEP) * ROOM)?;
                ROOM_TO.set(left.saturating_sub(STEP).min(ROOM_TO.get()));
            }
            LEFT.set(left);
            Ok(())
        }
        None => {
            LEFT.set(0);
            Err(too_much(format!("more than {UNITS} units of work")))
        }
    }
}

/// The engine allocates as it likes, and an allocation that fails ends the process.
pub fn room(bytes: u64) -> Result<(), Error> {
    if Vec::<u8>::new().try_reserve_exact(bytes as usize).is_ok() {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::InvalidOperation,
        format!("{NO_ROOM}it may need {bytes} bytes more"),
    ))
}

/// Gives back what was charged for a text that grows in place.
pub fn refund(bytes: usize) -> Result<(), Error> {
    LEFT.set(LEFT.get() + bytes as u64);
    Ok(())
}

/// Charges a text that is about to be made.
pub fn text(bytes: usize) -> Result<(), Error> {
    if bytes > OUTPUT {
        return Err(too_much(format!(
            "a text of {bytes} bytes; the limit is {OUTPUT}"
        )));
    }
    spend(bytes as u64)
}

/// Appends to a text that grows, within the budget.
pub fn push(out: &mut String, separator: &str, piece: &str) -> Result<(), Error> {
    text(out.len() + separator.len() + piece.len()).and(refund(out.len()))?;
    out.push_str(separator);
    out.push_str(piece);
    Ok(())
}

pub fn depth(level: usize) -> Result<(), Error> {
    if level > DEPTH {
        return Err(too_much(format!("values nested deeper than {DEPTH}")));
    }
    Ok(())
}

pub fn too_much(what: String) -> Error {
    Error::new(
        ErrorKind::InvalidOperation,
        format!("the template makes {what}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_nested_so_deep_and_no_deeper() {
        assert!(depth(64).is_ok());
        let error = depth(65).unwrap_err();
        assert!(
            error.detail().unwrap().contains("deeper than 64"),
            "{error}"
        );
    }

    #[test]
    fn a_text_is_as_long_as_the_output_and_no_longer() {
        begin(2 * OUTPUT as u64);
        assert!(text(OUTPUT).is_ok());
        let error = text(OUTPUT + 1).unwrap_err();
        let says = format!("a text of {} bytes; the limit is {OUTPUT}", OUTPUT + 1);
        assert!(error.detail().unwrap().contains(&says), "{error}");
        assert_eq!(left(), OUTPUT as u64, "it was not charged");
    }

    #[test]
    fn memory_that_is_not_there_is_an_error() {
        assert!(room(1 << 20).is_ok());
        assert!(room(1 << 62)
            .unwrap_err()
            .detail()
            .unwrap()
            .starts_with(NO_ROOM));
    }
}
