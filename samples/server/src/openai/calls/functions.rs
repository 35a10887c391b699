//! The functions that a request lets the model call.

use serde::Deserialize;
use serde_json::from_str;
use serde_json::value::RawValue;

use crate::failure::{Failure, Result};
use crate::fields::Fields;

/// Functions of a request, and characters of the name of one.
const FUNCTIONS: usize = 1000;
const NAME: usize = 128;

#[derive(Debug, Deserialize)]
pub struct Tool {
    #[serde(rename = "type")]
    kind: Option<String>,
    pub function: Box<RawValue>,
}

#[derive(Debug, Deserialize)]
struct ToolFunction {
    name: String,
    #[serde(rename = "description")]
    _description: Option<String>,
    parameters: Option<Box<RawValue>>,
    strict: Option<bool>,
}

/// A function that may be called.
#[derive(Debug)]
pub struct Function {
    pub name: String,
    /// The schema of its arguments, as it came.
    pub parameters: Option<Box<RawValue>>,
    /// Whether they have to be kept to it.
    pub is_strict: bool,
    /// Where it stands in the request.
    pub place: String,
}

/// What is wrong with a field of an object that stands somewhere in the request.
pub fn at(place: &str, failure: Failure) -> Failure {
    let field = match &failure.field {
        Some(field) => format!("{place}.{field}"),
        None => place.to_string(),
    };
    Failure::field(field, failure.message)
}

pub fn object(place: &str, value: &RawValue) -> Result<Fields> {
    from_str(value.get()).map_err(|_| Failure::field(place.to_string(), "is not an object"))
}

/// In their order.
pub fn functions(tools: Option<&RawValue>) -> Result<Vec<Function>> {
    let Some(tools) = tools else {
        return Ok(Vec::new());
    };
    let tools: Vec<Box<RawValue>> =
        from_str(tools.get()).map_err(|_| Failure::field("tools", "is not a list"))?;
    if tools.len() > FUNCTIONS {
        let message = format!("has {} tools, the limit is {FUNCTIONS}", tools.len());
        return Err(Failure::field("tools", message));
    }
    let mut functions: Vec<Function> = Vec::new();
    for (number, tool) in tools.iter().enumerate() {
        let place = format!("tools[{number}]");
        let Ok(tool) = from_str::<Fields>(tool.get()) else {
            let message = format!("[{number}] is not an object");
            return Err(Failure::field("tools", message));
        };
        let tool: Tool = tool.read().map_err(|why| at(&place, why))?;
        if let Some(kind) = tool.kind.filter(|kind| kind != "function") {
            let message = format!("is {kind:?}; served are tools of type \"function\"");
            return Err(Failure::field(format!("{place}.type"), message));
        }
        let place = format!("{place}.function");
        let function: ToolFunction = object(&place, &tool.function)?
            .read()
            .map_err(|why| at(&place, why))?;
        check_name(&format!("{place}.name"), &function.name, &functions)?;
        if let Some(parameters) = &function.parameters {
            check_object(&format!("{place}.parameters"), parameters)?;
        }
        functions.push(Function {
            name: function.name,
            parameters: function.parameters,
            is_strict: function.strict == Some(true),
            place,
        });
    }
    Ok(functions)
}

fn check_name(place: &str, name: &str, others: &[Function]) -> Result<()> {
    let wrong = |message| Err(Failure::field(place.to_string(), message));
    let count = name.chars().count();
    if count == 0 || count > NAME {
        return wrong(format!(
            "has {count} characters; a name has from 1 to {NAME}"
        ));
    }
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if let Some(other) = name.chars().find(|c| !is_of_name(*c)) {
        return wrong(format!(
            "is {name:?}, with {other:?}; a name has letters and digits of ASCII, '_', '-' and '.'"
        ));
    }
    match others.iter().find(|other| other.name == name) {
        Some(other) => wrong(format!("is {name:?}, as is {}.name", other.place)),
        None => Ok(()),
    }
}

/// Arguments are an object.
pub fn check_object(place: &str, parameters: &RawValue) -> Result<()> {
    let Ok(Fields(fields)) = from_str::<Fields<&RawValue>>(parameters.get()) else {
        return Err(Failure::field(place.to_string(), "is not an object"));
    };
    let kind = fields.iter().find(|(name, _)| name == "type");
    let Some((_, kind)) = kind else {
        return Ok(());
    };
    let kinds = match from_str::<Option<String>>(kind.get()) {
        Ok(kind) => Ok(Vec::from_iter(kind)),
        Err(_) => from_str::<Vec<String>>(kind.get()),
    };
    match kinds {
        Ok(kinds) if kinds.is_empty() || kinds.iter().any(|kind| kind == "object") => Ok(()),
        _ => {
            let kind: String = kind.get().chars().take(60).collect();
            let message = format!("is {kind}; arguments are of type \"object\"");
            Err(Failure::field(format!("{place}.type"), message))
        }
    }
}
