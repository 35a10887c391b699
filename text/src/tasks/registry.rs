//! The tasks there are. A new one is a file with an `impl Method`, and its place here.

use super::kind::Kind;
use super::method::Methods;
use super::{classify, embed, generate, rerank};
use crate::error::{nearest, quote, Error, Result};

/// A task, and how a recipe may get its results.
pub struct Entry {
    pub kind: &'static Kind,
    pub methods: Methods,
}

pub static TASKS: &[Entry] = &[
    Entry {
        kind: &rerank::KIND,
        methods: rerank::METHODS,
    },
    Entry {
        kind: &embed::KIND,
        methods: embed::METHODS,
    },
    Entry {
        kind: &classify::KIND,
        methods: classify::METHODS,
    },
    Entry {
        kind: &generate::ANSWER,
        methods: generate::METHODS,
    },
    Entry {
        kind: &generate::GENERATE,
        methods: generate::METHODS,
    },
    Entry {
        kind: &generate::CHAT,
        methods: generate::CHAT_METHODS,
    },
];

pub fn kinds() -> impl Iterator<Item = &'static Kind> {
    TASKS.iter().map(|task| task.kind)
}

/// The kind of this name.
pub fn kind(name: &str) -> Result<&'static Kind> {
    kinds().find(|kind| kind.name == name).ok_or_else(|| {
        let names: Vec<&str> = kinds().map(|kind| kind.name).collect();
        let hint = nearest(name, &names)
            .map(|n| format!("; the nearest one is {}", quote(n)))
            .unwrap_or_default();
        Error::argument(format!(
            "there are no tasks of kind {}{hint}; there are {}",
            quote(name),
            names.join(", ")
        ))
    })
}
