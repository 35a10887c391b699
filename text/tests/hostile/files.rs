//! Files that mean harm: tokenizer.json and GGUF.

use crate::bounds::{measured, MB, ONE, SLOWEST};
use crate::support::capi::*;
use crate::support::strings::Stream;
use crate::support::{fixture, gguf, Scratch};
use serde_json::{json, Value};

/// Opens what may be a tokenizer; what opens must also work.
fn open_or_refuse(json: &[u8]) -> bool {
    match Tokenizer::from_json(json, b"") {
        Ok(tokenizer) => {
            for flags in [0, 1, 2] {
                if let Ok(ids) = tokenizer.encode("Hello, naïve wörld 12 <s>".as_bytes(), flags) {
                    let _ = tokenizer.decode(&ids, 0);
                }
            }
            let last = tokenizer.vocab_size() - 1;
            let _ = tokenizer.decode(&[0, last as i32], 1);
            true
        }
        Err(e) => {
            let codes = [FORMAT, UNSUPPORTED_MODEL, INVALID_UTF8]; // cut inside a character
            assert!(codes.contains(&e.code), "{e:?}");
            false
        }
    }
}

/// Every place in a JSON value, but only some of long lists.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_string());
    match value {
        Value::Object(map) => {
            let step = map.len() / 6 + 1;
            for key in map
                .keys()
                .enumerate()
                .filter(|(i, _)| map.len() < 30 || i % step == 0)
                .map(|(_, k)| k)
            {
                let key_at = key.replace('~', "~0").replace('/', "~1");
                places(&value[key], &format!("{at}/{key_at}"), found);
            }
        }
        Value::Array(list) => {
            let step = list.len() / 4 + 1;
            for i in (0..list.len()).step_by(step) {
                places(&list[i], &format!("{at}/{i}"), found);
            }
        }
        _ => {}
    }
}

pub fn malformed_tokenizers() {
    let (mut opened, mut refused) = (0, 0);
    let mut count = |ok: bool| if ok { opened += 1 } else { refused += 1 };
    for name in ["llama3", "roberta", "llama2", "unigram", "wordpiece"] {
        let text = fixture(name);
        for at in (0..text.len()).step_by(text.len() / 40) {
            count(open_or_refuse(&text.as_bytes()[..at]));
        }
        let whole: Value = serde_json::from_str(&text).unwrap();
        let mut all = Vec::new();
        places(&whole, "", &mut all);
        for at in &all {
            for other in [
                Value::Null,
                json!(-1),
                json!(1e300),
                json!("x"),
                json!([]),
                json!({}),
                json!([["a", 1], ["b"]]),
            ] {
                let mut changed = whole.clone();
                *changed.pointer_mut(at).unwrap() = other;
                count(open_or_refuse(changed.to_string().as_bytes()));
            }
        }
    }
    assert!(
        opened > 100 && refused > 1000,
        "{opened} opened, {refused} refused"
    );
}

pub fn odd_json() {
    let text = fixture("llama3");
    for json in [
        "".to_string(),
        "null".to_string(),
        "[]".to_string(),
        "{}".to_string(),
        "{\"version\": \"1.0\"}".to_string(),
        "\u{feff}".to_string() + &text,
        text.clone() + "{}",
        text.clone() + "\0",
        "[".repeat(1_000_000),
        "{\"a\":".repeat(1_000_000),
        text.replacen(
            "\"normalizer\":null",
            &format!(
                "\"normalizer\":{}",
                "{\"type\":\"Sequence\",\"normalizers\":[".repeat(5000)
            ),
            1,
        ),
    ] {
        let (result, took, grew) =
            measured(|| Tokenizer::from_json(json.as_bytes(), b"").map(drop));
        let error = result.unwrap_err();
        assert_eq!(error.code, FORMAT, "{}", error.message);
        assert!(
            took < SLOWEST && grew < 300 * MB,
            "{took:?}, {} MB",
            grew / MB
        );
    }
    // Twice the same key, twice the same token, an id twice: any answer but a crash.
    for json in [
        text.replacen(
            "\"version\":\"1.0\"",
            "\"version\":\"1.0\",\"version\":\"1.0\"",
            1,
        ),
        text.replacen("\"vocab\":{", "\"vocab\":{},\"vocab\":{", 1),
        text.replacen("\"vocab\":{", "\"vocab\":{\"!\":5,\"!\":6,", 1),
        text.replacen("\"vocab\":{", "\"vocab\":{\"zz\":4294967295,", 1),
        text.replacen("\"vocab\":{", "\"vocab\":{\"zz\":2147483647,", 1),
        text.replacen("\"vocab\":{", "\"vocab\":{\"zz\":99999999999,", 1),
        text.replacen("\"merges\":[", "\"merges\":[[\"!\",\"no such token\"],", 1),
        text.replacen("\"merges\":[", "\"merges\":[\"a b c\",", 1),
        text.replacen(
            "\"model\":",
            &format!(
                "\"x\":{}{},\"model\":",
                "[".repeat(100_000),
                "]".repeat(100_000)
            ),
            1,
        ),
        text.replacen("\"dropout\":null", "\"dropout\":1.0", 1),
        text.replacen("\"dropout\":null", "\"dropout\":0.5", 1),
        text.replacen("\\\\p{N}{1,3}", "\\\\p{N}{1,99999999}", 1),
        text.replacen(
            "\\\\p{N}{1,3}",
            "(((((a{1,200}){1,200}){1,200}){1,200}){1,200})",
            1,
        ),
        text.replacen("\\\\p{N}{1,3}", "(", 1),
    ] {
        assert_ne!(json, text);
        let (_, took, grew) = measured(|| open_or_refuse(json.as_bytes()));
        assert!(
            took < SLOWEST && grew < 300 * MB,
            "{took:?}, {} MB",
            grew / MB
        );
    }
    for config in [
        "",
        "[]",
        "5",
        "{",
        "{\"chat_template\": 5}",
        "{\"chat_template\": [5]}",
        "{\"chat_template\": [{\"name\": \"x\"}]}",
    ] {
        if !config.is_empty() {
            let error = Tokenizer::from_json(text.as_bytes(), config.as_bytes())
                .map(drop)
                .unwrap_err();
            assert_eq!(error.code, FORMAT, "{config}");
        }
    }
    for config in [
        "{\"eos_token\": {\"content\": 5}}",
        "{\"eos_token\": \"no such token\"}",
        "{\"_token\": \"<think>\"}",
    ] {
        Tokenizer::from_json(text.as_bytes(), config.as_bytes()).unwrap();
    }
}

/// The post-processor of a tokenizer.json names ids, which need not be those of its vocabulary.
pub fn ids_beyond_the_vocabulary() {
    let mut json: Value = serde_json::from_str(&fixture("roberta")).unwrap();
    let beyond = Tokenizer::from_json(json.to_string().as_bytes(), b"")
        .unwrap()
        .vocab_size();
    json["post_processor"]["sep"][1] = json!(beyond);
    let error = Tokenizer::from_json(json.to_string().as_bytes(), b"")
        .map(drop)
        .unwrap_err();
    assert_eq!(error.code, FORMAT);
    let named = format!("token {beyond} of a text");
    assert!(error.message.contains(&named), "{}", error.message);
}

pub fn malformed_gguf() {
    let scratch = Scratch::new("bad-gguf");
    let whole: Value = serde_json::from_str(&fixture("llama3")).unwrap();
    let bos = whole["added_tokens"][0]["id"].as_u64().unwrap() as u32;
    let good = || gguf::from_tokenizer_json(&whole, "llama-bpe");
    let file = good().u32("tokenizer.ggml.bos_token_id", bos).file();
    Tokenizer::open(&scratch.write("good.gguf", &file)).unwrap();

    let open = |bytes: &[u8]| {
        let (result, took, grew) =
            measured(|| Tokenizer::open(&scratch.write("x.gguf", bytes)).map(drop));
        assert!(
            took < SLOWEST && grew < 300 * MB,
            "{took:?}, {} MB",
            grew / MB
        );
        if let Err(e) = &result {
            assert!(
                [FORMAT, UNSUPPORTED_MODEL, NOT_FOUND].contains(&e.code),
                "{e:?}"
            );
        }
        result
    };
    let mut stream = Stream::new("gguf");
    for _ in 0..150 {
        open(&file[..stream.below(file.len())]).unwrap_err();
    }
    for _ in 0..600 {
        let mut changed = file.clone();
        for _ in 0..=stream.below(4) {
            let near = stream.below(2) == 0;
            let at = stream.below(if near { 400 } else { file.len() });
            changed[at] = [0, 1, 0x7f, 0x80, 0xff, 8, 9][stream.below(7)];
        }
        let _ = open(&changed);
    }
    let huge = u64::MAX.to_le_bytes();
    for (bytes, code) in [
        (gguf::Writer::default().file(), NOT_FOUND),
        (good().raw("tokenizer.ggml.added", 8, &huge).file(), FORMAT),
        (good().raw("x", 8, &huge).file(), FORMAT),
        (
            good()
                .raw("x", 9, &[&4u32.to_le_bytes()[..], &huge].concat())
                .file(),
            FORMAT,
        ),
        (
            good()
                .raw("x", 9, &[&8u32.to_le_bytes()[..], &huge].concat())
                .file(),
            FORMAT,
        ),
        (
            good()
                .raw(
                    "x",
                    9,
                    &[&9u32.to_le_bytes()[..], &1u64.to_le_bytes()].concat(),
                )
                .file(),
            FORMAT,
        ),
        (good().raw("x", 99, &[]).file(), FORMAT),
        (good().text("tokenizer.ggml.pre", "qwen2").file(), FORMAT),
        (
            good().text("tokenizer.ggml.bos_token_id", "1").file(),
            FORMAT,
        ),
        (
            good().u32("tokenizer.ggml.bos_token_id", 1 << 30).file(),
            FORMAT,
        ),
        (
            good()
                .bool("tokenizer.ggml.add_eos_token", true)
                .u32("tokenizer.ggml.bos_token_id", bos)
                .file(),
            FORMAT,
        ),
        (
            good().text("tokenizer.ggml.add_bos_token", "x").file(),
            FORMAT,
        ),
        (good().u32("tokenizer.chat_template", 5).file(), FORMAT),
        (
            gguf::from_tokenizer_json(&whole, "llama-pbe").file(),
            UNSUPPORTED_MODEL,
        ),
        (
            gguf::from_tokenizer_json(&whole, "").file(),
            UNSUPPORTED_MODEL,
        ),
        (
            gguf::Writer::default()
                .text("tokenizer.ggml.model", "rwkv")
                .file(),
            UNSUPPORTED_MODEL,
        ),
        (
            gguf::Writer::default()
                .text("tokenizer.ggml.model", "none")
                .file(),
            UNSUPPORTED_MODEL,
        ),
        (
            gguf::Writer::default()
                .text("tokenizer.ggml.model", "gpt2")
                .file(),
            FORMAT,
        ),
        (
            gguf::Writer::default()
                .text("tokenizer.ggml.model", "gpt2")
                .text("tokenizer.ggml.pre", "gpt-2")
                .file(),
            FORMAT,
        ),
        (
            gguf::Writer::default()
                .text("tokenizer.ggml.model", "gpt2")
                .text("tokenizer.ggml.pre", "gpt-2")
                .texts("tokenizer.ggml.tokens", &["a", "a"])
                .texts("tokenizer.ggml.merges", &[""; 0])
                .file(),
            FORMAT,
        ),
        (
            gguf::Writer::default()
                .text("tokenizer.ggml.model", "gpt2")
                .text("tokenizer.ggml.pre", "gpt-2")
                .texts("tokenizer.ggml.tokens", &["a", "b"])
                .texts("tokenizer.ggml.merges", &["a  b"])
                .file(),
            FORMAT,
        ),
        (b"GGUF".to_vec(), FORMAT),
        (b"GGUF\x01\0\0\0".to_vec(), UNSUPPORTED_MODEL),
        (b"GGUF\0\0\0\x03".to_vec(), UNSUPPORTED_MODEL),
    ] {
        assert_eq!(open(&bytes).unwrap_err().code, code);
    }
}

pub fn hundred_megabytes() {
    let tokenizer = Tokenizer::with_template("{{ messages[0].content }}").unwrap();
    let text = vec![b'a'; 100 * MB];
    let tokens = vec![5i32; 100 * MB / 4];
    let messages = format!(
        r#"[{{"role": "user", "content": "{}"}}]"#,
        "a".repeat(100 * MB)
    );
    let refused = |what: &str, body: &dyn Fn() -> i32, wanted: i32| {
        let (code, took, grew) = measured(body);
        assert_eq!(code, wanted, "{what}");
        assert!(
            took < SLOWEST && grew < 250 * MB,
            "{what}: {took:?}, {} MB",
            grew / MB
        );
    };
    refused(
        "encode",
        &|| tokenizer.encode(&text, 0).unwrap_err().code,
        OUT_OF_RANGE,
    );
    refused(
        "decode",
        &|| tokenizer.decode(&tokens, 0).unwrap_err().code,
        OUT_OF_RANGE,
    );
    refused(
        "messages",
        &|| tokenizer.chat_text(&messages, "").unwrap_err().code,
        OUT_OF_RANGE,
    );
    refused(
        "options",
        &|| tokenizer.chat_text(ONE, &messages).unwrap_err().code,
        OUT_OF_RANGE,
    );
    refused(
        "json",
        &|| Tokenizer::from_json(&text, b"").map(drop).unwrap_err().code,
        FORMAT,
    );
    refused(
        "config",
        &|| {
            Tokenizer::from_json(fixture("llama2").as_bytes(), &text)
                .map(drop)
                .unwrap_err()
                .code
        },
        FORMAT,
    );
    let path = std::str::from_utf8(&text).unwrap();
    refused(
        "path",
        &|| Tokenizer::open(path).map(drop).unwrap_err().code,
        NOT_FOUND,
    );
    refused(
        "file",
        &|| {
            let scratch = Scratch::new("large");
            Tokenizer::open(&scratch.write("tokenizer.json", &text))
                .map(drop)
                .unwrap_err()
                .code
        },
        FORMAT,
    );
}
