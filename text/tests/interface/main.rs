//! The C interface: handles, sizes, streams, threads, forks, exports, silence.

mod arguments;
mod calls;
mod continuing;
mod facts;
mod handles;
mod library;
mod pieces;
mod sizes;
mod streams;
#[path = "../support/mod.rs"]
mod support;
mod use_at_length;

use support::capi::*;
use support::runner::{main as run, Skip};
use support::{file, fixture};

const FIXTURES: [&str; 10] = [
    "llama3",
    "roberta",
    "llama2",
    "unigram",
    "wordpiece",
    "llama-spm.gguf",
    "gemma-spm.gguf",
    "t5-spm.gguf",
    "bytes-spm.gguf",
    "wordpiece.gguf",
];

fn tokenizer(name: &str) -> Tokenizer {
    if name.ends_with(".gguf") {
        let path = file(&format!("text/tests/fixtures/{name}"));
        return Tokenizer::open(path.to_str().unwrap()).unwrap();
    }
    Tokenizer::from_json(fixture(name).as_bytes(), b"").unwrap()
}

fn main() {
    match std::env::var("PREFIX_TEXT_TEST").as_deref() {
        Ok("noise") => return library::noise(),
        Ok("fork") => return handles::forked(),
        _ => {}
    }
    let nothing = || Skip::No;
    run(&[
        ("versions", nothing, library::versions),
        ("handles", nothing, handles::handles),
        ("references", nothing, handles::references),
        ("arguments", nothing, arguments::arguments),
        ("sizes", nothing, sizes::sizes),
        ("continuing", nothing, continuing::continuing),
        ("bad_batches", nothing, arguments::bad_batches),
        ("streams", nothing, streams::streams),
        ("stream_rules", nothing, streams::stream_rules),
        ("held_back", nothing, streams::held_back),
        ("token_bytes", nothing, sizes::token_bytes),
        ("facts", nothing, facts::facts),
        ("chat_options", nothing, facts::chat_options),
        ("pieces", nothing, pieces::pieces),
        ("marks", nothing, pieces::marks),
        ("eight_threads", nothing, use_at_length::eight_threads),
        ("many_cycles", nothing, use_at_length::many_cycles),
        ("exports", nothing, library::exports),
        ("silence", nothing, library::silence),
        ("fork", nothing, handles::fork),
    ]);
}
