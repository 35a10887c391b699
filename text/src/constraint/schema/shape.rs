//! What the crate makes of a schema, with copies shared: so much of it as says how large it is.

use super::bounds::Bounds;
use super::faults::MAX_FACTOR;
use super::wording::Said;
use std::collections::HashMap;
use std::rc::Rc;

pub type Part = Rc<Shape>;

pub struct Shape {
    pub kind: Kind,
    /// Units of a copy of it.
    pub copy: usize,
    /// Units of making a grammar of it.
    pub grammar: usize,
    /// Most names of an object in it.
    pub names: usize,
}

pub enum Kind {
    Any,
    Never,
    Null,
    Boolean(Option<bool>),
    Number {
        is_integer: bool,
        factor: Option<Factor>,
        bounds: Bounds,
        /// How many words say so.
        words: usize,
        said: Rc<Said>,
    },
    Text(Text),
    Array(Array),
    Object(Object),
    /// One of these. `is_one`: of a oneOf whose options may overlap.
    Either {
        options: Vec<Part>,
        is_one: bool,
    },
    /// Where it stands in `$defs`; the schema itself has no name there.
    Ref(Rc<str>),
}

#[derive(Clone, Default)]
pub struct Text {
    /// All that it may be.
    pub literal: Option<Rc<str>>,
    pub patterns: usize,
    /// Bytes of these patterns.
    pub bytes: usize,
    pub has_length: bool,
    /// Lengths in characters.
    pub least: usize,
    pub most: Option<usize>,
    pub said: Rc<Said>,
}

#[derive(Default)]
pub struct Array {
    pub first: Vec<Part>,
    pub items: Option<Part>,
    pub least: usize,
    pub most: Option<usize>,
}

#[derive(Default)]
pub struct Object {
    pub named: Named<Part>,
    pub patterns: Named<Part>,
    pub others: Option<Part>,
    pub required: Named<()>,
    pub least: usize,
    pub most: Option<usize>,
}

/// Values by name, in the order in which the crate comes to them.
pub struct Named<T> {
    all: Vec<(Rc<str>, T)>,
    places: HashMap<Rc<str>, usize>,
}

/// A step of numbers, coefficient * 10^-places.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Factor {
    coefficient: u128,
    places: u32,
}

impl<T> Default for Named<T> {
    fn default() -> Named<T> {
        Named {
            all: Vec::new(),
            places: HashMap::new(),
        }
    }
}

impl<T> Named<T> {
    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn get(&self, name: &str) -> Option<&T> {
        self.places.get(name).map(|at| &self.all[*at].1)
    }

    pub fn has(&self, name: &str) -> bool {
        self.places.contains_key(name)
    }

    /// The first one of a name stays.
    pub fn add(&mut self, name: &Rc<str>, value: T) {
        if !self.has(name) {
            self.places.insert(name.clone(), self.all.len());
            self.all.push((name.clone(), value));
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Rc<str>, &T)> {
        self.all.iter().map(|(name, value)| (name, value))
    }

    pub fn names(&self) -> impl Iterator<Item = &Rc<str>> {
        self.all.iter().map(|(name, _)| name)
    }

    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.all.iter().map(|(_, value)| value)
    }
}

/// Bytes of text that are copied as fast as a schema is.
const BYTES: usize = 256;

fn units(text: &str) -> usize {
    text.len() / BYTES
}

impl Shape {
    pub fn new(kind: Kind) -> Part {
        let (mut copy, mut grammar, mut names) = (1usize, 1usize, 0);
        let mut add = |part: &Part| {
            copy = copy.saturating_add(part.copy);
            grammar = grammar.saturating_add(part.grammar);
            names = names.max(part.names);
        };
        let (mut bytes, mut work) = (0usize, 0usize);
        match &kind {
            Kind::Any | Kind::Never | Kind::Null | Kind::Boolean(_) | Kind::Ref(_) => {}
            Kind::Number { words, .. } => work = words.saturating_mul(20),
            Kind::Text(text) => {
                bytes = text.bytes / BYTES + text.literal.as_deref().map_or(0, units);
                work = text.work();
            }
            Kind::Array(array) => {
                array.first.iter().chain(&array.items).for_each(&mut add);
                work = array.work();
            }
            Kind::Object(object) => {
                let parts = object.named.values().chain(object.patterns.values());
                parts.chain(&object.others).for_each(&mut add);
                let texts = object.named.names().chain(object.patterns.names());
                bytes = texts
                    .chain(object.required.names())
                    .map(|text| 1 + units(text))
                    .sum();
                work = object.work();
            }
            Kind::Either { options, .. } => options.iter().for_each(&mut add),
        }
        if let Kind::Object(object) = &kind {
            names = names.max(object.names());
        }
        Rc::new(Shape {
            copy: copy.saturating_add(bytes),
            grammar: grammar.saturating_add(work).saturating_add(bytes),
            names,
            kind,
        })
    }

    pub fn or_any(part: &Option<Part>) -> Part {
        part.clone().unwrap_or_else(|| Shape::new(Kind::Any))
    }

    pub fn is_never(&self) -> bool {
        matches!(self.kind, Kind::Never)
    }
}

impl Text {
    fn work(&self) -> usize {
        let patterns = self.patterns.saturating_mul(50);
        let bytes = self.bytes.saturating_mul(4);
        // Whether a text is left that all of them have is looked for, step by step.
        let parts = self.patterns + usize::from(self.literal.is_some() || self.has_length);
        let meet = match self.patterns {
            0 => 0,
            _ => 1000 * usize::from(parts > 1),
        };
        patterns.saturating_add(bytes).saturating_add(meet)
    }
}

impl Array {
    /// Each of the first items is held against those behind it.
    fn work(&self) -> usize {
        let count = self.first.len();
        count.saturating_mul(count) / 40_000
    }
}

impl Object {
    /// Those of the schema.
    fn names(&self) -> usize {
        let unnamed = |name: &&Rc<str>| !self.named.has(name);
        self.named.len() + self.required.names().filter(unnamed).count()
    }

    /// Where one of those that may be left out must come, or none else may, there is an object for each of them.
    fn work(&self) -> usize {
        let names = self.names();
        let optional = names.saturating_sub(self.required.len());
        let is_closed = self.others.as_ref().is_some_and(|part| part.is_never());
        let is_counted = self.least > self.required.len() || self.most.is_some();
        let objects = match is_closed && is_counted {
            true => optional.saturating_mul(names).saturating_mul(3),
            false => 0,
        };
        // Names are held against patterns.
        let bytes: usize = self.patterns.names().map(|pattern| pattern.len()).sum();
        let looks = names.saturating_mul(self.patterns.len()) / 8;
        objects
            .saturating_add(looks)
            .saturating_add(self.patterns.len() * 50 + bytes * 4)
    }

    /// The crate knows at once that there is none.
    pub fn is_empty(&self) -> bool {
        self.most
            .is_some_and(|most| self.least > most || self.required.len() > most)
    }
}

impl Factor {
    pub fn new(number: f64) -> Option<Factor> {
        let mut digits = number.abs();
        let mut places = 0;
        while digits.fract() != 0.0 {
            digits *= 10.0;
            places += 1;
        }
        let coefficient = (digits <= f64::from(u32::MAX)).then_some(digits as u128)?;
        Some(Factor::shortest(coefficient, places))
    }

    fn shortest(mut coefficient: u128, mut places: u32) -> Factor {
        while places > 0 && coefficient.is_multiple_of(10) {
            coefficient /= 10;
            places -= 1;
        }
        Factor {
            coefficient,
            places,
        }
    }

    /// Units of its automaton, which the same steps share: one for two of its states.
    pub fn work(self) -> usize {
        usize::try_from(self.coefficient / 2).unwrap_or(usize::MAX)
    }

    /// The step of the numbers that both have; what is wrong when the crate does not compute with it.
    pub fn meet(self, other: Factor) -> std::result::Result<Factor, String> {
        let places = self.places.max(other.places);
        let whole = |factor: Factor| factor.coefficient * 10u128.pow(places - factor.places);
        let (a, b) = (whole(self), whole(other));
        let (mut divisor, mut rest) = (a, b);
        while rest != 0 {
            (divisor, rest) = (rest, divisor % rest);
        }
        let product = a * b;
        let both = Factor::shortest(product.checked_div(divisor).unwrap_or(0), places);
        let of_both = format!("multipleOf {} and {}", self.number(), other.number());
        if both.coefficient > MAX_FACTOR as u128 {
            return Err(format!(
                "{of_both} together are {}; the limit is {MAX_FACTOR} without its point",
                both.number()
            ));
        }
        // The crate has room for so much on its way there.
        match product <= u32::MAX.into() {
            true => Ok(both),
            false => Err(format!(
                "{of_both} for one number; the limit of their product without its point is {}",
                u32::MAX
            )),
        }
    }

    fn number(self) -> f64 {
        self.coefficient as f64 / 10f64.powi(self.places as i32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_meet_in_their_least_common_multiple() {
        for (a, b, both) in [
            (2.0, 3.0, Ok(6.0)),
            (0.5, 0.2, Ok(1.0)),
            (0.01, 3.0, Ok(3.0)),
            (-4.0, 6.0, Ok(12.0)),
            (0.0, 5.0, Ok(0.0)),
            (
                99_999.0,
                99_998.0,
                Err("multipleOf 99999 and 99998 together are 9999700002; the limit is 100000 without its point"),
            ),
            (1e-8, 3.0, Ok(3.0)),
            (
                100_000.0,
                50_000.0,
                Err("multipleOf 100000 and 50000 for one number; the limit of their product without its point is 4294967295"),
            ),
        ] {
            let factor = |number| Factor::new(number).unwrap();
            let found = factor(a).meet(factor(b)).map(Factor::number);
            assert_eq!(found, both.map_err(str::to_string));
        }
    }
}
