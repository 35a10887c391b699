//! The library itself: what it exports, its version, and that it prints nothing.

use crate::calls::calls_with;
use crate::support::capi::*;
use crate::support::{fixture, gguf, read, Scratch};
use prefix_text::ffi::*;
use std::collections::BTreeSet;
use std::process::Command;
use std::ptr::null_mut;

/// The library that cargo built beside the tests.
fn library() -> std::path::PathBuf {
    let here = std::env::current_exe().unwrap();
    let deps = here.parent().unwrap();
    [deps.parent().unwrap(), deps]
        .iter()
        .map(|folder| folder.join("libprefix_text.so"))
        .find(|path| path.exists())
        .expect("cargo builds libprefix_text.so for the tests")
}

pub fn exports() {
    let header = read("include/prefix_text.h");
    let list = header
        .split("#define PREFIX_TEXT_FUNCTIONS(X)")
        .nth(1)
        .unwrap();
    let list = list.split("\n\n").next().unwrap();
    let named: BTreeSet<String> = list
        .split("X(")
        .skip(1)
        .map(|part| part.split(')').next().unwrap().to_string())
        .collect();
    assert!(named.len() >= 22);
    let shown = Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(library())
        .output()
        .unwrap();
    assert!(shown.status.success());
    let exported: BTreeSet<String> = String::from_utf8(shown.stdout)
        .unwrap()
        .lines()
        .map(|line| line.split_whitespace().last().unwrap().to_string())
        .collect();
    assert_eq!(exported, named);
    // Each is also declared: a name in the list and nowhere else would be a typing error.
    for name in &named {
        assert!(header.matches(&**name).count() >= 2, "{name}");
    }
}

pub fn versions() {
    assert_eq!(prefix_text_abi_version(), 1);
    let version = unsafe { std::ffi::CStr::from_ptr(prefix_text_version_string().cast()) };
    assert_eq!(version.to_str().unwrap(), env!("CARGO_PKG_VERSION"));
}

/// Starts this program again to do `what`, and gives what it printed.
pub fn again(what: &str) -> std::process::Output {
    Command::new(std::env::current_exe().unwrap())
        .env("PREFIX_TEXT_TEST", what)
        .output()
        .unwrap()
}

pub fn silence() {
    let done = again("noise");
    assert!(done.status.success());
    assert_eq!((done.stdout.len(), done.stderr.len()), (0, 0), "{done:?}");
}

/// Everything that could tempt a library to print: failures of all kinds, and panics inside.
pub fn noise() {
    let good = fixture("llama3");
    let tokenizer = Tokenizer::with_template("{{ 1 // 0 }}").unwrap();
    let _ = tokenizer.chat_text(r#"[{"role": "user"}]"#, "");
    let _ = Tokenizer::from_json(good.replace("\"Split\"", "\"Splat\"").as_bytes(), b"");
    let _ = Tokenizer::from_json(good.replace("\"BPE\"", "\"CPE\"").as_bytes(), b"");
    let _ = Tokenizer::from_json(good.replace("<|eot_id|>", "a").as_bytes(), b"");
    // A template of the post-processor that names a token it does not have: the crate panics.
    let _ = Tokenizer::from_json(
        good.replacen(
            "\"special_tokens\":{\"<|begin_of_text|>\"",
            "\"special_tokens\":{\"x\"",
            1,
        )
        .as_bytes(),
        b"",
    );
    let _ = Tokenizer::open("/no/such/file");
    let _ = tokenizer.encode(b"\xff", 0);
    let _ = calls_with(null_mut());
    let _ = calls_with(usize::MAX as *mut PrefixTokenizer);
    let scratch = Scratch::new("noise");
    let _ = Tokenizer::open(&scratch.write("x.gguf", gguf::Writer::default().file()));
    let tokenizer = Tokenizer::from_json(good.as_bytes(), b"").unwrap();
    let _ = tokenizer.decode(&tokenizer.encode("a 漢 <think>".as_bytes(), 1).unwrap(), 1);
}
