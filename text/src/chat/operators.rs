//! The operators of a template: what Python does, charged to the budget before it is done.

use super::format::percent;
use super::meter::{copied, keep, scan, MAX_ELEMENTS};
use super::show::text_of;
use super::{budget, markup};
use minijinja::value::{Tuple, ValueKind};
use minijinja::{Error, ErrorKind, Value};

pub fn concat(left: &Value, right: &Value) -> Result<Value, Error> {
    if let (Some(a), Some(b)) = (left.as_str(), right.as_str()) {
        budget::text(a.len() + b.len())?;
        return Ok(Value::from([a, b].concat()));
    }
    let (a, b) = (text_of(left)?, text_of(right)?);
    budget::text(a.len() + b.len())?;
    Ok(Value::from(a + &b))
}

fn is_list(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable)
}

/// The elements of a list, charged as many times as they will be copied.
fn elements(value: &Value, times: usize) -> Result<Vec<Value>, Error> {
    let count = value.len().unwrap_or(MAX_ELEMENTS + 1);
    copied(count.saturating_mul(times))?;
    Ok(value.try_iter()?.collect())
}

fn list(elements: Vec<Value>, is_tuple: bool) -> Value {
    match is_tuple {
        true => Value::from(Tuple::from(elements)),
        false => Value::from(elements),
    }
}

fn number(value: i128) -> Value {
    i64::try_from(value).map_or_else(|_| Value::from(value), Value::from)
}

/// An operation on two numbers: exact on integers, otherwise on floats.
fn arithmetic(
    name: &str,
    left: &Value,
    right: &Value,
    exact: fn(i128, i128) -> Option<i128>,
    float: fn(f64, f64) -> f64,
) -> Result<Value, Error> {
    let is_number = |v: &Value| matches!(v.kind(), ValueKind::Number | ValueKind::Bool);
    if !is_number(left) || !is_number(right) {
        return Err(Error::new(
            ErrorKind::InvalidOperation,
            format!(
                "unsupported operands for {name}: {} and {}",
                left.kind(),
                right.kind()
            ),
        ));
    }
    let whole = |v: &Value| v.is_integer() || v.kind() == ValueKind::Bool;
    if whole(left) && whole(right) {
        let (a, b) = (
            i128::try_from(left.clone())?,
            i128::try_from(right.clone())?,
        );
        return exact(a, b)
            .map(number)
            .ok_or_else(|| Error::new(ErrorKind::InvalidOperation, format!("{name} overflows")));
    }
    let (a, b) = (f64::try_from(left.clone())?, f64::try_from(right.clone())?);
    Ok(Value::from(float(a, b)))
}

pub fn add(left: &Value, right: &Value) -> Result<Value, Error> {
    if let (Some(a), Some(b)) = (left.as_str(), right.as_str()) {
        if left.is_safe() || right.is_safe() {
            return markup::add(left, right);
        }
        budget::text(a.len() + b.len())?;
        return Ok(Value::from([a, b].concat()));
    }
    if is_list(left) && is_list(right) {
        let mut all = elements(left, 1)?;
        all.extend(elements(right, 1)?);
        if all.len() > MAX_ELEMENTS {
            return Err(budget::too_much(format!(
                "a list of more than {MAX_ELEMENTS} elements"
            )));
        }
        return keep(&list(all, left.is_tuple() && right.is_tuple()));
    }
    arithmetic("+", left, right, i128::checked_add, |a, b| a + b)
}

pub fn multiply(left: &Value, right: &Value) -> Result<Value, Error> {
    let (repeated, count) = if left.as_str().is_some() || is_list(left) {
        (left, right)
    } else {
        (right, left)
    };
    if repeated.as_str().is_none() && !is_list(repeated) {
        return arithmetic("*", left, right, i128::checked_mul, |a, b| a * b);
    }
    // A negative count gives nothing.
    let count = i64::try_from(count.clone())?.max(0) as usize;
    if let Some(text) = repeated.as_str() {
        budget::text(text.len().saturating_mul(count))?;
        return Ok(markup::like(repeated, text.repeat(count)));
    }
    let once = elements(repeated, count.max(1))?;
    let mut all = Vec::with_capacity(once.len() * count);
    for _ in 0..count {
        all.extend_from_slice(&once);
    }
    keep(&list(all, repeated.is_tuple()))
}

/// `left % right`: texts are formats.
pub fn remainder(left: &Value, right: &Value) -> Result<Value, Error> {
    if let Some(format) = left.as_str() {
        return percent(format, right);
    }
    if f64::try_from(right.clone()).is_ok_and(|n| n == 0.0) {
        return Err(Error::new(ErrorKind::InvalidOperation, "division by zero"));
    }
    // The sign of the result is that of the divisor.
    let exact = |a: i128, b: i128| {
        let rest = a.checked_rem(b)?;
        Some(if rest != 0 && (rest < 0) != (b < 0) {
            rest + b
        } else {
            rest
        })
    };
    let float = |a: f64, b: f64| {
        let rest = a % b;
        if rest == 0.0 {
            0.0f64.copysign(b)
        } else if (rest < 0.0) != (b < 0.0) {
            rest + b
        } else {
            rest
        }
    };
    arithmetic("%", left, right, exact, float)
}

/// What a loop goes through. Each step counts as instructions. A text is a list of its characters: of
/// the text itself the engine does not know the length, and so no last one.
pub fn each(value: &Value) -> Result<Value, Error> {
    if value.is_none() {
        return Err(Error::new(
            ErrorKind::InvalidOperation,
            "none is not iterable",
        ));
    }
    if let Some(text) = value.as_str() {
        copied(text.chars().count())?;
        return Ok(text.chars().map(|c| Value::from(c.to_string())).collect());
    }
    scan(value)
}
