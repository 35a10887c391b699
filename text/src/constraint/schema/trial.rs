//! What a schema costs the crate before its own limits count: how deep it goes, and how much it copies.
//!
//! An object with several of $ref, allOf, anyOf and so on is their intersection. The crate makes it of copies: of each
//! part, one for each alternative of the others, with all that a reference there names. A chain of such references
//! doubles with every link. So the same steps are taken here first, in the same order, with copies that share what they
//! are copies of: what each would take is known without taking it. The crate refuses more than 50,000 steps itself.

use super::bounds::Bounds;
use super::shape::{Array, Factor, Kind, Object, Part, Shape, Text};
use super::wording::Said;
use super::words::{schemas, TYPES};
use crate::error::{Error, Result};
use llguidance::derivre::{Regex, RegexBuilder};
use llguidance::regex_to_lark;
use serde_json::{Map, Value};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// Copies and steps, each of some microseconds and kilobytes.
pub const MAX_COST: usize = 100_000;
/// Schemas within each other and from reference to reference, which the crate goes down on its stack.
const MAX_LEVELS: usize = 4000;
/// Names of properties of one object, which the crate takes one within the other.
const MAX_NAMES: usize = 2000;
/// What is said of numbers, and of texts.
const NUMBER_WORDS: [&str; 5] = [
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
];
const TEXT_WORDS: [&str; 4] = ["minLength", "maxLength", "pattern", "format"];
/// As the crate has it where it looks for the pattern that a name has.
const PATTERN_FUEL: u64 = 10_000;

fn check(cost: usize) -> Result<()> {
    match cost <= MAX_COST {
        true => Ok(()),
        false => Err(Error::range(format!(
            "its parts are more than {MAX_COST} units with the copies that intersections make, the limit"
        ))),
    }
}

/// Why nothing comes of a schema.
pub enum Stop {
    TooMuch(Error),
    /// The crate will say what is wrong.
    Refused,
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::TooMuch(error)
    }
}

pub type Made<T> = std::result::Result<T, Stop>;

pub struct Trial<'a> {
    root: &'a Value,
    spent: usize,
    pub(super) looks: usize,
    level: usize,
    /// None where the crate refuses the schema.
    pub whole: Option<Part>,
    /// References that were come to, and what they name where that was made.
    seen: HashSet<&'a str>,
    pub made: HashMap<Rc<str>, Part>,
    patterns: HashMap<Rc<str>, Option<Regex>>,
    factors: HashSet<Factor>,
}

impl<'a> Trial<'a> {
    /// Of a clean schema; an error when it costs too much.
    pub fn of(schema: &'a Value) -> Result<Trial<'a>> {
        let mut trial = Trial {
            root: schema,
            spent: 0,
            looks: 0,
            level: 0,
            whole: None,
            seen: HashSet::new(),
            made: HashMap::new(),
            patterns: HashMap::new(),
            factors: HashSet::new(),
        };
        match trial.schema_of(schema) {
            Ok(whole) => trial.whole = Some(whole),
            Err(Stop::Refused) => return Ok(trial),
            Err(Stop::TooMuch(error)) => return Err(error),
        }
        for shape in trial.made.values().chain(&trial.whole) {
            if shape.names > MAX_NAMES {
                return Err(Error::range(format!(
                    "{} names of properties in one object; the limit is {MAX_NAMES}",
                    shape.names
                )));
            }
        }
        check(trial.cost())?;
        Ok(trial)
    }

    pub fn cost(&self) -> usize {
        let made = self.made.values().chain(&self.whole);
        let grammar = made.fold(0usize, |sum, shape| sum.saturating_add(shape.grammar));
        match self.whole {
            Some(_) => self.spent.saturating_add(grammar),
            None => self.spent,
        }
    }

    pub(super) fn spend(&mut self, units: usize) -> Made<()> {
        self.spent = self.spent.saturating_add(units);
        Ok(check(self.spent)?)
    }

    fn schema_of(&mut self, value: &'a Value) -> Made<Part> {
        match value {
            Value::Bool(true) => Ok(Shape::new(Kind::Any)),
            Value::Bool(false) => Ok(Shape::new(Kind::Never)),
            Value::Object(all) => self.schema(all),
            _ => Err(Stop::Refused),
        }
    }

    fn schema(&mut self, object: &'a Map<String, Value>) -> Made<Part> {
        self.spend(1)?;
        self.level += 1;
        if self.level > MAX_LEVELS {
            return Err(Stop::TooMuch(Error::range(format!(
                "more than {MAX_LEVELS} levels with those of its references, the limit"
            ))));
        }
        let made = self.parts(object)?;
        self.level -= 1;
        self.normal(made)
    }

    /// The intersection of its parts.
    fn parts(&mut self, object: &'a Map<String, Value>) -> Made<Part> {
        let mut whole = Shape::new(Kind::Any);
        let mut has_own = false;
        for (key, value) in object {
            whole = match (&**key, value) {
                ("$schema" | "$defs" | "x-guidance", _) => continue,
                ("const", value) => {
                    let one = self.value(value)?;
                    self.meet(&whole, &one, 0)?
                }
                ("enum", Value::Array(all)) => {
                    let options = all.iter().map(|one| self.value(one)).collect::<Made<_>>()?;
                    let either = self.either(options, false);
                    self.meet(&whole, &either, 0)?
                }
                ("allOf", Value::Array(all)) => all.iter().try_fold(whole, |whole, one| {
                    let one = self.schema_of(one)?;
                    self.meet(&whole, &one, 0)
                })?,
                ("anyOf" | "oneOf", Value::Array(all)) => {
                    let options: Made<_> = all.iter().map(|one| self.schema_of(one)).collect();
                    let either = self.either(options?, key == "oneOf");
                    self.meet(&whole, &either, 0)?
                }
                ("$ref", Value::String(name)) => self.reference(whole, name)?,
                ("enum" | "allOf" | "anyOf" | "oneOf" | "$ref", _) => return Err(Stop::Refused),
                // All of them are one part; they stand together.
                _ if has_own => continue,
                _ => {
                    has_own = true;
                    let own = self.own(object)?;
                    self.meet(&whole, &own, 0)?
                }
            };
        }
        Ok(whole)
    }

    fn reference(&mut self, whole: Part, name: &'a str) -> Made<Part> {
        if self.seen.insert(name) {
            let target = match name.strip_prefix("#/$defs/") {
                Some(key) => self.root["$defs"].get(key).ok_or(Stop::Refused)?,
                None => self.root,
            };
            let target = self.schema_of(target)?;
            self.made.insert(name.into(), target);
        }
        match whole.kind {
            Kind::Any => Ok(Shape::new(Kind::Ref(name.into()))),
            _ => {
                let target = self.named(name)?;
                self.meet(&whole, &target, 1)
            }
        }
    }

    /// A copy of what a reference names.
    pub(super) fn named(&mut self, name: &str) -> Made<Part> {
        // A schema with parts that is a part of itself has none yet.
        let target = self.made.get(name).cloned().ok_or(Stop::Refused)?;
        self.spend(target.copy)?;
        Ok(target)
    }

    /// What the words say that are one part together.
    fn own(&mut self, object: &'a Map<String, Value>) -> Made<Part> {
        match object.get("type") {
            Some(Value::String(kind)) => self.of_type(kind, object),
            Some(Value::Array(kinds)) => {
                let kinds = kinds.iter().map(|kind| kind.as_str().ok_or(Stop::Refused));
                let kinds = kinds.collect::<Made<Vec<_>>>()?;
                self.of_types(&kinds, object)
            }
            None => self.of_types(&TYPES, object),
            Some(_) => Err(Stop::Refused),
        }
    }

    fn of_types(&mut self, kinds: &[&str], object: &'a Map<String, Value>) -> Made<Part> {
        let options = kinds.iter().map(|kind| self.of_type(kind, object));
        let options = options.collect::<Made<Vec<_>>>()?;
        Ok(match <[Part; 1]>::try_from(options) {
            Ok([one]) => one,
            Err(options) => self.either(options, false),
        })
    }

    fn of_type(&mut self, kind: &str, object: &'a Map<String, Value>) -> Made<Part> {
        self.spend(1)?;
        let has = |keys: &[&str]| keys.iter().filter(|key| object.contains_key(**key)).count();
        let number = |key: &str| object.get(key).and_then(Value::as_u64).map(|n| n as usize);
        Ok(Shape::new(match kind {
            "null" => Kind::Null,
            "boolean" => Kind::Boolean(None),
            "number" | "integer" => Kind::Number {
                factor: match object.get("multipleOf") {
                    Some(factor) => {
                        let factor = factor.as_f64().and_then(Factor::new);
                        Some(self.factor(factor.ok_or(Stop::Refused)?)?)
                    }
                    None => None,
                },
                is_integer: kind == "integer",
                bounds: Bounds::of(object),
                words: has(&NUMBER_WORDS),
                said: Said::words(kind, object, &NUMBER_WORDS),
            },
            "string" => Kind::Text(Text {
                literal: None,
                patterns: has(&["pattern", "format"]),
                bytes: object
                    .get("pattern")
                    .and_then(Value::as_str)
                    .map_or(0, str::len),
                has_length: has(&["minLength", "maxLength"]) > 0,
                least: number("minLength").unwrap_or(0),
                most: number("maxLength"),
                said: Said::words(kind, object, &TEXT_WORDS),
            }),
            "array" => Kind::Array(self.array(object)?),
            "object" => {
                let object = self.object(object)?;
                match object.is_empty() {
                    true => Kind::Never,
                    false => Kind::Object(object),
                }
            }
            _ => return Err(Stop::Refused),
        }))
    }

    /// A step of numbers, which costs as much as its automaton where it is a new one.
    pub(super) fn factor(&mut self, factor: Factor) -> Made<Factor> {
        if self.factors.insert(factor) {
            self.spend(factor.work())?;
        }
        Ok(factor)
    }

    fn array(&mut self, object: &'a Map<String, Value>) -> Made<Array> {
        let (items, more) = (object.get("items"), object.get("additionalItems"));
        // Before 2020 the first items stood where those behind them stand now.
        let (first, items) = match items {
            Some(Value::Array(_)) => (items, more),
            items => (object.get("prefixItems"), items),
        };
        let first = first.and_then(Value::as_array).map_or(&[][..], |all| all);
        let first = first.iter().map(|one| self.schema_of(one));
        let number = |key| object.get(key).and_then(Value::as_u64).map(|n| n as usize);
        Ok(Array {
            first: first.collect::<Made<_>>()?,
            items: items.map(|one| self.schema_of(one)).transpose()?,
            least: number("minItems").unwrap_or(0),
            most: number("maxItems"),
        })
    }

    fn object(&mut self, object: &'a Map<String, Value>) -> Made<Object> {
        let mut made = Object::default();
        let number = |key| object.get(key).and_then(Value::as_u64).map(|n| n as usize);
        made.least = number("minProperties").unwrap_or(0);
        made.most = number("maxProperties");
        for (name, one) in schemas(object, "properties").into_iter().flatten() {
            let one = self.schema_of(one)?;
            made.named.add(&name.as_str().into(), one);
        }
        for (pattern, one) in schemas(object, "patternProperties").into_iter().flatten() {
            let one = self.schema_of(one)?;
            made.patterns.add(&pattern.as_str().into(), one);
        }
        self.compare_patterns(&made)?;
        if made.patterns.len() > 0 {
            let named = std::mem::take(&mut made.named);
            for (name, one) in named.iter() {
                let both = match self.pattern_of(&made, name)? {
                    Some(other) => {
                        self.spend(other.copy)?;
                        self.meet(one, &other, 0)?
                    }
                    None => one.clone(),
                };
                made.named.add(name, both);
            }
        }
        let others = object.get("additionalProperties");
        made.others = others.map(|one| self.schema_of(one)).transpose()?;
        if let Some(Value::Array(all)) = object.get("required") {
            for name in all {
                let name = name.as_str().ok_or(Stop::Refused)?;
                made.required.add(&name.into(), ());
            }
        }
        Ok(made)
    }

    /// Patterns of names are read, and held against each other, wherever an object is made.
    pub(super) fn compare_patterns(&mut self, object: &Object) -> Made<()> {
        let bytes: usize = object.patterns.names().map(|pattern| pattern.len()).sum();
        let count = object.patterns.len();
        let pairs = count.saturating_mul(count.saturating_sub(1)) / 2;
        self.spend(pairs.saturating_mul(1000).saturating_add(bytes / 16))
    }

    fn pattern_of(&mut self, object: &Object, name: &str) -> Made<Option<Part>> {
        for (pattern, part) in object.patterns.iter() {
            self.spend(1 + name.len() / 64)?;
            let regex = self.patterns.entry(pattern.clone()).or_insert_with(|| {
                let mut builder = RegexBuilder::new();
                let made = builder.mk_regex_for_serach(&regex_to_lark(pattern, "dw"));
                builder.to_regex_limited(made.ok()?, PATTERN_FUEL).ok()
            });
            if regex.as_mut().ok_or(Stop::Refused)?.is_match(name) {
                return Ok(Some(part.clone()));
            }
        }
        Ok(None)
    }

    /// What a property of this name must be.
    pub(super) fn property(&mut self, object: &Object, name: &str) -> Made<Part> {
        if let Some(named) = object.named.get(name) {
            return Ok(named.clone());
        }
        let of_pattern = self.pattern_of(object, name)?;
        Ok(of_pattern.unwrap_or_else(|| Shape::or_any(&object.others)))
    }

    /// The schema of this one value.
    fn value(&mut self, value: &Value) -> Made<Part> {
        let kind = match value {
            Value::Null => Kind::Null,
            Value::Bool(one) => Kind::Boolean(Some(*one)),
            Value::Number(number) => Kind::Number {
                is_integer: false,
                factor: None,
                bounds: number.as_f64().map(Bounds::exactly).unwrap_or_default(),
                words: 0,
                said: Said::value(value),
            },
            Value::String(text) => Kind::Text(Text {
                literal: Some(text.as_str().into()),
                said: Said::value(value),
                ..Text::default()
            }),
            Value::Array(all) => Kind::Array(Array {
                first: all.iter().map(|one| self.value(one)).collect::<Made<_>>()?,
                items: Some(Shape::new(Kind::Never)),
                least: all.len(),
                most: Some(all.len()),
            }),
            Value::Object(all) => {
                let mut object = Object {
                    others: Some(Shape::new(Kind::Never)),
                    ..Object::default()
                };
                for (name, one) in all {
                    let one = self.value(one)?;
                    object.named.add(&name.as_str().into(), one);
                }
                for name in object.named.names() {
                    object.required.add(name, ());
                }
                Kind::Object(object)
            }
        };
        self.spend(1)?;
        Ok(Shape::new(kind))
    }

    pub(super) fn either(&self, options: Vec<Part>, is_one: bool) -> Part {
        Shape::new(Kind::Either { options, is_one })
    }
}
