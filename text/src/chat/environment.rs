//! The template engine, set up as transformers sets up Jinja, and metered.

use super::budget::Allowance;
use super::clock::{DateTime, LONGEST_DIRECTIVE};
use super::{budget, builtins, filters, meter, python, rewrite};
use minijinja::machinery::{self, CodeGenerator, Instructions};
use minijinja::syntax::SyntaxConfig;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, Value};
use std::collections::BTreeMap;

/// Begins the message of errors that the template raised itself.
pub const RAISED: &str = "raised by the template: ";

fn syntax() -> Result<SyntaxConfig, Error> {
    SyntaxConfig::builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .build()
}

pub fn environment(now: Option<DateTime>, fuel: u64) -> Result<Environment<'static>, Error> {
    let mut env = Environment::new();
    env.set_syntax(syntax()?);
    env.set_fuel(Some(fuel));
    env.set_recursion_limit(budget::RECURSION);
    env.set_formatter(|out, _state, value| {
        if let Some(text) = value.as_str() {
            budget::text(text.len())?;
            return out.write_str(text).map_err(Error::from);
        }
        out.write_str(&meter::text_of(value)?).map_err(Error::from)
    });

    env.add_function(rewrite::CONCAT, meter::concat);
    env.add_function(rewrite::ADD, meter::add);
    env.add_function(rewrite::MULTIPLY, meter::multiply);
    env.add_function(rewrite::KEEP, meter::keep);
    env.add_function(rewrite::SCAN, meter::scan);
    env.add_function(rewrite::EACH, meter::each);
    env.add_function(rewrite::COMPARED, meter::compared);
    env.add_function(rewrite::SLICE, python::slice);
    env.add_function(rewrite::REMAINDER, meter::remainder);

    env.set_unknown_method_callback(filters::method);
    builtins::install(&mut env);

    env.add_function("raise_exception", |message: &Value| {
        Err::<Value, Error>(Error::new(
            ErrorKind::InvalidOperation,
            format!("{RAISED}{}", meter::text_of(message)?),
        ))
    });
    env.add_function("strftime_now", move |format: &str| {
        budget::text(format.len() + format.matches('%').count() * LONGEST_DIRECTIVE)?;
        now.unwrap_or_else(DateTime::now)
            .strftime(format)
            .map_err(|e| Error::new(ErrorKind::UnknownFunction, e.message))
    });
    Ok(env)
}

/// A compiled template.
pub struct Program<'a> {
    instructions: Instructions<'a>,
    blocks: BTreeMap<&'a str, Instructions<'a>>,
}

impl<'a> Program<'a> {
    pub fn compile(source: &'a str) -> Result<Self, Error> {
        let tree = machinery::parse(source, "chat template", syntax()?)?;
        let metered = rewrite::template(&tree)?;
        let mut generator = CodeGenerator::new("chat template", source);
        generator.compile_stmt(&metered);
        let (instructions, blocks) = generator.finish();
        Ok(Program {
            instructions,
            blocks,
        })
    }

    /// The text, and what is left of the allowance.
    pub fn run(
        &'a self,
        env: &'a Environment<'a>,
        context: Value,
        allowance: Allowance,
    ) -> Result<(String, Allowance), Error> {
        budget::begin(allowance.units);
        let mut text = String::new();
        let mut out = machinery::make_string_output(&mut text);
        let (_, state) = machinery::eval(
            env,
            &self.instructions,
            context,
            &self.blocks,
            &mut out,
            AutoEscape::None,
        )?;
        let left = Allowance {
            fuel: state.fuel_levels().map_or(0, |(_, left)| left),
            units: budget::left(),
        };
        drop(state);
        if text.len() > budget::OUTPUT {
            return Err(budget::too_much(format!(
                "a prompt of {} bytes; the limit is {}",
                text.len(),
                budget::OUTPUT
            )));
        }
        Ok((text, left))
    }
}

/// transformers marks what the assistant wrote with {% generation %} ... {% endgeneration %}; for
/// the text of the prompt the two mean nothing but that a name which is set between them ends there.
/// Each is replaced by a tag that does that, and keeps the whitespace rules of the place.
pub fn without_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find("{%") {
        let (before, tag) = rest.split_at(at);
        out.push_str(before);
        let inner = &tag[2..];
        let body = inner.trim_start_matches(['-', '+']);
        let mark = &inner[..inner.len() - body.len()];
        let word = body.trim_start();
        let found = [("generation", "with"), ("endgeneration", "endwith")]
            .into_iter()
            .find_map(|(from, to)| {
                let after = word.strip_prefix(from)?;
                let end = after.trim_start();
                let close = end.trim_start_matches(['-', '+']);
                close.starts_with("%}").then_some((to, end))
            });
        match found {
            Some((to, end)) => {
                out.push_str("{%");
                out.push_str(mark);
                out.push(' ');
                out.push_str(to);
                out.push(' ');
                rest = end;
            }
            None => {
                out.push_str("{%");
                rest = inner;
            }
        }
    }
    out.push_str(rest);
    out
}
