//! The examples run, are short, and are what the README shows.

mod support;

use std::path::PathBuf;
use std::process::Command;

use support::{model, root};

/// `cargo test` builds the examples beside the tests.
fn example(name: &str) -> Command {
    let mut path = std::env::current_exe().unwrap();
    path.pop();
    path.pop();
    let mut command = Command::new(path.join("examples").join(name));
    let folder = std::env::var_os("PREFIX_LIB_DIR").map_or(root().join("build/lib"), PathBuf::from);
    if cfg!(feature = "dynamic") {
        command.env("LD_LIBRARY_PATH", folder); // how a system would find it
    }
    command
}

fn output(name: &str, model: PathBuf) -> String {
    let output = example(name).arg(model).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {errors}");
    assert_eq!(errors, "", "the library prints nothing");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn score_prints_a_line_for_each_answer() {
    let text = output("score", model("llama-base"));
    assert_eq!(text.lines().count(), 3, "{text}");
    assert!(text.starts_with("[3, 4]: -"), "{text}");
}

#[test]
fn events_begin_with_started() {
    let text = output("events", model("llama-base"));
    assert!(text.starts_with("Started\nToken { token: "), "{text}");
    assert_eq!(text.lines().count(), 20);
}

#[test]
fn cache_keeps_and_saves() {
    let text = output("cache", model("llama-base"));
    assert!(text.starts_with("99 tokens stay in the cache\n"), "{text}");
    assert_eq!(text.lines().count(), 2, "{text}");
}

#[test]
#[cfg(feature = "text")]
fn chat_prints_an_answer() {
    let text = output("chat", support::ascii_model());
    assert!(!text.is_empty());
}

/// No event says why a text failed: who reads the events alone would take it for an empty one.
#[test]
#[cfg(feature = "text")]
fn chat_says_why_there_is_no_answer() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("model-that-refuses");
    std::fs::create_dir_all(&folder).unwrap();
    for name in ["config.json", "model.safetensors", "tokenizer.json"] {
        std::fs::copy(support::ascii_model().join(name), folder.join(name)).unwrap();
    }
    let config = r#"{"chat_template": "{{ raise_exception('not today') }}"}"#;
    std::fs::write(folder.join("tokenizer_config.json"), config).unwrap();
    let reason = said(example("chat").arg(folder));
    assert!(reason.contains("not today"), "{reason}");
}

#[test]
#[cfg(feature = "text")]
fn rerank_prints_the_best_first() {
    let text = output("rerank", support::ascii_model());
    let scores: Vec<f32> = text
        .lines()
        .map(|l| l[..6].trim().parse().unwrap())
        .collect();
    assert_eq!(scores.len(), 2);
    assert!(scores[0] >= scores[1], "{text}");
}

#[test]
fn overhead_prints_json() {
    let text = output("overhead", model("llama-base"));
    let json = support::json::Json::parse(&text);
    assert!(json.get("call_ns").number() > 0.0);
    for part in ["empty_run", "one_logit", "score_1000_documents"] {
        let (wall, engine) = (
            json.get(part).get("wall_us"),
            json.get(part).get("engine_us"),
        );
        assert!(
            wall.number() >= engine.number() && engine.number() >= 0.0,
            "{text}"
        );
    }
}

const SHOWN: &[&str] = if cfg!(feature = "text") {
    &["cache", "chat", "events", "rerank", "score"]
} else {
    &["cache", "events", "score"]
};

/// What a program says on standard error when it fails.
fn said(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "an error, and no panic");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn an_example_without_a_model_says_how_to_use_it() {
    for name in SHOWN {
        let usage = format!("Error: \"usage: {name} MODEL\"\n");
        assert_eq!(said(&mut example(name)), usage);
    }
}

#[test]
fn an_example_with_a_wrong_model_says_what_is_wrong() {
    for name in SHOWN {
        let reason = said(example(name).arg("/no model"));
        assert!(reason.starts_with("Error: prefix_engine_"), "{reason}");
        assert!(
            reason.contains("/no model") && reason.ends_with(" (PREFIX_ERR_NOT_FOUND)\n"),
            "{reason}"
        );
    }
}

#[test]
fn the_readme_shows_the_examples() {
    let readme = include_str!("../README.md");
    for (name, source) in [
        ("score", include_str!("../examples/score.rs")),
        ("chat", include_str!("../examples/chat.rs")),
        ("rerank", include_str!("../examples/rerank.rs")),
        ("events", include_str!("../examples/events.rs")),
        ("cache", include_str!("../examples/cache.rs")),
    ] {
        assert!(
            readme.contains(&format!("```rust,no_run\n{source}```")),
            "{name}.rs"
        );
        assert!(
            source.lines().count() <= 15,
            "{name}.rs is longer than 15 lines"
        );
    }
}
