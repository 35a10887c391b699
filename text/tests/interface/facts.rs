//! What a tokenizer says of itself, and the options of a chat.

use crate::support::capi::*;
use crate::support::{fixture, Scratch};
use serde_json::json;

pub fn facts() {
    let config = json!({"bos_token": "<|begin_of_text|>", "eos_token": {"content": "<|end_of_text|>"}, "pad_token": null,
                        "chat_template": [{"name": "default", "template": "a"}, {"name": "tool_use", "template": "b"}]});
    let json = fixture("llama3");
    let tokenizer = Tokenizer::from_json(json.as_bytes(), config.to_string().as_bytes()).unwrap();
    let id = |text: &str| tokenizer.encode(text.as_bytes(), 0).unwrap()[0];
    let info = tokenizer.info();
    assert_eq!(info["source"], "json");
    assert_eq!(info["vocab_size"], tokenizer.vocab_size());
    assert_eq!(
        info["special_tokens"]["eos"],
        json!({"id": id("<|end_of_text|>"), "text": "<|end_of_text|>"})
    );
    assert_eq!(info["chat_templates"], json!(["default", "tool_use"]));
    // <|eot_id|> ends a generation although nothing names it.
    let mut ends = [id("<|end_of_text|>"), id("<|eot_id|>")];
    ends.sort();
    assert_eq!(info["end_tokens"], json!(ends));
    let messages = r#"[{"role": "user", "content": "x"}]"#;
    assert_eq!(tokenizer.chat_text(messages, "").unwrap(), "a");
    assert_eq!(
        tokenizer
            .chat_text(messages, r#"{"tools": [{"name": "f"}]}"#)
            .unwrap(),
        "b"
    );
    assert_eq!(
        tokenizer
            .chat_text(messages, r#"{"template": "tool_use"}"#)
            .unwrap(),
        "b"
    );
    assert_eq!(
        tokenizer
            .chat_text(messages, r#"{"template": "x"}"#)
            .unwrap_err()
            .code,
        NOT_FOUND
    );

    // A directory: its own template file wins, and the tokens of generation_config.json end too.
    let scratch = Scratch::new("directory");
    scratch.write("m/tokenizer.json", &json);
    scratch.write("m/tokenizer_config.json", config.to_string());
    scratch.write(
        "m/special_tokens_map.json",
        r#"{"eos_token": "<think>", "mask_token": "</think>"}"#,
    );
    scratch.write("m/generation_config.json", r#"{"eos_token_id": [7, 9]}"#);
    scratch.write("m/config.json", r#"{"eos_token_id": 11}"#);
    scratch.write("m/chat_template.jinja", "file");
    let file = scratch.write("m/additional_chat_templates/rag.jinja", "rag");
    let folder = scratch.0.join("m");
    let tokenizer = Tokenizer::open(folder.to_str().unwrap()).unwrap();
    let info = tokenizer.info();
    assert_eq!(info["source"], "directory");
    assert_eq!(info["special_tokens"]["eos"]["text"], "<think>");
    assert_eq!(info["special_tokens"]["mask"]["text"], "</think>");
    let mut all = [7, 9, ends[0], ends[1], id("<think>")];
    all.sort();
    assert_eq!(info["end_tokens"], json!(all));
    assert_eq!(
        info["chat_templates"],
        json!(["default", "rag", "tool_use"])
    );
    assert_eq!(tokenizer.chat_text(messages, "").unwrap(), "file");
    assert!(Tokenizer::open(&file).is_err());
    // As in transformers 5.23, the map is not read where the other file lists the tokens.
    let mut listed = config.clone();
    listed["added_tokens_decoder"] = json!({});
    scratch.write("m/tokenizer_config.json", listed.to_string());
    let tokenizer = Tokenizer::open(folder.to_str().unwrap()).unwrap();
    let info = tokenizer.info();
    assert_eq!(info["special_tokens"]["eos"]["text"], "<|end_of_text|>");
    assert!(info["special_tokens"]["mask"].is_null());
    // Elsewhere lists of further tokens are put together, or the older one of them is that of the first file.
    for (own, map, wanted) in [
        (
            json!({"extra_special_tokens": ["<a>", "<b>"]}),
            json!({"extra_special_tokens": ["<b>", "<c>"]}),
            &["<a>", "<b>", "<c>"][..],
        ),
        (
            json!({"additional_special_tokens": ["<a>"]}),
            json!({"additional_special_tokens": ["<c>"], "pad_token": null}),
            &["<a>"],
        ),
        (
            json!({"extra_special_tokens": {"image_token": "<a>"}, "boi_token": "<b>"}),
            json!({"additional_special_tokens": ["<c>"], "boi_token": "<d>"}),
            &["<b>", "<a>", "<c>"],
        ),
        (
            json!({}),
            json!({"additional_special_tokens": ["<c>"]}),
            &["<c>"],
        ),
    ] {
        let mut config = config.clone();
        config["pad_token"] = json!("<think>");
        config
            .as_object_mut()
            .unwrap()
            .extend(own.as_object().unwrap().clone());
        scratch.write("m/tokenizer_config.json", config.to_string());
        scratch.write("m/special_tokens_map.json", map.to_string());
        let tokenizer = Tokenizer::open(folder.to_str().unwrap()).unwrap();
        let size = tokenizer.vocab_size() as usize;
        let found: Vec<String> = (size - wanted.len()..size)
            .map(|id| tokenizer.decode(&[id as i32], 0).unwrap())
            .collect();
        assert_eq!(found, wanted, "{map}");
        let has_pad = map.get("pad_token").is_none();
        assert_eq!(
            tokenizer.info()["special_tokens"]["pad"].is_object(),
            has_pad
        );
    }
    // A link that leads nowhere is not "no such file".
    let link = folder.join("special_tokens_map.json");
    std::fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink("absent", &link).unwrap();
    let error = Tokenizer::open(folder.to_str().unwrap())
        .map(drop)
        .unwrap_err();
    assert_eq!(error.code, NOT_FOUND);
    assert!(error.message.contains("special_tokens_map.json"));
    std::fs::remove_file(&link).unwrap();
    let more = folder.join("additional_chat_templates");
    std::fs::remove_dir_all(&more).unwrap();
    std::fs::write(&more, "").unwrap();
    let error = Tokenizer::open(folder.to_str().unwrap())
        .map(drop)
        .unwrap_err();
    assert!(error.message.contains("additional_chat_templates"));
    let alone = Tokenizer::open(&scratch.write("other.json", &json)).unwrap();
    assert_eq!(alone.info()["source"], "json");
    assert_eq!(alone.chat_text(messages, "").unwrap_err().code, NOT_FOUND);
    assert_eq!(
        Tokenizer::open(scratch.0.to_str().unwrap())
            .map(drop)
            .unwrap_err()
            .code,
        NOT_FOUND
    );
}

pub fn chat_options() {
    let tokenizer = Tokenizer::with_template(
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}</>{% endfor %}{% if add_generation_prompt %}<go>{% endif %}",
    )
    .unwrap();
    let messages = r#"[{"role": "user", "content": "é"}, {"role": "assistant", "content": "b"}]"#;
    for (options, code, word) in [
        (
            r#"{"add_generation_promt": true}"#,
            UNKNOWN_OPTION,
            "add_generation_prompt",
        ),
        (r#"{"now": "yesterday"}"#, INVALID_ARGUMENT, "2026-01-31"),
        (r#"{"tools": 5}"#, INVALID_ARGUMENT, "tools"),
        (r#"{"tools": [5]}"#, INVALID_ARGUMENT, "tools[0]"),
        (
            r#"{"add_generation_prompt": 1}"#,
            INVALID_ARGUMENT,
            "add_generation_prompt",
        ),
        (
            r#"{"variables": {"messages": []}}"#,
            INVALID_ARGUMENT,
            "messages",
        ),
        (
            r#"{"continue_final_message": true, "add_generation_prompt": true}"#,
            INVALID_ARGUMENT,
            "exclude",
        ),
        ("[]", INVALID_ARGUMENT, "object"),
        ("{", INVALID_ARGUMENT, "JSON"),
    ] {
        let error = tokenizer.chat_text(messages, options).unwrap_err();
        assert_eq!(error.code, code, "{options}: {}", error.message);
        assert!(error.message.contains(word), "{options}: {}", error.message);
    }
    for messages in [
        "",
        "{}",
        "[]",
        "[5]",
        r#"[{"content": "a"}]"#,
        r#"[{"role": 5}]"#,
        "[{\"role\": \"a\"}",
        "[[]]",
    ] {
        assert_eq!(
            tokenizer.chat_text(messages, "").unwrap_err().code,
            INVALID_ARGUMENT,
            "{messages}"
        );
    }
    // Tokens are those of the text; segments end where turns end and never fall.
    let text = tokenizer.chat_text(messages, "").unwrap();
    let (tokens, segments) = tokenizer.chat_tokens(messages, "", 2).unwrap();
    assert_eq!(tokens, tokenizer.encode(text.as_bytes(), 0).unwrap());
    assert_eq!(segments[2], tokens.len() as i64);
    assert!(
        segments.is_sorted() && segments[0] > 0 && segments[1] < segments[2],
        "{segments:?}"
    );
    let before = tokenizer
        .decode(&tokens[..segments[0] as usize], 0)
        .unwrap();
    assert!("<user>é</>".starts_with(before.trim_start()), "{before}");
}
