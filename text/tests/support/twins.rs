//! A vocabulary as a GGUF file and as a tokenizer.json: both give the same ids.

use super::capi::Tokenizer;
use super::strings::texts;
use super::{fixture, gguf, Scratch};
use serde_json::{json, Value};

const NORMAL: i32 = 1;
const UNKNOWN: i32 = 2;
const CONTROL: i32 = 3;
const BYTE: i32 = 6;

struct Pieces {
    texts: Vec<String>,
    types: Vec<i32>,
    scores: Vec<f32>,
}

impl Pieces {
    fn new(pieces: Vec<(String, f32)>) -> Pieces {
        let types = pieces.iter().map(|(text, _)| match text.as_str() {
            "<unk>" => UNKNOWN,
            "<s>" | "</s>" | "<pad>" => CONTROL,
            text if text.starts_with("<0x") => BYTE,
            _ => NORMAL,
        });
        Pieces {
            types: types.collect(),
            scores: pieces.iter().map(|piece| piece.1).collect(),
            texts: pieces.into_iter().map(|piece| piece.0).collect(),
        }
    }

    fn open(&self, model: &str, writer: gguf::Writer) -> Tokenizer {
        let scratch = Scratch::new(&format!("twin-{model}"));
        let file = writer
            .text("tokenizer.ggml.model", model)
            .texts("tokenizer.ggml.tokens", &self.texts)
            .i32s("tokenizer.ggml.token_type", &self.types)
            .f32s("tokenizer.ggml.scores", &self.scores)
            .bool("tokenizer.ggml.add_space_prefix", true)
            .file();
        Tokenizer::open(&scratch.write("model.gguf", file)).unwrap()
    }

    /// Merges as transformers makes them of scores: all ways to a piece, and of equal ones the one with
    /// the longest left part first.
    fn merges(&self) -> Vec<[&str; 2]> {
        let normal = |text: &str| {
            let at = self.texts.iter().position(|other| other == text);
            at.is_some_and(|id| self.types[id] == NORMAL)
        };
        let mut found = Vec::new();
        for (id, text) in self
            .texts
            .iter()
            .enumerate()
            .filter(|(id, _)| self.types[*id] == NORMAL)
        {
            for at in text.char_indices().skip(1).map(|(at, _)| at) {
                let (left, right) = text.split_at(at);
                if normal(left) && normal(right) {
                    let rank = (self.scores[id], left.chars().count(), right.chars().count());
                    found.push((rank, [left, right]));
                }
            }
        }
        found.sort_by(|a, b| b.0.partial_cmp(&a.0).unwrap());
        found.into_iter().map(|(_, pair)| pair).collect()
    }
}

fn spaces() -> Value {
    json!({"type": "Sequence", "normalizers": [
        {"type": "Prepend", "prepend": "\u{2581}"},
        {"type": "Replace", "pattern": {"String": " "}, "content": "\u{2581}"},
    ]})
}

fn compare(one: &Tokenizer, other: &Tokenizer, flags: &[i32]) {
    for text in texts() {
        for flags in flags {
            let ids = one.encode(text.as_bytes(), *flags).unwrap();
            let twin = other.encode(text.as_bytes(), *flags).unwrap();
            assert_eq!(ids, twin, "{flags} {text:?}");
            let decoded = one.decode(&ids, 1).unwrap();
            assert_eq!(decoded, other.decode(&ids, 1).unwrap(), "{text:?}");
        }
    }
}

pub fn bpe() {
    let mut json: Value = serde_json::from_str(&fixture("llama2")).unwrap();
    let mut vocab: Vec<(String, u64)> = json["model"]["vocab"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(text, id)| (text.clone(), id.as_u64().unwrap()))
        .collect();
    vocab.sort_by_key(|entry| entry.1);
    // The most frequent merges have the lowest ids.
    let pieces = Pieces::new(
        vocab
            .into_iter()
            .map(|(text, id)| (text, -(id as f32)))
            .collect(),
    );
    json["model"]["merges"] = json!(pieces.merges());
    let writer = gguf::Writer::default().u32("tokenizer.ggml.bos_token_id", 1);
    let twin = Tokenizer::from_json(json.to_string().as_bytes(), b"").unwrap();
    compare(&pieces.open("llama", writer), &twin, &[0, 1, 2]);
}

/// With scores whose sums are exact, since the crate adds them in f64; and with special tokens, since
/// it finds those that are written literally too.
pub fn unigram() {
    let mut json: Value = serde_json::from_str(&fixture("unigram")).unwrap();
    let mut pieces = Vec::new();
    for entry in json["model"]["vocab"].as_array_mut().unwrap() {
        let score = (entry[1].as_f64().unwrap() * 16.0).round() / 16.0;
        entry[1] = json!(score);
        pieces.push((entry[0].as_str().unwrap().to_string(), score as f32));
    }
    json["normalizer"] = spaces();
    json["pre_tokenizer"] = Value::Null;
    json["decoder"] = json!({"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "\u{2581}"}, "content": " "},
        {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0},
    ]});
    let writer = gguf::Writer::default().u32("tokenizer.ggml.eos_token_id", 1);
    let twin = Tokenizer::from_json(json.to_string().as_bytes(), b"").unwrap();
    compare(&Pieces::new(pieces).open("t5", writer), &twin, &[0, 1]);
}
