//! What it costs to look at a value, to copy it and to keep it. A template is charged before it is done.

use super::budget;
use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, Value};

/// Most elements of a list that is put together.
pub const MAX_ELEMENTS: usize = 1 << 20;

/// What it costs to look at one value.
const VISIT: u64 = 4;

/// A value that the template has built: refused when it is too deep or too large. A namespace may
/// not become part of another value, for then a value could contain itself.
pub fn keep(value: &Value) -> Result<Value, Error> {
    walk(value, 0)?;
    Ok(value.clone())
}

/// A value that becomes an attribute of an object.
pub fn assigned(value: &Value, _object: &Value) -> Result<Value, Error> {
    keep(value)
}

/// Whether it is an object of the engine of this kind.
pub fn is_a(value: &Value, kind: &str) -> bool {
    value
        .as_object()
        .is_some_and(|o| o.type_name().rsplit("::").next() == Some(kind))
}

fn walk(value: &Value, level: usize) -> Result<(), Error> {
    budget::depth(level)?;
    budget::spend(VISIT)?;
    match value.kind() {
        // Iterables too: they may hold a value as deep as any other.
        ValueKind::Seq | ValueKind::Iterable => {
            for item in value.try_iter()? {
                walk(&item, level + 1)?;
            }
        }
        ValueKind::Map => {
            if is_a(value, "Namespace") {
                return Err(Error::new(
                    ErrorKind::InvalidOperation,
                    "a namespace cannot be put into another value",
                ));
            }
            for key in value.try_iter()? {
                // To look a key up is to read it.
                budget::spend(key.as_str().map_or(0, |text| text.len() as u64 / 16))?;
                walk(&key, level + 1)?;
                walk(&value.get_item(&key)?, level + 1)?;
            }
        }
        // It has a map, or values, that nobody would see in it.
        ValueKind::Plain if level > 0 && (is_a(value, "Method") || is_a(value, "Cycler")) => {
            return Err(Error::new(
                ErrorKind::InvalidOperation,
                "a method or cycler cannot be put into another value",
            ));
        }
        // The texts themselves are shared, not copied.
        _ => {}
    }
    Ok(())
}

/// A value that an instruction is about to look into: a text has to be searched, a list has not.
pub fn scan(value: &Value) -> Result<Value, Error> {
    budget::spend(value.as_str().map_or(0, |text| text.len() as u64 / 16) + 1)?;
    Ok(value.clone())
}

/// A value that is about to be compared, to its full depth.
pub fn compared(value: &Value) -> Result<Value, Error> {
    budget::spend(weigh(value)?)?;
    Ok(value.clone())
}

/// What it costs to go through a value: its values and a sixteenth of the bytes of its texts.
pub fn weigh(value: &Value) -> Result<u64, Error> {
    fn add(value: &Value, level: usize, total: &mut u64) -> Result<(), Error> {
        budget::depth(level)?;
        *total += VISIT + value.as_str().map_or(0, |text| text.len() as u64 / 16);
        if *total > budget::UNITS {
            return Err(budget::too_much(format!(
                "values of more than {} parts",
                budget::UNITS
            )));
        }
        match value.kind() {
            ValueKind::Seq | ValueKind::Iterable => {
                for item in value.try_iter()? {
                    add(&item, level + 1, total)?;
                }
            }
            ValueKind::Map => {
                for key in value.try_iter()? {
                    add(&key, level + 1, total)?;
                    add(&value.get_item(&key)?, level + 1, total)?;
                }
            }
            _ => {}
        }
        Ok(())
    }
    let mut total = 0;
    add(value, 0, &mut total)?;
    Ok(total)
}

/// Charges a list of `count` elements that is about to be made.
pub fn copied(count: usize) -> Result<(), Error> {
    if count > MAX_ELEMENTS {
        return Err(budget::too_much(format!(
            "a list of more than {MAX_ELEMENTS} elements"
        )));
    }
    budget::spend(count as u64 * 16)
}
