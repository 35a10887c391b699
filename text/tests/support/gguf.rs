//! Writes the metadata of a GGUF file, right or wrong.

use serde_json::Value;

#[derive(Default)]
pub struct Writer {
    pairs: u64,
    bytes: Vec<u8>,
}

fn string(text: &[u8]) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes(), text].concat()
}

impl Writer {
    pub fn raw(mut self, key: &str, kind: u32, value: &[u8]) -> Self {
        self.pairs += 1;
        self.bytes.extend(string(key.as_bytes()));
        self.bytes.extend(kind.to_le_bytes());
        self.bytes.extend(value);
        self
    }

    pub fn text(self, key: &str, value: &str) -> Self {
        self.raw(key, 8, &string(value.as_bytes()))
    }

    pub fn u32(self, key: &str, value: u32) -> Self {
        self.raw(key, 4, &value.to_le_bytes())
    }

    pub fn bool(self, key: &str, value: bool) -> Self {
        self.raw(key, 7, &[value.into()])
    }

    pub fn texts(self, key: &str, values: &[impl AsRef<str>]) -> Self {
        let mut bytes = [
            &8u32.to_le_bytes()[..],
            &(values.len() as u64).to_le_bytes(),
        ]
        .concat();
        for value in values {
            bytes.extend(string(value.as_ref().as_bytes()));
        }
        self.raw(key, 9, &bytes)
    }

    pub fn i32s(self, key: &str, values: &[i32]) -> Self {
        let mut bytes = [
            &5u32.to_le_bytes()[..],
            &(values.len() as u64).to_le_bytes(),
        ]
        .concat();
        for value in values {
            bytes.extend(value.to_le_bytes());
        }
        self.raw(key, 9, &bytes)
    }

    pub fn f32s(self, key: &str, values: &[f32]) -> Self {
        let mut bytes = [
            &6u32.to_le_bytes()[..],
            &(values.len() as u64).to_le_bytes(),
        ]
        .concat();
        for value in values {
            bytes.extend(value.to_le_bytes());
        }
        self.raw(key, 9, &bytes)
    }

    pub fn file(self) -> Vec<u8> {
        let mut file = b"GGUF".to_vec();
        file.extend(3u32.to_le_bytes());
        file.extend(0u64.to_le_bytes());
        file.extend(self.pairs.to_le_bytes());
        file.extend(self.bytes);
        file
    }
}

/// The tokenizer of a tokenizer.json as converters write it: tokens by id, their types, merges.
pub fn from_tokenizer_json(json: &Value, pre: &str) -> Writer {
    const NORMAL: i32 = 1;
    const CONTROL: i32 = 3;
    const USER_DEFINED: i32 = 4;
    const UNUSED: i32 = 5;
    let vocab = json["model"]["vocab"].as_object().unwrap();
    let added = json["added_tokens"].as_array().unwrap();
    let id_of = |v: &Value| v.as_u64().unwrap() as usize;
    let ids = vocab
        .values()
        .map(id_of)
        .chain(added.iter().map(|a| id_of(&a["id"])));
    let size = ids.max().unwrap() + 1;
    let mut tokens: Vec<String> = (0..size).map(|id| format!("[PAD{id}]")).collect();
    let mut types = vec![UNUSED; size];
    for (token, id) in vocab {
        tokens[id_of(id)] = token.clone();
        types[id_of(id)] = NORMAL;
    }
    for entry in added {
        let id = id_of(&entry["id"]);
        tokens[id] = entry["content"].as_str().unwrap().to_string();
        types[id] = if entry["special"] == true {
            CONTROL
        } else {
            USER_DEFINED
        };
    }
    let merges: Vec<String> = json["model"]["merges"]
        .as_array()
        .unwrap()
        .iter()
        .map(|merge| match merge {
            Value::String(text) => text.clone(),
            pair => format!(
                "{} {}",
                pair[0].as_str().unwrap(),
                pair[1].as_str().unwrap()
            ),
        })
        .collect();
    Writer::default()
        .text("tokenizer.ggml.model", "gpt2")
        .text("tokenizer.ggml.pre", pre)
        .texts("tokenizer.ggml.tokens", &tokens)
        .i32s("tokenizer.ggml.token_type", &types)
        .texts("tokenizer.ggml.merges", &merges)
}
