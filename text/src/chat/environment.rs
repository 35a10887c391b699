//! The template engine, set up as transformers sets up Jinja.

use super::{budget, clock::DateTime, json};
use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, Error, ErrorKind, Value};
use minijinja_contrib::pycompat::unknown_method_callback;

/// Begins the message of errors that the template raised itself.
pub const RAISED: &str = "raised by the template: ";

pub fn environment(now: Option<DateTime>) -> Environment<'static> {
    let mut env = Environment::new();
    env.set_syntax(
        SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .build()
            .unwrap_or_default(),
    );
    env.set_fuel(Some(budget::FUEL));
    env.set_recursion_limit(budget::RECURSION);
    env.set_unknown_method_callback(unknown_method_callback);
    env.add_filter(
        "tojson",
        |value: &Value, kwargs: minijinja::value::Kwargs| json::tojson(value, kwargs),
    );
    env.add_function(
        "raise_exception",
        |message: &Value| -> Result<Value, Error> {
            Err(Error::new(
                ErrorKind::InvalidOperation,
                format!("{RAISED}{message}"),
            ))
        },
    );
    env.add_function(
        "strftime_now",
        move |format: &str| -> Result<String, Error> {
            now.unwrap_or_else(DateTime::now)
                .strftime(format)
                .map_err(|e| Error::new(ErrorKind::InvalidOperation, e.message))
        },
    );
    env
}
