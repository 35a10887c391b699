//! Bounds of numbers, where the crate takes one for within that is not.
//!
//! Of numbers above 1 and at most 1.5 it lets 1 be written, as of all numbers between a whole one that is not within and
//! another bound before the next whole one.

use serde_json::{Map, Value};

/// How far the bound is moved: what lies between cannot be written.
const NEAR: f64 = 1e-9;

/// Each with whether it is without the bound itself.
#[derive(Clone, Copy, Default)]
pub struct Bounds {
    least: Option<(f64, bool)>,
    most: Option<(f64, bool)>,
}

impl Bounds {
    pub fn of(object: &Map<String, Value>) -> Bounds {
        let number = |key: &str| object.get(key).and_then(Value::as_f64);
        let one = |key, without, is_stricter: fn(f64, f64) -> bool| {
            let (with, without) = (number(key), number(without));
            // In the oldest drafts it is a word beside the other one.
            match (with, without) {
                (Some(with), Some(without)) if is_stricter(with, without) => Some((with, false)),
                (with, without) => without
                    .map(|number| (number, true))
                    .or(with.map(|number| (number, false))),
            }
        };
        let mut bounds = Bounds {
            least: one("minimum", "exclusiveMinimum", |with, without| {
                with > without
            }),
            most: one("maximum", "exclusiveMaximum", |with, without| {
                with < without
            }),
        };
        for (key, bound) in [
            ("exclusiveMinimum", &mut bounds.least),
            ("exclusiveMaximum", &mut bounds.most),
        ] {
            if let (Some(bound), Some(Value::Bool(true))) = (bound, object.get(key)) {
                bound.1 = true;
            }
        }
        bounds
    }

    /// Of this number alone.
    pub fn exactly(number: f64) -> Bounds {
        Bounds {
            least: Some((number, false)),
            most: Some((number, false)),
        }
    }

    pub fn meet(self, other: Bounds) -> Bounds {
        let stricter = |a: Option<(f64, bool)>, b: Option<(f64, bool)>, sign: f64| match (a, b) {
            (Some(a), Some(b)) => {
                let is_a = (a.0 * sign, a.1) >= (b.0 * sign, b.1);
                Some(if is_a { a } else { b })
            }
            (a, b) => a.or(b),
        };
        Bounds {
            least: stricter(self.least, other.least, 1.0),
            most: stricter(self.most, other.most, -1.0),
        }
    }

    /// Whether no number, or no whole one, keeps both.
    pub fn is_empty(self, is_integer: bool) -> bool {
        let (Some((least, from)), Some((most, to))) = (self.least, self.most) else {
            return false;
        };
        if !is_integer {
            return least > most || (least == most && (from || to));
        }
        let is_at = |bound: f64, without| without && bound.fract() == 0.0;
        let first = least.ceil() + f64::from(u8::from(is_at(least, from)));
        let last = most.floor() - f64::from(u8::from(is_at(most, to)));
        first > last
    }

    /// The bound that the crate takes for within, and the one to put in its place.
    pub fn mistaken(self) -> Option<(&'static str, f64, f64)> {
        let ((least, from), (most, to)) = (self.least?, self.most?);
        let is_whole = |number: f64| number.fract() == 0.0;
        if from && is_whole(least) && least >= 0.0 && least < most && most < least + 1.0 {
            return Some((
                "exclusiveMinimum",
                least,
                (least + NEAR).max(least.next_up()),
            ));
        }
        if to && is_whole(most) && most <= 0.0 && least < most && least > most - 1.0 {
            return Some((
                "exclusiveMaximum",
                most,
                (most - NEAR).min(most.next_down()),
            ));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_whole_bound_that_is_not_within_moves_where_the_other_one_is_near() {
        for (object, mistaken) in [
            (
                json!({"exclusiveMinimum": 0, "maximum": 0.5}),
                Some(("exclusiveMinimum", 0.0, 1e-9)),
            ),
            (
                json!({"exclusiveMinimum": 1, "exclusiveMaximum": 1.5}),
                Some(("exclusiveMinimum", 1.0, 1.0 + 1e-9)),
            ),
            (
                json!({"minimum": -0.5, "exclusiveMaximum": 0}),
                Some(("exclusiveMaximum", 0.0, -1e-9)),
            ),
            (
                json!({"minimum": 3, "exclusiveMinimum": true, "maximum": 3.5}),
                Some(("exclusiveMinimum", 3.0, 3.0 + 1e-9)),
            ),
            (
                json!({"exclusiveMinimum": 3, "minimum": 3, "maximum": 3.5}),
                Some(("exclusiveMinimum", 3.0, 3.0 + 1e-9)),
            ),
            (
                json!({"exclusiveMinimum": 3, "minimum": 3.1, "maximum": 3.5}),
                None,
            ),
            (json!({"exclusiveMinimum": 0, "maximum": 1}), None),
            (json!({"minimum": 0, "exclusiveMaximum": 0.5}), None),
            (json!({"exclusiveMinimum": 0.5, "maximum": 0.6}), None),
            (json!({"exclusiveMinimum": -1, "maximum": -0.5}), None),
            (json!({"exclusiveMinimum": 0}), None),
        ] {
            let bounds = Bounds::of(object.as_object().unwrap());
            assert_eq!(bounds.mistaken(), mistaken, "{object}");
        }
        for (object, is_empty) in [
            (json!({"minimum": 1, "maximum": 1}), [false, false]),
            (json!({"minimum": 1, "exclusiveMaximum": 1}), [true, true]),
            (
                json!({"exclusiveMinimum": 1, "maximum": 1.5}),
                [false, true],
            ),
            (
                json!({"exclusiveMinimum": 1, "exclusiveMaximum": 2}),
                [false, true],
            ),
            (json!({"minimum": 1.5, "maximum": 1.7}), [false, true]),
            (
                json!({"exclusiveMinimum": 0.5, "exclusiveMaximum": 1.5}),
                [false, false],
            ),
            (json!({"minimum": 2, "maximum": 1}), [true, true]),
            (json!({"minimum": 2}), [false, false]),
        ] {
            let bounds = Bounds::of(object.as_object().unwrap());
            assert_eq!(
                [false, true].map(|whole| bounds.is_empty(whole)),
                is_empty,
                "{object}"
            );
        }
        let of = |object: Value| Bounds::of(object.as_object().unwrap());
        let parts = [
            json!({"exclusiveMinimum": 2, "maximum": 9}),
            json!({"minimum": 1, "maximum": 2.5}),
        ];
        let [a, b] = parts.map(of);
        assert!(a.mistaken().is_none() && b.mistaken().is_none());
        assert!(a.meet(b).mistaken().is_some() && b.meet(a).mistaken().is_some());
    }
}
