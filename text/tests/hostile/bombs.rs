//! Tokenizer files, templates and texts that ask for all memory, all time or all output there is. Each
//! is tried in a process of its own that may have 2 GB of address space and a minute of the processor:
//! an abort, a kill or an endless loop is then seen as what it is.

use crate::support::capi::*;
use crate::support::fixture;
use serde_json::{json, Value};
use std::process::Command;

const GB: u64 = 1 << 30;
/// Address space of a process, and its seconds of processor time.
const SPACE: u64 = 2 * GB;
const SECONDS: u64 = 60;
const OUT_OF_MEMORY: i32 = 600;

/// How a bomb must end.
enum End {
    /// Refused when it is opened.
    Closed(i32),
    /// Opens; refused when it is used on its text.
    Unused(i32),
    /// Any status but an internal one, on any machine.
    Bounded,
}
use End::*;

type Bomb = (&'static str, End, fn() -> Try);

/// A tokenizer.json and tokenizer_config.json, and what to do with them.
struct Try {
    json: String,
    config: String,
    use_it: Use,
}

enum Use {
    /// Encode the text and decode the tokens.
    Encode(String),
    Decode(Vec<i32>),
    /// Render these messages.
    Chat(String),
}

/// A tokenizer of three letters with some of its parts changed.
fn tokenizer(change: impl FnOnce(&mut Value), text: String) -> Try {
    let mut file = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
        "normalizer": null, "pre_tokenizer": null, "post_processor": null, "decoder": null,
        "model": {"type": "BPE", "dropout": null, "unk_token": "?", "fuse_unk": false,
                  "vocab": {"?": 0, "a": 1, "b": 2, " ": 3, "ab": 4}, "merges": ["a b"]},
    });
    change(&mut file);
    Try {
        json: file.to_string(),
        config: String::new(),
        use_it: Use::Encode(text),
    }
}

/// With one part changed, on a thousand bytes.
fn with(part: &str, value: Value) -> Try {
    tokenizer(|file| file[part] = value, "ab a ".repeat(200))
}

fn with_text(part: &str, value: Value, text: String) -> Try {
    tokenizer(|file| file[part] = value, text)
}

fn chain(list: &str, step: Value, count: usize) -> Value {
    json!({"type": "Sequence", list: vec![step; count]})
}

fn replace(pattern: &str, content: &str) -> Value {
    json!({"type": "Replace", "pattern": {"String": pattern}, "content": content})
}

fn replace_regex(pattern: &str, content: &str) -> Value {
    json!({"type": "Replace", "pattern": {"Regex": pattern}, "content": content})
}

fn split(pattern: &str) -> Value {
    json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false})
}

fn bytes() -> Value {
    json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true})
}

fn added(content: &str, key: &str) -> Value {
    let mut token = json!({"id": 5, "content": content, "single_word": false, "lstrip": false,
                           "rstrip": false, "normalized": false, "special": false});
    if !key.is_empty() {
        token[key] = json!(true);
    }
    token
}

fn charsmap(trie: u32, units: &[u32], rules: &str) -> Value {
    let mut all = trie.to_le_bytes().to_vec();
    all.extend(units.iter().flat_map(|unit| unit.to_le_bytes()));
    all.extend(rules.as_bytes());
    json!({"type": "Precompiled", "precompiled_charsmap": base64(&all)})
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for group in bytes.chunks(3) {
        let bits = (0..3).fold(0, |all, i| {
            all << 8 | u32::from(*group.get(i).unwrap_or(&0))
        });
        for i in 0..4 {
            out.push(match i <= group.len() {
                true => char::from(DIGITS[(bits >> (18 - 6 * i)) as usize & 63]),
                false => '=',
            });
        }
    }
    out
}

/// A charsmap in which "a" becomes `rules`: a trie of 256 units, whose root is at 0.
fn charsmap_for_a(rules: &str) -> Value {
    let mut units = vec![0u32; 1024];
    units[0] = 256 << 10; // children of the root are at 256 xor their byte
    let a = 256 ^ usize::from(b'a');
    units[a] = u32::from(b'a') | 1 << 8 | 512 << 10; // it is a key; its value is at a xor 512
    units[a ^ 512] = 1 << 31; // the rule at 0
    charsmap(4096, &units, &format!("{rules}\0"))
}

fn template(piece: Value, count: usize, ids: usize) -> Value {
    json!({"type": "TemplateProcessing", "single": vec![piece; count], "pair": [],
           "special_tokens": {"x": {"id": "x", "ids": vec![1; ids], "tokens": vec!["a"; ids]}}})
}

fn model(change: impl FnOnce(&mut Value), text: String) -> Try {
    tokenizer(|file| change(&mut file["model"]), text)
}

fn unigram(tokens: Vec<String>, text: String) -> Try {
    let vocab: Vec<Value> = tokens.into_iter().map(|t| json!([t, -1.0])).collect();
    tokenizer(
        |file| file["model"] = json!({"type": "Unigram", "unk_id": 0, "vocab": vocab}),
        text,
    )
}

fn word_piece(most: usize, text: String) -> Try {
    let model = json!({"type": "WordPiece", "unk_token": "?", "continuing_subword_prefix": "##",
                       "max_input_chars_per_word": most,
                       "vocab": {"?": 0, "a": 1, "##a": 2}});
    tokenizer(|file| file["model"] = model, text)
}

fn chat(template: &str, messages: String) -> Try {
    Try {
        json: fixture("llama2"),
        config: json!({"chat_template": template}).to_string(),
        use_it: Use::Chat(messages),
    }
}

fn one_message(content: &str) -> String {
    json!([{"role": "user", "content": content}]).to_string()
}

fn zeros(count: usize) -> String {
    format!("[{}0]", "0,".repeat(count))
}

#[rustfmt::skip] // a table
const BOMBS: &[Bomb] = &[
    // A charsmap.
    ("charsmap that says 8 GB", Closed(FORMAT), || with("normalizer", json!({"type": "Precompiled", "precompiled_charsmap": "////////"}))),
    ("charsmap that says 4 GB and has 4 kB", Closed(FORMAT), || with("normalizer", charsmap(u32::MAX - 3, &[0; 1024], "x"))),
    ("charsmap without a trie", Closed(FORMAT), || with("normalizer", charsmap(0, &[], "x\0"))),
    ("charsmap that points out of itself", Closed(FORMAT), || with("normalizer", charsmap(4096, &[u32::MAX; 1024], "x\0"))),
    ("charsmap that writes a book for a letter", Closed(FORMAT), || with("normalizer", charsmap_for_a(&"x".repeat(1_000_000)))),
    // Replace, Prepend and chains of them.
    ("Replace of nothing by 70 kB", Closed(FORMAT), || with("normalizer", replace("", &"x".repeat(70_000)))),
    ("Replace of a space by 140 kB", Closed(FORMAT), || with("normalizer", replace(" ", &"x".repeat(140_000)))),
    ("Replace of nothing by 1 kB", Unused(OUT_OF_RANGE), || with_text("normalizer", replace("", &"x".repeat(1024)), "ab a".repeat(1000))),
    ("Replace of an empty regex by 1 kB", Unused(OUT_OF_RANGE), || with_text("normalizer", replace_regex("", &"x".repeat(1024)), "ab a".repeat(1000))),
    ("40 times Replace of b by bb", Closed(FORMAT), || with("normalizer", chain("normalizers", replace("b", "bb"), 40))),
    ("Replace by a regex, 200 times", Closed(FORMAT), || with("normalizer", chain("normalizers", replace_regex("[a-z]?", "xx"), 200))),
    ("Prepend of 1 MB", Closed(FORMAT), || with("normalizer", json!({"type": "Prepend", "prepend": "x".repeat(1 << 20)}))),
    ("250 times Prepend of 1 kB", Closed(FORMAT), || with("normalizer", chain("normalizers", json!({"type": "Prepend", "prepend": "x".repeat(1024)}), 250))),
    ("Prepend of 1 kB before each of many pieces", Unused(OUT_OF_RANGE), || tokenizer(|file| {
        file["normalizer"] = json!({"type": "Prepend", "prepend": "x".repeat(1024)});
        file["added_tokens"] = json!([added("b", "")]);
    }, "ab".repeat(5000))),
    ("300 normalizers", Closed(FORMAT), || with("normalizer", chain("normalizers", json!({"type": "NFC"}), 300))),
    ("sequences inside of each other", Closed(FORMAT), || with("normalizer", (0..100).fold(json!({"type": "NFC"}), |inner, _| chain("normalizers", inner, 1)))),
    ("a tree of sequences", Closed(FORMAT), || with("pre_tokenizer", (0..4).fold(json!({"type": "Whitespace"}), |inner, _| chain("pretokenizers", inner, 10)))),
    ("NFKC of the longest ligature", Bounded, || with_text("normalizer", chain("normalizers", json!({"type": "NFKC"}), 100), "\u{fdfa}".repeat(30_000))),
    ("20 ByteLevel normalizers", Closed(FORMAT), || with("normalizer", chain("normalizers", json!({"type": "ByteLevel"}), 20))),
    ("20 ByteLevel pre-tokenizers", Closed(FORMAT), || with("pre_tokenizer", chain("pretokenizers", bytes(), 20))),
    ("a normalizer with the fields of another", Closed(FORMAT), || with("normalizer", json!({"type": "BertNormalizer", "pattern": {"String": "a"}, "content": "x".repeat(100_000)}))),
    // Regexes.
    ("regex of nested repetitions", Closed(FORMAT), || with("pre_tokenizer", split("((a{1,200}){1,200}){1,200}"))),
    ("regex of 2,000 classes", Bounded, || with("pre_tokenizer", split(r"\p{L}{1000,2000}x"))),
    ("250 regexes of large classes", Closed(FORMAT), || with("pre_tokenizer", chain("pretokenizers", split(r"[\p{L}\p{N}]{20}x"), 250))),
    ("regex of 1 MB", Closed(FORMAT), || with("pre_tokenizer", split(&"a|".repeat(500_000)))),
    ("regex that is nested 10,000 times", Closed(FORMAT), || with("pre_tokenizer", split(&("(".repeat(8000) + "a" + &")".repeat(8000))))),
    ("regex that tries all ways", Bounded, || with_text("pre_tokenizer", split(r"(?:a+)+(?!a)x|(?:a|a)*(?!a)x"), "a".repeat(10_000))),
    ("regex with references back", Bounded, || with_text("pre_tokenizer", split(r"(a*)(a*)(a*)\1\2\3x"), "a".repeat(3_000))),
    ("regex with references back, that gives up", Bounded, || with_text("pre_tokenizer", split(r"(?:(a*)a*)*\1x"), "a".repeat(1_000))),
    ("regex that looks ahead at every step", Closed(FORMAT), || with_text("pre_tokenizer", split(r"(?:(?=.*x)a)*b"), "a".repeat(10_000))),
    ("regex that looks to the end for every letter", Bounded, || with_text("pre_tokenizer", split(r"(?s).*x|a"), "a".repeat(100_000))),
    ("regex that looks ahead for every letter", Bounded, || with_text("pre_tokenizer", split(r"a(?=.*x)|b"), "a".repeat(30_000))),
    ("regex that calls itself", Closed(FORMAT), || with("pre_tokenizer", split(r"(a\g<1>?b)"))),
    // Pre-tokenizers.
    ("Split at nothing, 250 times", Bounded, || with_text("pre_tokenizer", chain("pretokenizers", json!({"type": "Split", "pattern": {"String": ""}, "behavior": "Isolated", "invert": false}), 250), "ab a".repeat(5000))),
    ("FixedLength of nothing", Closed(FORMAT), || with("pre_tokenizer", json!({"type": "FixedLength", "length": 0}))),
    ("FixedLength of 1, 250 times", Bounded, || with_text("pre_tokenizer", chain("pretokenizers", json!({"type": "FixedLength", "length": 1}), 250), "ab a".repeat(5000))),
    ("Metaspace, 250 times", Bounded, || with_text("pre_tokenizer", chain("pretokenizers", json!({"type": "Metaspace", "replacement": " ", "prepend_scheme": "always", "split": true}), 250), "ab a".repeat(5000))),
    // Added tokens.
    ("a space that takes the spaces behind it", Closed(FORMAT), || with_text("added_tokens", json!([added(" ", "rstrip")]), " ".repeat(100_000))),
    ("a space that takes the spaces before it", Closed(FORMAT), || with_text("added_tokens", json!([added(" ", "lstrip")]), " ".repeat(100_000))),
    ("one that becomes a space", Closed(FORMAT), || tokenizer(|file| {
        file["normalizer"] = replace("_", " ");
        file["added_tokens"] = json!([{"id": 5, "content": "_", "single_word": false, "lstrip": false, "rstrip": true, "normalized": true, "special": false}]);
    }, "_".repeat(100_000))),
    ("100,000 added tokens that are normalized to 1 kB each", Closed(FORMAT), || tokenizer(|file| {
        let tokens: Vec<Value> = (0..100_000).map(|i| { let mut t = added(&format!("t{i}"), ""); t["normalized"] = json!(true); t }).collect();
        file["added_tokens"] = json!(tokens);
        file["normalizer"] = json!({"type": "Prepend", "prepend": "x".repeat(1000)});
    }, "ab".to_string())),
    ("added tokens of 20 MB", Closed(FORMAT), || with("added_tokens", json!([added(&"x".repeat(20 << 20), "")]))),
    // Models.
    ("unknown token of 1 MB", Closed(FORMAT), || model(|m| { let long = "x".repeat(1 << 20); m["unk_token"] = json!(long); m["vocab"][long.as_str()] = json!(9); }, "z".repeat(5000))),
    ("WordLevel with an unknown token of 1 MB", Closed(FORMAT), || model(|m| { let long = "x".repeat(1 << 20); *m = json!({"type": "WordLevel", "unk_token": long, "vocab": {(long.as_str()): 0}}); }, "z ".repeat(5000))),
    ("a token of 1 MB with the id of a letter", Closed(FORMAT), || model(|m| { m["vocab"]["x".repeat(1 << 20).as_str()] = json!(1); }, "a".repeat(5000))),
    ("dropout that puts off every merge", Closed(UNSUPPORTED_MODEL), || model(|m| m["dropout"] = json!(0.999999), "ab".repeat(50_000))),
    ("prefix of 1 MB", Closed(FORMAT), || model(|m| m["continuing_subword_prefix"] = json!("x".repeat(1 << 20)), "ab".repeat(5000))),
    ("suffix of 1 MB", Closed(FORMAT), || model(|m| m["end_of_word_suffix"] = json!("x".repeat(1 << 20)), "ab".repeat(5000))),
    ("prefix that cuts a character", Closed(FORMAT), || model(|m| { m["continuing_subword_prefix"] = json!("#"); m["vocab"]["\u{e9}"] = json!(7); m["merges"] = json!([["a", "\u{e9}"]]); }, "ab".to_string())),
    ("WordPiece words without end", Unused(OUT_OF_RANGE), || word_piece(1_000_000_000, "b".repeat(20_000))),
    ("WordPiece words of 1,000 letters", Bounded, || word_piece(1_000, ("a".repeat(999) + " ").repeat(20))),
    ("Unigram of all lengths to 2,000", Closed(FORMAT), || unigram((1..2000).map(|n| "a".repeat(n)).collect(), "a".repeat(20_000))),
    ("Unigram of all lengths to 300", Bounded, || unigram((1..300).map(|n| "a".repeat(n)).collect(), "a".repeat(20_000))),
    ("Unigram of 18 MB in long tokens", Closed(OUT_OF_MEMORY), || unigram((0..300).map(|n| format!("{n:09}").repeat(6_666)).collect(), "a".to_string())),
    ("3,000,000 tokens", Bounded, || model(|m| m["vocab"] = (0..3_000_000).map(|i| (format!("{i}"), json!(i))).collect::<serde_json::Map<_, _>>().into(), "ab".to_string())),
    ("5,000,000 merges", Bounded, || model(|m| m["merges"] = json!(vec!["a b"; 5_000_000]), "ab".to_string())),
    ("10,000,000 zeros beside the vocabulary", Bounded, || {
        let mut whole = with("normalizer", Value::Null);
        whole.json = whole.json.replacen("\"vocab\":", &format!("\"x\":{},\"vocab\":", zeros(10_000_000)), 1);
        whole
    }),
    ("60 MB of zeros for a tokenizer_config.json", Bounded, || {
        let mut whole = with("normalizer", Value::Null);
        whole.config = format!("{{\"x\":{}}}", zeros(30 << 20));
        whole
    }),
    // Post-processors.
    ("template of 1,000 times 1,000 ids", Closed(FORMAT), || with("post_processor", template(json!({"SpecialToken": {"id": "x", "type_id": 0}}), 1000, 1000))),
    ("template with the text 1,000 times", Closed(FORMAT), || with("post_processor", template(json!({"Sequence": {"id": "A", "type_id": 0}}), 1000, 1))),
    ("template with 100,000 parts", Closed(FORMAT), || with("post_processor", template(json!({"SpecialToken": {"id": "x", "type_id": 0}}), 100_000, 0))),
    ("template with more ids than tokens", Closed(FORMAT), || tokenizer(|file| { file["post_processor"] = template(json!({"SpecialToken": {"id": "x", "type_id": 0}}), 1, 9); file["post_processor"]["special_tokens"]["x"]["tokens"] = json!(["a"]); }, "ab".to_string())),
    ("template in the clothes of another", Closed(FORMAT), || with("post_processor", json!({"type": "RobertaProcessing", "single": [], "pair": [], "special_tokens": {}}))),
    ("truncation to nothing and padding to 10^12", Bounded, || tokenizer(|file| {
        file["truncation"] = json!({"direction": "Right", "max_length": 0, "strategy": "LongestFirst", "stride": 9});
        file["padding"] = json!({"strategy": {"Fixed": 1_000_000_000_000u64}, "direction": "Right", "pad_to_multiple_of": null, "pad_id": 0, "pad_type_id": 0, "pad_token": "?"});
    }, "ab a".repeat(250))),
    // Decoders.
    ("decoder that replaces nothing by 1 kB", Bounded, || with_text("decoder", replace("", &"x".repeat(1024)), "ab a".repeat(5000))),
    ("40 decoders that double", Closed(FORMAT), || with("decoder", chain("decoders", replace("b", "bb"), 40))),
    ("40 decoders that put a space between letters", Closed(FORMAT), || with("decoder", chain("decoders", json!({"type": "BPEDecoder", "suffix": ""}), 40))),
    ("decoder that strips more than there is", Bounded, || with("decoder", json!({"type": "Strip", "content": "a", "start": 0, "stop": 1u64 << 63}))),
    ("WordPiece decoder with a prefix of 1 MB", Closed(FORMAT), || with("decoder", json!({"type": "WordPiece", "prefix": "x".repeat(1 << 20), "cleanup": true}))),
    ("a token of 1 MB, 5,000 times", Unused(OUT_OF_RANGE), || {
        let mut whole = model(|m| m["vocab"]["x".repeat(1 << 20).as_str()] = json!(5), String::new());
        whole.use_it = Use::Decode(vec![5; 5000]);
        whole
    }),
    // Texts, for tokenizers as they should be.
    ("16 MiB of single letters", Bounded, || Try { json: fixture("llama3"), config: String::new(), use_it: Use::Encode("a,".repeat(8 << 20)) }),
    ("16 MiB of one letter", Bounded, || Try { json: fixture("unigram"), config: String::new(), use_it: Use::Encode("a".repeat(16 << 20)) }),
    ("4 MiB of ligatures", Bounded, || Try { json: fixture("unigram"), config: String::new(), use_it: Use::Encode("\u{fdfa}".repeat(1 << 20)) }),
    ("16 Mi tokens", Bounded, || Try { json: fixture("llama2"), config: String::new(), use_it: Use::Decode(vec![5; 16 << 20]) }),
    // Templates and messages.
    ("template that repeats a text", Unused(OUT_OF_RANGE), || chat("{{ 'x' * 1000000000000 }}", one_message("a"))),
    ("template that doubles a text", Unused(OUT_OF_RANGE), || chat("{% set n = namespace(s='x') %}{% for i in range(100) %}{% set n.s = n.s ~ n.s %}{% endfor %}", one_message("a"))),
    ("template that doubles a list", Unused(OUT_OF_RANGE), || chat("{% set n = namespace(s=[1]) %}{% for i in range(100) %}{% set n.s = n.s + n.s %}{% endfor %}", one_message("a"))),
    ("template that keeps 8 MB many times", Unused(OUT_OF_RANGE), || chat("{% set n = namespace(l=[]) %}{% for i in range(1000) %}{% set n.l = n.l + ['x' * 8000000 ~ i] %}{% endfor %}", one_message("a"))),
    ("template of loops in loops", Unused(OUT_OF_RANGE), || chat("{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}x{% endfor %}{% endfor %}{% endfor %}", one_message("a"))),
    ("template that calls itself", Unused(OUT_OF_RANGE), || chat("{% macro m(n) %}{{ m(n) }}{{ m(n) }}{% endmacro %}{{ m(1) }}", one_message("a"))),
    ("template that indents without end", Unused(OUT_OF_RANGE), || chat("{{ messages | tojson(indent=100000000) }}", one_message("a"))),
    ("8,000,000 zeros as a message", Bounded, || chat("{{ messages[0].content }}", format!("[{{\"role\":\"user\",\"content\":{}}}]", zeros((8 << 20) - 100)))),
    ("16 MiB as a message, often", Bounded, || chat("{% for i in range(1000) %}{{ messages[0].content }}{% endfor %}", one_message(&"x".repeat(15 << 20)))),
];

fn limit(what: libc::__rlimit_resource_t, most: u64) {
    let limit = libc::rlimit {
        rlim_cur: most,
        rlim_max: most,
    };
    assert_eq!(unsafe { libc::setrlimit(what, &limit) }, 0);
}

/// In the process of one bomb: what became of it, in a line.
pub fn child(name: &str) {
    let (_, _, make) = BOMBS
        .iter()
        .find(|(n, ..)| *n == name)
        .expect("no such bomb");
    let bomb = make();
    limit(libc::RLIMIT_AS, SPACE);
    limit(libc::RLIMIT_CPU, SECONDS);
    let told = |step: &str, code: i32, message: &str| println!("{step} {code} {message}");
    let tokenizer = match Tokenizer::from_json(bomb.json.as_bytes(), bomb.config.as_bytes()) {
        Ok(tokenizer) => tokenizer,
        Err(e) => return told("open", e.code, &e.message),
    };
    // Not more than that comes out of a text; what stands around one is little.
    let within =
        |text: usize, made: usize| assert!(made <= 32 * text + (1 << 17), "{made} of {text}");
    let result = match &bomb.use_it {
        Use::Encode(text) => tokenizer
            .encode(text.as_bytes(), 1)
            .and_then(|tokens| {
                within(text.len(), tokens.len());
                let again = tokenizer.decode(&tokens, 0)?;
                within(6 * tokens.len(), again.len() / 32);
                tokenizer.encode_offsets(text.as_bytes(), 0)
            })
            .map(drop),
        Use::Decode(tokens) => tokenizer.decode(tokens, 0).map(drop),
        Use::Chat(messages) => tokenizer.chat_text(messages, "").map(drop),
    };
    match result {
        Ok(()) => told("done", 0, ""),
        Err(e) => told("use", e.code, &e.message),
    }
}

pub fn bombs() {
    assert!(BOMBS.len() >= 40);
    let program = std::env::current_exe().unwrap();
    let mut wrong = Vec::new();
    for (name, end, _) in BOMBS {
        let output = Command::new(&program)
            .args(["--bomb", name])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let fine = match end {
            Closed(code) => said.starts_with(&format!("open {code} ")),
            Unused(code) => said.starts_with(&format!("use {code} ")),
            Bounded => !said.is_empty(),
        };
        if !(output.status.success() && fine) {
            let errors = String::from_utf8_lossy(&output.stderr);
            let last: String = errors.chars().take(300).collect();
            wrong.push(format!(
                "{name}: {}: {}{last}",
                output.status,
                said.trim_end()
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        BOMBS.len(),
        wrong.join("\n")
    );
}
