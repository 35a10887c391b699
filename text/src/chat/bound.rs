//! `map.items` without a call. Jinja looks for an attribute first and for a key second, so that this is the
//! method of the map, whatever its keys are: only `map['items']` is the value of a key, as of the schema of
//! a list.

use super::meter::is_a;
use super::methods::method;
use minijinja::value::{Object, ObjectRepr, ValueKind};
use minijinja::{Error, State, Value};
use std::fmt::{Formatter, Result as Shown};
use std::sync::Arc;

/// What a map of Python has and a template may call.
const METHODS: [&str; 6] = ["copy", "fromkeys", "get", "items", "keys", "values"];
/// What it may not call, since it changes the map: to a template they are not there.
const REFUSED: [&str; 5] = ["clear", "pop", "popitem", "setdefault", "update"];

/// Whether a map may have another attribute of this name than the value of a key.
pub fn is_method(name: &str) -> bool {
    METHODS.contains(&name) || REFUSED.contains(&name)
}

#[derive(Debug)]
struct Method {
    map: Value,
    name: String,
}

impl Object for Method {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn call(self: &Arc<Self>, state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
        method(state, &self.map, &self.name, args)
    }

    fn render(self: &Arc<Self>, f: &mut Formatter<'_>) -> Shown {
        write!(f, "<built-in method {} of dict object>", self.name)
    }
}

/// `value.name`, where `is_method` says yes of the name.
pub fn attribute(value: &Value, name: &str) -> Result<Value, Error> {
    let is_map =
        value.kind() == ValueKind::Map && !is_a(value, "Namespace") && !is_a(value, "Loop");
    if !is_map {
        return value.get_attr(name);
    }
    if REFUSED.contains(&name) {
        return Ok(Value::UNDEFINED);
    }
    Ok(Value::from_object(Method {
        map: value.clone(),
        name: name.to_string(),
    }))
}
