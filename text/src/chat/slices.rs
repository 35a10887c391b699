//! `value[start:stop:step]` of Python.

use super::budget;
use super::markup::like;
use super::objects::Range;
use minijinja::value::{Tuple, ValueKind};
use minijinja::{Error, ErrorKind, Value};

fn invalid(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, what.into())
}

/// `value[start:stop:step]`.
pub fn slice(value: &Value, start: &Value, stop: &Value, step: &Value) -> Result<Value, Error> {
    let bound = |v: &Value| -> Result<Option<i64>, Error> {
        if v.is_none() {
            return Ok(None);
        }
        i64::try_from(v.clone()).map(Some)
    };
    let (start, stop) = (bound(start)?, bound(stop)?);
    let step = bound(step)?.unwrap_or(1);
    if step == 0 {
        return Err(invalid("slice step cannot be zero"));
    }
    if let Some(text) = value.as_str() {
        budget::text(text.len())?;
        if step == 1 && text.is_ascii() {
            let (from, to) = range(start, stop, step, text.len());
            return Ok(like(value, &text[from as usize..to.max(from) as usize]));
        }
        // A vector of characters has four times the bytes of ASCII.
        budget::text(text.len())?;
        let chars: Vec<char> = text.chars().collect();
        return Ok(like(
            value,
            picked(start, stop, step, chars.len())
                .map(|i| chars[i])
                .collect::<String>(),
        ));
    }
    if let Some(numbers) = value.downcast_object_ref::<Range>() {
        let (from, to) = range(start, stop, step, numbers.len());
        let count = steps(from, to, step);
        return numbers
            .part(from, to, step, count)
            .ok_or_else(|| invalid("a slice of a range is beyond 64 bits"));
    }
    if !matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable) {
        return Err(invalid(format!("{} cannot be sliced", value.kind())));
    }
    budget::spend(value.len().unwrap_or(0) as u64 * 16)?;
    let items: Vec<Value> = value.try_iter()?.collect();
    let found: Vec<Value> = picked(start, stop, step, items.len())
        .map(|i| items[i].clone())
        .collect();
    Ok(if value.is_tuple() {
        Value::from(Tuple::from(found))
    } else {
        Value::from(found)
    })
}

/// Where a slice of `count` elements begins and where it stops, as `slice.indices` has it.
fn range(start: Option<i64>, stop: Option<i64>, step: i64, count: usize) -> (i64, i64) {
    let count = count as i64;
    let (lowest, highest) = if step > 0 {
        (0, count)
    } else {
        (-1, count - 1)
    };
    let clamp = |n: i64| {
        if n < 0 {
            (n.saturating_add(count)).max(lowest)
        } else {
            n.min(highest)
        }
    };
    let (first, last) = if step > 0 {
        (lowest, highest)
    } else {
        (highest, lowest)
    };
    (start.map_or(first, clamp), stop.map_or(last, clamp))
}

/// How many places there are from `from` on, `step` apart, before `to`.
fn steps(from: i64, to: i64, step: i64) -> usize {
    let span = (i128::from(to) - i128::from(from)) * i128::from(step.signum());
    let size = i128::from(step).abs();
    ((span.max(0) + size - 1) / size) as usize
}

fn picked(
    start: Option<i64>,
    stop: Option<i64>,
    step: i64,
    count: usize,
) -> impl Iterator<Item = usize> {
    let (start, stop) = range(start, stop, step, count);
    let inside = move |i: &i64| if step > 0 { *i < stop } else { *i > stop };
    std::iter::successors(Some(start).filter(inside), move |i| {
        i.checked_add(step).filter(inside)
    })
    .map(|i| i as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_those_of_python() {
        let all: Vec<i64> = (0..5).collect();
        let bounds = [
            None,
            Some(-7),
            Some(-5),
            Some(-2),
            Some(0),
            Some(1),
            Some(4),
            Some(5),
            Some(9),
        ];
        for start in bounds {
            for stop in bounds {
                for step in [1, 2, 3, -1, -2, 7, -7, i64::MAX, i64::MIN] {
                    // By the definition: every index that the three numbers name.
                    let n = all.len() as i64;
                    let fix = |i: i64| if i < 0 { i + n } else { i };
                    let wanted: Vec<i64> = if step > 0 {
                        let from = start.map_or(0, |i| fix(i).max(0));
                        let to = stop.map_or(n, fix);
                        (from..to.min(n))
                            .filter(|i| (i - from) % step == 0)
                            .collect()
                    } else {
                        let from = start.map_or(n - 1, |i| fix(i).min(n - 1));
                        let to = stop.map_or(-1, |i| fix(i).max(-1));
                        (to + 1..=from)
                            .rev()
                            .filter(|i| (from - i) as i128 % (step as i128).abs() == 0)
                            .collect()
                    };
                    let found: Vec<i64> = picked(start, stop, step, all.len())
                        .map(|i| all[i])
                        .collect();
                    assert_eq!(found, wanted, "[{start:?}:{stop:?}:{step}]");
                    let (from, to) = range(start, stop, step, all.len());
                    assert_eq!(steps(from, to, step), wanted.len());
                }
            }
        }
        assert_eq!(picked(None, None, -1, 0).count(), 0);
    }
}
