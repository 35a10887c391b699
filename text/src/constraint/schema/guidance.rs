//! What a schema says to the crate itself.

use super::clean::clean;
use super::finite::drop_endless;
use super::trial::Trial;
use crate::error::Result;
use serde_json::{Map, Value};

/// Between the words of JSON.
const WHITE_SPACE: &str = r"[ \n\r\t]{1,64}";
/// What may stand behind a backslash in a string. With "u" a name could be written again as another text: {"a": 1,
/// "\u0061": "x"} has the name a twice, and the second one is no integer.
const ESCAPES: &str = "nrbtf\\\"";

/// A schema as the crate takes it, when it is within bounds, and what it costs.
pub fn ready(schema: &Value) -> Result<(Value, usize)> {
    let mut schema = clean(schema)?;
    let cost = match drop_endless(&mut schema)? {
        Some(cost) => cost,
        None => Trial::of(&schema)?.cost(),
    };
    set_defaults(&mut schema);
    Ok((schema, cost))
}

/// What the crate does with a schema, as far as that does not say it itself.
fn set_defaults(schema: &mut Value) {
    if *schema == Value::Bool(true) {
        *schema = Value::Object(Map::new());
    }
    let Value::Object(schema) = schema else {
        return;
    };
    let own = schema
        .entry("x-guidance")
        .or_insert_with(|| Value::Object(Map::new()));
    let Value::Object(own) = own else {
        return;
    };
    // Where a oneOf may be true of two of its options, the crate asks for leave to take it for anyOf. Schemas that name
    // their options by reference, as those of tagged unions do, could not be used without.
    own.entry("coerce_one_of").or_insert(Value::Bool(true));
    own.insert("json_allowed_escapes".into(), ESCAPES.into());
    // Without an end a model may write nothing else.
    if own.get("whitespace_flexible") != Some(&Value::Bool(false)) {
        own.insert("whitespace_pattern".into(), WHITE_SPACE.into());
    }
}
