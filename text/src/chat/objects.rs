//! Objects of Python and of Jinja that show as more than what is in them.

use super::budget;
use super::meter::copied;
use minijinja::value::{Enumerator, Object, ObjectRepr};
use minijinja::{Error, ErrorKind, Value};
use std::fmt::{Display, Formatter, Result as Shown};
use std::sync::Arc;

/// Most numbers of a range, as in Jinja's sandbox.
const MAX_NUMBERS: i128 = 100_000;

/// The numbers from the first on, up to the last and without it.
#[derive(Debug)]
pub struct Range {
    first: i64,
    last: i64,
    step: i64,
    count: usize,
}

impl Range {
    pub fn len(&self) -> usize {
        self.count
    }

    /// Its numbers at `count` places, from `from` on up to `to`; None where these are beyond 64 bits.
    pub fn part(&self, from: i64, to: i64, step: i64, count: usize) -> Option<Value> {
        let number = |place: i64| place.checked_mul(self.step)?.checked_add(self.first);
        Some(Value::from_object(Range {
            first: number(from)?,
            last: number(to)?,
            step: self.step.checked_mul(step)?,
            count,
        }))
    }
}

impl Object for Range {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let at = key.as_usize().filter(|at| *at < self.count)?;
        // No number of the range is beyond 64 bits, though its distance to the first may be.
        let way = (at as i64).wrapping_mul(self.step);
        Some(Value::from(self.first.wrapping_add(way)))
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.count)
    }

    fn render(self: &Arc<Self>, f: &mut Formatter<'_>) -> Shown {
        write!(f, "range({}, {}", self.first, self.last)?;
        if self.step != 1 {
            write!(f, ", {}", self.step)?;
        }
        f.write_str(")")
    }
}

pub fn range(first: i64, second: Option<i64>, step: Option<i64>) -> Result<Value, Error> {
    let (first, last) = second.map_or((0, first), |second| (first, second));
    let step = step.unwrap_or(1);
    if step == 0 {
        return Err(Error::new(
            ErrorKind::InvalidOperation,
            "range() step must not be zero",
        ));
    }
    let (low, high) = if step > 0 {
        (first, last)
    } else {
        (last, first)
    };
    let span = i128::from(high) - i128::from(low);
    let size = i128::from(step).abs();
    let count = if span > 0 {
        (span + size - 1) / size
    } else {
        0
    };
    if count > MAX_NUMBERS {
        return Err(budget::too_much(format!(
            "a range of {count} numbers; the limit is {MAX_NUMBERS}"
        )));
    }
    let count = count as usize;
    copied(count)?;
    Ok(Value::from_object(Range {
        first,
        last,
        step,
        count,
    }))
}

/// What a filter like `select` gives: a list, but true also where it is empty, since to Python it is a
/// generator that nobody has looked into.
#[derive(Debug)]
pub struct Generated(Vec<Value>);

impl Generated {
    pub fn value(elements: Vec<Value>) -> Value {
        Value::from_object(Generated(elements))
    }
}

impl Object for Generated {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.0.get(key.as_usize()?).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.0.len())
    }

    fn is_true(self: &Arc<Self>) -> bool {
        true
    }
}

/// `self`, by which templates reach their blocks. There are none in a template of one file.
#[derive(Debug)]
struct TemplateReference;

impl Object for TemplateReference {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn render(self: &Arc<Self>, f: &mut Formatter<'_>) -> Shown {
        "<TemplateReference None>".fmt(f)
    }
}

pub fn template_reference() -> Value {
    Value::from_object(TemplateReference)
}
