//! Ids, offsets and decoded texts against the Python package, on 10,000 texts for each tokenizer, and
//! ids of the tokenizers that GGUF files hold against theirs. tests/golden/text/tokens.jsonl and
//! gguf.jsonl have one hash for each hundred; on a difference the answers of the hundred are written
//! to a file, and tools/golden/text_golden.py --answers NAME BLOCK shows what they should be.

mod support;

use serde_json::Value;
use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use support::capi::Tokenizer;
use support::runner::{main as run, need, Skip};
use support::strings::{texts, BLOCK};
use support::{file, fixture, gguf, read, short_hash, Scratch, QWEN3, SMOLLM2};

const SPECIAL: i32 = 1;
const LITERAL: i32 = 2;
const SKIP_SPECIAL: i32 = 1;

fn all_texts() -> &'static [String] {
    static TEXTS: OnceLock<Vec<String>> = OnceLock::new();
    TEXTS.get_or_init(texts)
}

fn golden(name: &str) -> Vec<String> {
    let lines = ["tokens", "gguf"].map(|file| read(&format!("tests/golden/text/{file}.jsonl")));
    let lines = lines.concat();
    let entry = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .find(|entry| entry["name"] == name)
        .unwrap();
    let blocks = entry["blocks"].as_array().unwrap();
    blocks
        .iter()
        .map(|hash| hash.as_str().unwrap().to_string())
        .collect()
}

/// What tools/golden/text_tokens.py writes down of one text.
fn answer(tokenizer: &Tokenizer, text: &str) -> String {
    let mut out = String::new();
    let mut around = Vec::new();
    for flags in [0, SPECIAL, LITERAL] {
        let (ids, offsets) = tokenizer.encode_offsets(text.as_bytes(), flags).unwrap();
        for (i, id) in ids.iter().enumerate() {
            let comma = if i > 0 { "," } else { "" };
            write!(out, "{comma}{id}").unwrap();
        }
        out.push(';');
        for (i, pair) in offsets.chunks(2).enumerate() {
            let comma = if i > 0 { "," } else { "" };
            write!(out, "{comma}{}-{}", pair[0], pair[1]).unwrap();
        }
        out.push('\n');
        if flags == SPECIAL {
            around = ids;
        }
    }
    for flags in [0, SKIP_SPECIAL] {
        out.push_str(&tokenizer.decode(&around, flags).unwrap());
        out.push('\n');
    }
    out
}

/// What tools/golden/text_gguf.py writes down of one text.
fn ids_and_text(tokenizer: &Tokenizer, text: &str, decoded: bool) -> String {
    let lists = [0, SPECIAL, LITERAL].map(|flags| {
        let ids = tokenizer.encode(text.as_bytes(), flags).unwrap();
        let ids: Vec<String> = ids.iter().map(i32::to_string).collect();
        ids.join(",")
    });
    let splitting = ["<think>", "\n\n", "    "];
    if !decoded || splitting.iter().any(|mark| text.contains(mark)) {
        return lists.join(";") + ";\n";
    }
    let literal = tokenizer.encode(text.as_bytes(), LITERAL).unwrap();
    let decoded = tokenizer.decode(&literal, 0).unwrap();
    format!("{};{decoded}\n", lists.join(";"))
}

fn compare(name: &str, tokenizer: &Tokenizer) {
    compare_by(name, tokenizer, answer);
}

fn compare_by(
    name: &str,
    tokenizer: &Tokenizer,
    answer: impl Fn(&Tokenizer, &str) -> String + Sync,
) {
    let wanted = golden(name);
    let different = Mutex::new(Vec::new());
    let next = AtomicUsize::new(0);
    let answer = &answer;
    let work = || loop {
        let block = next.fetch_add(1, Ordering::Relaxed);
        let Some(texts) = all_texts().chunks(BLOCK).nth(block) else {
            return;
        };
        let answers: String = texts.iter().map(|text| answer(tokenizer, text)).collect();
        if short_hash(answers.as_bytes()) != wanted[block] {
            let place = std::env::temp_dir().join(format!("prefix-text-{name}-{block}.txt"));
            std::fs::write(&place, answers).unwrap();
            different.lock().unwrap().push(place);
        }
        // Ids alone are found in another way than with offsets.
        let text = texts[block % BLOCK].as_bytes();
        for flags in [0, SPECIAL, LITERAL] {
            let (ids, _) = tokenizer.encode_offsets(text, flags).unwrap();
            assert_eq!(ids, tokenizer.encode(text, flags).unwrap());
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        work();
    });
    let different = different.into_inner().unwrap();
    assert!(
        different.is_empty(),
        "{name}: other answers than the Python package: {different:?}"
    );
}

fn nothing() -> Skip {
    Skip::No
}

fn smollm2() -> Skip {
    need(SMOLLM2, "tools/fetch_model")
}

fn qwen3() -> Skip {
    need(QWEN3, "tools/golden/text_qwen3.py")
}

fn same_texts() {
    let found: Vec<String> = all_texts()
        .chunks(BLOCK)
        .map(|b| short_hash(b.concat().as_bytes()))
        .collect();
    assert_eq!(found, golden("texts"));
}

fn compare_fixture(name: &str) {
    compare(
        name,
        &Tokenizer::from_json(fixture(name).as_bytes(), b"").unwrap(),
    );
}

fn open_fixture(name: &str) -> Tokenizer {
    let path = file(&format!("text/tests/fixtures/{name}.gguf"));
    Tokenizer::open(path.to_str().unwrap()).unwrap()
}

/// A GGUF file of tools/golden/text_gguf.py.
fn compare_file(name: &str, decoded: bool) {
    compare_by(name, &open_fixture(name), |tokenizer, text| {
        ids_and_text(tokenizer, text, decoded)
    });
}

/// The same vocabulary through a GGUF file gives the same answers.
fn compare_gguf(name: &str, json: &str, pre: &str, bos: Option<u32>) {
    let scratch = Scratch::new(&format!("gguf-{name}"));
    let mut writer = gguf::from_tokenizer_json(&serde_json::from_str(json).unwrap(), pre);
    if let Some(bos) = bos {
        writer = writer.u32("tokenizer.ggml.bos_token_id", bos);
    }
    let path = scratch.write("model.gguf", writer.file());
    compare(name, &Tokenizer::open(&path).unwrap());
}

fn llama3_gguf() {
    let json = fixture("llama3");
    let parsed: Value = serde_json::from_str(&json).unwrap();
    let bos = parsed["added_tokens"][0]["id"].as_u64().unwrap() as u32;
    compare_gguf("llama3", &json, "llama-bpe", Some(bos));
}

fn qwen3_gguf() {
    compare_gguf(
        "qwen3",
        &read(&format!("{QWEN3}/tokenizer.json")),
        "qwen2",
        None,
    );
}

fn main() {
    run(&[
        (
            "texts_are_the_ones_of_the_golden_files",
            nothing,
            same_texts,
        ),
        ("llama3_json", nothing, || compare_fixture("llama3")),
        ("llama3_gguf", nothing, llama3_gguf),
        ("roberta_json", nothing, || compare_fixture("roberta")),
        ("llama2_json", nothing, || compare_fixture("llama2")),
        ("unigram_json", nothing, || compare_fixture("unigram")),
        ("wordpiece_json", nothing, || compare_fixture("wordpiece")),
        ("llama_spm_gguf", nothing, || {
            compare_file("llama-spm", true)
        }),
        ("gemma_spm_gguf", nothing, || {
            compare_file("gemma-spm", false)
        }),
        ("t5_spm_gguf", nothing, || compare_file("t5-spm", false)),
        ("bytes_spm_gguf", nothing, || {
            compare_file("bytes-spm", true)
        }),
        ("bpe_twins", nothing, support::twins::bpe),
        ("unigram_twins", nothing, support::twins::unigram),
        ("wordpiece_gguf", nothing, || {
            compare("wordpiece", &open_fixture("wordpiece"))
        }),
        ("smollm2_gguf", smollm2, || {
            compare(
                "smollm2",
                &Tokenizer::open(file(SMOLLM2).to_str().unwrap()).unwrap(),
            )
        }),
        ("qwen3_directory", qwen3, || {
            compare(
                "qwen3",
                &Tokenizer::open(file(QWEN3).to_str().unwrap()).unwrap(),
            )
        }),
        ("qwen3_gguf", qwen3, qwen3_gguf),
    ]);
}
