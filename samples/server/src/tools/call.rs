//! A call, and how it is read from JSON.

use serde_json::value::RawValue;
use serde_json::{from_str, json};

use super::part::Asked;
use crate::fields::Fields;

#[derive(Debug)]
pub struct Call {
    pub name: String,
    /// An object of JSON.
    pub arguments: String,
}

impl Call {
    /// Of arguments by their names, with values in JSON; none when a name comes twice.
    pub fn of(name: &str, arguments: &[(&str, String)]) -> Option<Call> {
        let mut fields: Vec<String> = Vec::new();
        for (at, (name, value)) in arguments.iter().enumerate() {
            if arguments[..at].iter().any(|(other, _)| other == name) {
                return None;
            }
            fields.push(format!("{}: {value}", json!(name)));
        }
        Some(Call {
            name: name.to_string(),
            arguments: format!("{{{}}}", fields.join(", ")),
        })
    }
}

/// One call or a list of them; none when one of them is not a call of a function that is known.
pub fn of_json(value: &str, asked: &Asked) -> Option<Vec<Call>> {
    if value.starts_with('{') {
        return Some(vec![call(value, asked)?]);
    }
    let list: Vec<&RawValue> = from_str(value).ok()?;
    let calls = list.iter().map(|value| call(value.get(), asked));
    calls
        .collect::<Option<Vec<_>>>()
        .filter(|calls| !calls.is_empty())
}

fn call(value: &str, asked: &Asked) -> Option<Call> {
    let Fields(fields) = from_str::<Fields<&RawValue>>(value).ok()?;
    let (mut name, mut arguments) = (None::<String>, None);
    for (field, value) in fields {
        match field.as_str() {
            "name" if name.is_none() => name = Some(from_str(value.get()).ok()?),
            "arguments" | "parameters" if arguments.is_none() => {
                arguments = Some(object(value.get())?);
            }
            "id" | "type" => {}
            _ => return None,
        }
    }
    // Where nothing else says so, an object with a name alone is no call.
    let nothing = asked.format.is_marked.then(|| "{}".to_string());
    Some(Call {
        name: name.filter(|name| asked.knows(name))?,
        arguments: arguments.or(nothing)?,
    })
}

/// As it is spelt; some models write a text of it.
fn object(value: &str) -> Option<String> {
    let text = match value.starts_with('"') {
        true => from_str::<String>(value).ok()?,
        false => value.to_string(),
    };
    from_str::<Fields<&RawValue>>(&text).ok()?;
    Some(text.trim().to_string())
}
