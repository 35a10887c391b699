//! The template engine, set up as transformers sets up Jinja, and metered.

use super::arguments::Arguments;
use super::budget::Allowance;
use super::clock::{DateTime, LONGEST_DIRECTIVE};
use super::{bound, budget, builtins, meter, methods, operators, rewrite, show, slices};
use minijinja::machinery::{self, CodeGenerator, Instructions};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Rest};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, Value};
use std::borrow::Cow;
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
        out.write_str(&show::text_of(value)?).map_err(Error::from)
    });

    env.add_function(rewrite::CONCAT, operators::concat);
    env.add_function(rewrite::ADD, operators::add);
    env.add_function(rewrite::MULTIPLY, operators::multiply);
    env.add_function(rewrite::KEEP, meter::keep);
    env.add_function(rewrite::ASSIGNED, meter::assigned);
    env.add_function(rewrite::SCAN, meter::scan);
    env.add_function(rewrite::EACH, operators::each);
    env.add_function(rewrite::COMPARED, meter::compared);
    env.add_function(rewrite::SLICE, slices::slice);
    env.add_function(rewrite::ATTRIBUTE, bound::attribute);
    env.add_function(rewrite::REMAINDER, operators::remainder);

    env.set_unknown_method_callback(methods::method);
    builtins::install(&mut env);

    env.add_function("raise_exception", |message: &Value| {
        Err::<Value, Error>(Error::new(
            ErrorKind::InvalidOperation,
            format!("{RAISED}{}", show::text_of(message)?),
        ))
    });
    let strftime_now = move |args: Rest<Value>, kwargs: Kwargs| {
        let args = Arguments::new(args, kwargs, 1)?;
        let missing = || Error::from(ErrorKind::MissingArgument);
        let given = args.get(0, "format")?.ok_or_else(missing)?;
        args.end()?;
        let format = given.as_str().ok_or_else(|| {
            let what = format!("the format of strftime_now is {}, not a text", given.kind());
            Error::new(ErrorKind::InvalidOperation, what)
        })?;
        budget::text(format.len() + format.matches('%').count() * LONGEST_DIRECTIVE)?;
        now.unwrap_or_else(DateTime::now)
            .strftime(format)
            .map_err(|e| Error::new(ErrorKind::UnknownFunction, e.message))
    };
    env.add_function("strftime_now", strftime_now);
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
        let metered = rewrite::template(&tree, source)?;
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

/// Every end of a line is "\n", as Jinja reads a template.
pub fn with_plain_newlines(source: &str) -> Cow<'_, str> {
    match source.contains('\r') {
        true => source.replace("\r\n", "\n").replace('\r', "\n").into(),
        false => source.into(),
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
