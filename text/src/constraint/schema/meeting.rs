//! The intersection of two schemas, as the crate makes it, and whether two have no value in common.

use super::shape::{Array, Kind, Named, Object, Part, Shape, Text};
use super::trial::{Made, Stop, Trial};
use super::wording::Said;
use crate::error::{Error, Result};

/// How far the crate goes into an intersection.
const MAX_MEETINGS: usize = 128;
/// Looks at two options, whether they overlap, that take as long as a step.
const LOOKS: usize = 8;
/// Options that are looked at again in the time of a step.
const OPTIONS: usize = 256;

impl Trial<'_> {
    /// Of parts of the same kind the values that both have. `depth`: of intersections within each other.
    pub fn meet(&mut self, a: &Part, b: &Part, depth: usize) -> Made<Part> {
        self.spend(1)?;
        if depth > MAX_MEETINGS {
            return Err(Stop::Refused);
        }
        let met = match (&a.kind, &b.kind) {
            (Kind::Any, _) => b.clone(),
            (_, Kind::Any) => {
                if let Kind::Either { options, .. } = &a.kind {
                    // The crate looks at each again.
                    self.spend(options.len() / OPTIONS)?;
                }
                a.clone()
            }
            (Kind::Never, _) | (_, Kind::Never) => Shape::new(Kind::Never),
            (Kind::Ref(name), _) => {
                let a = self.named(name)?;
                self.meet(&a, b, depth + 2)?
            }
            (_, Kind::Ref(name)) => {
                let b = self.named(name)?;
                self.meet(a, &b, depth + 2)?
            }
            // The options of a oneOf go first, on either side.
            (Kind::Either { options, is_one }, other)
                if *is_one || !matches!(other, Kind::Either { is_one: true, .. }) =>
            {
                let met = options.iter().map(|option| {
                    self.spend(b.copy)?;
                    self.meet(option, b, depth + 1)
                });
                let met = met.collect::<Made<_>>()?;
                self.either(met, *is_one)
            }
            (_, Kind::Either { options, is_one }) => {
                let met = options.iter().map(|option| {
                    self.spend(a.copy)?;
                    self.meet(a, option, depth + 1)
                });
                let met = met.collect::<Made<_>>()?;
                self.either(met, *is_one)
            }
            (Kind::Null, Kind::Null) => a.clone(),
            (Kind::Boolean(one), Kind::Boolean(other)) => match (one, other) {
                (one, other) if one == other || other.is_none() => a.clone(),
                (None, _) => b.clone(),
                _ => Shape::new(Kind::Never),
            },
            (Kind::Number { .. }, Kind::Number { .. }) => {
                let met = met_numbers(&a.kind, &b.kind)?;
                if let Kind::Number {
                    factor: Some(factor),
                    ..
                } = &met
                {
                    self.factor(*factor)?;
                }
                Shape::new(met)
            }
            (Kind::Text(one), Kind::Text(other)) => Shape::new(Kind::Text(met_texts(one, other))),
            (Kind::Array(one), Kind::Array(other)) => {
                let array = self.met_arrays(one, other, depth + 1)?;
                Shape::new(Kind::Array(array))
            }
            (Kind::Object(one), Kind::Object(other)) => {
                let object = self.met_objects(one, other, depth + 1)?;
                Shape::new(match object.is_empty() {
                    true => Kind::Never,
                    false => Kind::Object(object),
                })
            }
            _ => Shape::new(Kind::Never),
        };
        self.normal(met)
    }

    fn met_arrays(&mut self, a: &Array, b: &Array, depth: usize) -> Made<Array> {
        let count = a.first.len().max(b.first.len());
        let mut first = Vec::new();
        for at in 0..count {
            let mut item = |array: &Array| -> Made<Part> {
                match array.first.get(at) {
                    Some(item) => Ok(item.clone()),
                    None => {
                        let item = Shape::or_any(&array.items);
                        self.spend(item.copy)?;
                        Ok(item)
                    }
                }
            };
            let (one, other) = (item(a)?, item(b)?);
            first.push(self.meet(&one, &other, depth)?);
        }
        let items = self.both(&a.items, &b.items, depth)?;
        Ok(Array {
            first,
            items,
            least: a.least.max(b.least),
            most: lower(a.most, b.most),
        })
    }

    fn met_objects(&mut self, a: &Object, b: &Object, depth: usize) -> Made<Object> {
        let mut both = Object {
            required: union(&a.required, &b.required),
            least: a.least.max(b.least),
            most: lower(a.most, b.most),
            ..Object::default()
        };
        for name in a.named.names().chain(b.named.names()) {
            if both.named.has(name) {
                continue;
            }
            let (one, other) = (self.property(a, name)?, self.property(b, name)?);
            self.spend(match a.named.has(name) {
                true => other.copy,
                false => one.copy,
            })?;
            let met = self.meet(&one, &other, depth)?;
            both.named.add(name, met);
        }
        for (own, object) in [(a, b), (b, a)] {
            for (pattern, part) in own.patterns.iter() {
                if both.patterns.has(pattern) {
                    continue;
                }
                let other = object.patterns.get(pattern).or(object.others.as_ref());
                let met = match other {
                    Some(other) => {
                        self.spend(other.copy)?;
                        self.meet(part, other, depth)?
                    }
                    None => part.clone(),
                };
                both.patterns.add(pattern, met);
            }
        }
        self.compare_patterns(&both)?;
        both.others = self.both(&a.others, &b.others, depth)?;
        Ok(both)
    }

    fn both(&mut self, a: &Option<Part>, b: &Option<Part>, depth: usize) -> Made<Option<Part>> {
        Ok(match (a, b) {
            (Some(a), Some(b)) => Some(self.meet(a, b, depth)?),
            (a, b) => a.as_ref().or(b.as_ref()).cloned(),
        })
    }

    /// Without options that none has, and those of options in their place.
    pub fn normal(&mut self, part: Part) -> Made<Part> {
        let Kind::Either { options, is_one } = &part.kind else {
            return Ok(part);
        };
        let mut all: Vec<Part> = Vec::new();
        for option in options {
            match &option.kind {
                Kind::Any if !is_one => return Ok(option.clone()),
                Kind::Never => {}
                Kind::Either {
                    options,
                    is_one: its,
                } if its == is_one => all.extend(options.iter().cloned()),
                _ => all.push(option.clone()),
            }
        }
        if all.len() < 2 {
            return Ok(all.pop().unwrap_or_else(|| Shape::new(Kind::Never)));
        }
        let is_one = *is_one && !self.are_apart(&all)?;
        Ok(self.either(all, is_one))
    }

    /// Whether no value is of two of these, as far as the crate looks.
    fn are_apart(&mut self, options: &[Part]) -> Made<bool> {
        for (at, one) in options.iter().enumerate() {
            for other in &options[at + 1..] {
                if !self.is_apart(one, other)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    fn is_apart(&mut self, a: &Part, b: &Part) -> Made<bool> {
        self.looks += 1;
        self.spend(usize::from(self.looks.is_multiple_of(LOOKS)))?;
        Ok(match (&a.kind, &b.kind) {
            (Kind::Never, _) | (_, Kind::Never) => true,
            (Kind::Any | Kind::Ref(_), _) | (_, Kind::Any | Kind::Ref(_)) => false,
            (Kind::Boolean(one), Kind::Boolean(other)) => {
                one.is_some() && other.is_some() && one != other
            }
            (Kind::Either { options, .. }, _) => {
                for option in options {
                    if !self.is_apart(option, b)? {
                        return Ok(false);
                    }
                }
                true
            }
            (_, Kind::Either { options, .. }) => {
                for option in options {
                    if !self.is_apart(a, option)? {
                        return Ok(false);
                    }
                }
                true
            }
            (Kind::Text(one), Kind::Text(other)) => {
                one.literal.is_some() && other.literal.is_some() && one.literal != other.literal
            }
            (Kind::Object(one), Kind::Object(other)) => {
                for name in union(&one.required, &other.required).names() {
                    let (one, other) = (self.property(one, name)?, self.property(other, name)?);
                    if self.is_apart(&one, &other)? {
                        return Ok(true);
                    }
                }
                false
            }
            (one, other) => std::mem::discriminant(one) != std::mem::discriminant(other),
        })
    }
}

fn lower(a: Option<usize>, b: Option<usize>) -> Option<usize> {
    a.into_iter().chain(b).min()
}

fn union(a: &Named<()>, b: &Named<()>) -> Named<()> {
    let mut both = Named::default();
    a.names()
        .chain(b.names())
        .for_each(|name| both.add(name, ()));
    both
}

fn met_numbers(a: &Kind, b: &Kind) -> Result<Kind> {
    let (
        Kind::Number {
            is_integer,
            factor,
            bounds,
            words,
            said,
        },
        Kind::Number {
            is_integer: also,
            factor: other,
            bounds: others,
            words: more,
            said: more_said,
        },
    ) = (a, b)
    else {
        return Ok(Kind::Never);
    };
    let bounds = bounds.meet(*others);
    if let Some((key, bound, _)) = bounds.mistaken() {
        return Err(Error::range(format!(
            "{key} is {bound} and the other bound, in another part of allOf, less than 1 away; one schema can say both"
        )));
    }
    Ok(Kind::Number {
        is_integer: *is_integer || *also,
        said: Said::both(said, more_said),
        factor: match (*factor, *other) {
            (Some(one), Some(other)) => Some(one.meet(other).map_err(Error::range)?),
            (one, other) => one.or(other),
        },
        bounds,
        words: words + more,
    })
}

fn met_texts(a: &Text, b: &Text) -> Text {
    let says = |text: &Text| text.literal.is_some() || text.patterns > 0;
    // The crate goes on with both where each says something, as with patterns.
    let is_both = says(a) && says(b);
    let patterns = |text: &Text| text.patterns + usize::from(is_both && text.literal.is_some());
    let literal = a.literal.as_ref().or(b.literal.as_ref());
    Text {
        literal: literal.filter(|_| !is_both).cloned(),
        patterns: patterns(a) + patterns(b),
        bytes: a.bytes + b.bytes,
        has_length: a.has_length || b.has_length,
        least: a.least.max(b.least),
        most: lower(a.most, b.most),
        said: Said::both(&a.said, &b.said),
    }
}
