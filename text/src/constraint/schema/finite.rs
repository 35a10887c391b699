//! Schemas that have no value: what they say excludes each other, or each value would be a part of another one, and that
//! one of the next.
//!
//! The crate refuses a schema that names such a one wherever that is, and lets a text begin that nothing ends.

use super::leaf::{ask, is_sure};
use super::shape::{Array, Kind, Object, Part, Shape};
use super::trial::{Made, Stop, Trial};
use crate::constraint::needs::Needs;
use crate::error::{Error, Result};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// Puts `false` in the place of references to them. What the schema costs, where it stayed as it was; an error when no
/// value of it has an end.
pub fn drop_endless(schema: &mut Value) -> Result<Option<usize>> {
    let mut trial = Trial::of(schema)?;
    let cost = trial.cost();
    let nothing = match without_value(&mut trial) {
        Ok(nothing) => nothing,
        Err(Stop::Refused) => return Ok(Some(cost)),
        Err(Stop::TooMuch(error)) => return Err(error),
    };
    if nothing.is_endless {
        return Err(Error::argument(
            "no value of it has an end: each is a part of another one",
        ));
    }
    if nothing.names.is_empty() {
        return Ok(Some(cost));
    }
    drop_references(schema, &nothing.names);
    Ok(None)
}

#[derive(Default)]
struct Nothing {
    /// Of what has no value.
    names: HashSet<Rc<str>>,
    /// Whether the whole has none though nothing that it must have is impossible in itself.
    is_endless: bool,
}

fn without_value(trial: &mut Trial) -> Made<Nothing> {
    // Without references the crate itself sees what is impossible.
    let Some(whole) = trial.whole.clone().filter(|_| !trial.made.is_empty()) else {
        return Ok(Nothing::default());
    };
    let mut finite = Finite {
        trial,
        needs: Needs::default(),
        named: HashMap::new(),
        places: HashMap::new(),
        unsure: HashMap::new(),
    };
    let made: Vec<_> = finite
        .trial
        .made
        .iter()
        .map(|(name, part)| (name.clone(), part.clone()))
        .collect();
    for (name, _) in &made {
        let place = finite.needs.any(Vec::new());
        finite.named.insert(name.clone(), place);
    }
    for (name, part) in &made {
        let (place, part) = (finite.named[name], finite.part(part)?);
        finite.needs.also(place, part);
    }
    let root = finite.part(&whole)?;
    let met = finite.met(root);
    let is_none = |place: &usize| !met[*place];
    let is_endless = is_none(&root) && !finite.needs.hopeless()[root];
    let named = finite.named.into_iter().filter(|(_, place)| is_none(place));
    Ok(Nothing {
        names: named.map(|(name, _)| name).collect(),
        is_endless,
    })
}

/// What must have a value so that a schema has one.
struct Finite<'t, 'a> {
    trial: &'t mut Trial<'a>,
    needs: Needs,
    /// Places of what references name.
    named: HashMap<Rc<str>, usize>,
    /// Of parts, which are shared.
    places: HashMap<*const Shape, usize>,
    /// Texts and numbers of which only the crate knows.
    unsure: HashMap<usize, Part>,
}

impl Finite<'_, '_> {
    fn part(&mut self, part: &Part) -> Made<usize> {
        let key = Rc::as_ptr(part);
        if let Some(place) = self.places.get(&key) {
            return Ok(*place);
        }
        let place = match &part.kind {
            Kind::Ref(name) => {
                // What was not made has a value, as far as is known here.
                let named = self.named.get(name).copied();
                named.unwrap_or_else(|| self.needs.fact(true))
            }
            Kind::Either { options, .. } => {
                let options = options.iter().map(|one| self.part(one));
                let options = options.collect::<Made<_>>()?;
                self.needs.any(options)
            }
            Kind::Array(array) => self.array(array)?,
            Kind::Object(object) => self.object(object)?,
            leaf => match is_sure(leaf) {
                Some(has) => self.needs.fact(has),
                None => {
                    let place = self.needs.any(Vec::new());
                    self.unsure.insert(place, part.clone());
                    place
                }
            },
        };
        self.places.insert(key, place);
        Ok(place)
    }

    fn array(&mut self, array: &Array) -> Made<usize> {
        let Array {
            first,
            items,
            least,
            most,
        } = array;
        if most.is_some_and(|most| most < *least) {
            return Ok(self.needs.fact(false));
        }
        let items = items.iter().filter(|_| *least > first.len());
        let parts = first.iter().take(*least).chain(items);
        let parts = parts.map(|one| self.part(one)).collect::<Made<_>>()?;
        Ok(self.needs.all(parts))
    }

    fn object(&mut self, object: &Object) -> Made<usize> {
        let mut parts = Vec::new();
        for name in object.required.names() {
            let part = self.trial.property(object, name)?;
            parts.push(self.kept(part)?);
        }
        if object.least > object.required.len() {
            let optional = object
                .named
                .iter()
                .filter(|(name, _)| !object.required.has(name));
            let mut others: Vec<Part> = optional.map(|(_, part)| part.clone()).collect();
            others.extend(object.patterns.values().cloned());
            others.push(Shape::or_any(&object.others));
            let others = others.into_iter().map(|part| self.kept(part));
            let others = others.collect::<Made<_>>()?;
            parts.push(self.needs.any(others));
        }
        Ok(self.needs.all(parts))
    }

    /// Of a part that may be made for this look alone: its address may be another one's later.
    fn kept(&mut self, part: Part) -> Made<usize> {
        let place = self.part(&part)?;
        if Rc::strong_count(&part) == 1 {
            self.places.remove(&Rc::as_ptr(&part));
        }
        Ok(place)
    }

    /// Which places have a value. The crate is asked only of what one of them still waits for.
    fn met(&mut self, root: usize) -> Vec<bool> {
        let met = self.needs.met();
        let mut waiting: Vec<usize> = self.named.values().copied().chain([root]).collect();
        let mut seen = vec![false; met.len()];
        let mut is_changed = false;
        while let Some(place) = waiting.pop() {
            if met[place] || std::mem::replace(&mut seen[place], true) {
                continue;
            }
            waiting.extend(self.needs.parts(place));
            let said = match self.unsure.get(&place).map(|part| &part.kind) {
                Some(Kind::Text(text)) => &text.said,
                Some(Kind::Number { said, .. }) => said,
                _ => continue,
            };
            if ask(said).unwrap_or(true) {
                let fact = self.needs.fact(true);
                self.needs.also(place, fact);
                is_changed = true;
            }
        }
        match is_changed {
            true => self.needs.met(),
            false => met,
        }
    }
}

fn drop_references(schema: &mut Value, none: &HashSet<Rc<str>>) {
    match schema {
        Value::Object(all) => {
            let name = all.get("$ref").and_then(Value::as_str);
            if name.is_some_and(|name| none.contains(name)) {
                *schema = Value::Bool(false);
                return;
            }
            for (key, value) in all {
                match (&**key, value) {
                    // Values, which are not schemas.
                    ("const" | "enum", _) => {}
                    ("properties" | "patternProperties" | "$defs", Value::Object(all)) => {
                        all.values_mut().for_each(|one| drop_references(one, none))
                    }
                    (_, value) => drop_references(value, none),
                }
            }
        }
        Value::Array(all) => all.iter_mut().for_each(|one| drop_references(one, none)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::clean::clean;
    use super::*;
    use serde_json::{json, Map};

    fn left(schema: &Value) -> Result<Value> {
        let mut schema = clean(schema)?;
        drop_endless(&mut schema)?;
        Ok(schema)
    }

    #[test]
    fn what_has_no_value_is_nothing() {
        let apart = json!({"type": "string", "allOf": [{"pattern": "^a$"}, {"pattern": "^b$"}]});
        let never = json!({"const": {"$ref": "#/$defs/A"}});
        for (schema, left_of_it) in [
            (
                json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}, "enum": {"$ref": "#/$defs/A"}, "$ref": never}, "$defs":
                    {"A": {"anyOf": [{"$ref": "#/$defs/B"}]}, "B": {"$ref": "#/$defs/A"}}}),
                json!({"type": "object", "properties": {"a": false, "enum": false, "$ref": never}, "$defs":
                    {"A": {"anyOf": [false]}, "B": false}}),
            ),
            (
                json!({"items": {"$ref": "#/$defs/A"}, "$defs": {"A": {"type": "array", "minItems": 2, "prefixItems": [{}],
                    "items": {"$ref": "#/$defs/A"}}}}),
                json!({"items": false, "$defs": {"A": {"type": "array", "minItems": 2, "prefixItems": [{}], "items": false}}}),
            ),
            // What excludes each other, seen by itself and by what needs it.
            (
                json!({"properties": {"a": {"$ref": "#/$defs/A"}, "b": {"$ref": "#/$defs/B"}}, "$defs": {
                    "A": apart, "B": {"type": "object", "required": ["x"], "properties": {"x": {"$ref": "#/$defs/A"}}}}}),
                json!({"properties": {"a": false, "b": false}, "$defs": {
                    "A": apart, "B": {"type": "object", "required": ["x"], "properties": {"x": false}}}}),
            ),
            (
                json!({"anyOf": [{"type": "null"}, {"$ref": "#/$defs/A"}], "$defs": {"A": {"type": "string", "$ref": "#/$defs/B"}, "B": {"type": "integer"}}}),
                json!({"anyOf": [{"type": "null"}, false], "$defs": {"A": {"type": "string", "$ref": "#/$defs/B"}, "B": {"type": "integer"}}}),
            ),
            (
                json!({"items": {"$ref": "#/$defs/A"}, "$defs": {"A": {"minProperties": 1, "type": "object", "additionalProperties": {"$ref": "#/$defs/A"}}}}),
                json!({"items": false, "$defs": {"A": {"minProperties": 1, "type": "object", "additionalProperties": false}}}),
            ),
            (
                json!({"items": {"$ref": "#/$defs/A"}, "$defs": {"A": {"type": "object", "required": ["ab"], "patternProperties": {"^a": {"$ref": "#/$defs/A"}}}}}),
                json!({"items": false, "$defs": {"A": {"type": "object", "required": ["ab"], "patternProperties": {"^a": false}}}}),
            ),
        ] {
            assert_eq!(left(&schema).unwrap(), left_of_it);
        }
    }

    #[test]
    fn what_has_no_end_is_refused() {
        for schema in [
            json!({"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#"}}}),
            json!({"$ref": "#"}),
            json!({"type": ["object", "array"], "required": ["a"], "properties": {"a": {"$ref": "#"}}, "minItems": 1,
                "items": [{"$ref": "#"}]}),
            // What is beside itself is of no value.
            json!({"oneOf": [{"$ref": "#"}, {"type": "string", "const": 1}]}),
            json!({"oneOf": [{"$ref": "#"}, {"allOf": [{"type": "string"}, {"enum": [1, null]}]}]}),
            json!({"type": "array", "minItems": 1, "items": {"anyOf": [{"$ref": "#"}, {"type": "string",
                "minLength": 2, "maxLength": 1}]}}),
            json!({"type": "array", "minItems": 1, "items": {"anyOf": [{"$ref": "#"}, {"type": "integer",
                "minimum": 2, "exclusiveMaximum": 2}]}}),
            json!({"type": "array", "minItems": 1, "items": {"anyOf": [{"$ref": "#"}, {"type": "string",
                "pattern": "^a+$", "allOf": [{"pattern": "^b+$"}]}]}}),
            json!({"type": "array", "minItems": 1, "items": {"anyOf": [{"$ref": "#"}, {"$ref": "#/$defs/A", "type": "integer"}]},
                "$defs": {"A": {"type": "string", "format": "date"}}}),
            json!({"type": "array", "minItems": 1, "items": {"anyOf": [{"$ref": "#"}, {"enum": ["a", "b"], "pattern": "c"}]}}),
            json!({"type": "array", "minItems": 1, "items": {"anyOf": [{"$ref": "#"}, {"type": "integer", "multipleOf": 10,
                "minimum": 1, "maximum": 9}]}}),
            json!({"type": "array", "minItems": 1, "items": {"anyOf": [{"$ref": "#"}, {"type": "array", "minItems": 3, "maxItems": 2}]}}),
        ] {
            let error = left(&schema).unwrap_err();
            assert_eq!(
                error.message, "no value of it has an end: each is a part of another one",
                "{schema}"
            );
        }
    }

    #[test]
    fn what_has_a_value_stays_as_it_is() {
        for schema in [
            json!({"type": "object", "properties": {"a": {"$ref": "#"}}}),
            json!({"required": ["a"], "properties": {"a": {"$ref": "#"}}}),
            json!({"type": "array", "items": {"$ref": "#"}}),
            json!({"anyOf": [{"type": "array", "minItems": 1, "items": {"$ref": "#"}}, {"type": "null"}]}),
            json!({"anyOf": []}),
            // The crate says why there is none.
            json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "string", "minLength": 2, "maxLength": 1}, "b": {"$ref": "#/$defs/B"}},
                "$defs": {"B": {"type": "null"}}}),
            json!({"items": {"$ref": "#/$defs/A"}, "$defs": {"A": {"type": "string", "allOf": [{"pattern": "^a"}, {"pattern": "b$"}], "minLength": 2}}}),
            json!({"items": {"$ref": "#/$defs/A"}, "$defs": {"A": {"enum": ["a", "b"], "pattern": "b"}}}),
            json!({"items": {"$ref": "#/$defs/A"}, "$defs": {"A": {"type": "integer", "multipleOf": 7, "minimum": 1, "maximum": 9}}}),
            json!({"items": {"$ref": "#/$defs/A"}, "$defs": {"A": {"type": "object", "required": ["a"], "minProperties": 2,
                "properties": {"a": {}, "b": {"$ref": "#/$defs/A"}}}}}),
        ] {
            let same = clean(&schema).unwrap();
            assert_eq!(left(&schema).unwrap(), same);
        }
    }

    /// Each is looked at once, however often it is named and whatever comes first.
    #[test]
    fn it_takes_one_look_at_each() {
        let twice = |one: Value, _| json!({"type": ["object", "object"], "required": ["a", "a"], "properties": {"a": one}});
        let deep = (0..50).fold(json!({}), twice);
        assert!(left(&json!({"items": {"$ref": "#/$defs/A"}, "$defs": {"A": deep}})).is_err());
        let back = |i: usize| json!({"allOf": [{"$ref": format!("#/$defs/{}", i.max(1) - 1)}]});
        let mut defs: Map<_, _> = (0..1500).map(|i| (i.to_string(), back(i))).collect();
        for (end, value) in [
            (json!({}), true),
            (
                json!({"type": "integer", "minimum": 2, "maximum": 1}),
                false,
            ),
        ] {
            defs["0"] = end;
            let chain = json!({"items": {"$ref": "#/$defs/1499"}, "$defs": defs});
            let found = left(&chain).unwrap();
            assert_eq!(found["items"] == json!(false), !value);
        }
    }
}
