//! Tokenizers of GGUF files that are not byte-level: special tokens, chats, bytes.

use crate::support::capi::*;
use crate::support::gguf::Writer;
use crate::support::Scratch;
use crate::tokenizer;
use serde_json::json;

const MESSAGES: &str = r#"[{"role": "user", "content": "hello"}]"#;

pub fn pieces() {
    let llama = tokenizer("llama-spm.gguf");
    let info = llama.info();
    assert_eq!(info["source"], "gguf");
    assert_eq!(
        info["special_tokens"]["bos"],
        json!({"id": 1, "text": "<s>"})
    );
    assert_eq!(
        info["special_tokens"]["unk"],
        json!({"id": 0, "text": "<unk>"})
    );
    // </s>, and <|im_end|> by its name.
    let end = llama.encode(b"<|im_end|>", 0).unwrap();
    assert_eq!(info["end_tokens"], json!([2, end[0]]));
    let text = llama.chat_text(MESSAGES, "").unwrap();
    assert_eq!(text, "<s>[INST] hello [/INST]");
    let (tokens, _) = llama.chat_tokens(MESSAGES, "", 1).unwrap();
    assert_eq!(tokens, llama.encode(text.as_bytes(), 0).unwrap());
    assert_eq!(tokens.iter().filter(|id| **id == 1).count(), 1);
    assert_eq!(llama.decode(&tokens, 1).unwrap(), "[INST] hello [/INST]");
    // A character of three bytes: each is a token, and their text comes with the last.
    let ids = llama.encode("\u{2603}".as_bytes(), 0).unwrap();
    let stream = Detok::new(&llama, 0);
    let shown: Vec<String> = ids.iter().map(|id| stream.push(&[*id]).unwrap()).collect();
    assert_eq!(ids.len(), 4, "the space in front and three bytes");
    assert_eq!(shown.concat() + &stream.flush().unwrap(), "\u{2603}");
}

/// The marks of Phi-3 take the white space behind them, and those of others do not.
pub fn marks() {
    let scratch = Scratch::new("marks");
    let tokens = ["<unk>", "<s>", "<|user|>", "<|x|>", "\u{2581}", "a"];
    let open = |architecture: &str| {
        let file = Writer::default()
            .text("general.architecture", architecture)
            .text("tokenizer.ggml.model", "llama")
            .texts("tokenizer.ggml.tokens", &tokens)
            .i32s("tokenizer.ggml.token_type", &[2, 3, 3, 4, 1, 1])
            .f32s("tokenizer.ggml.scores", &[0.0; 6])
            .bool("tokenizer.ggml.add_bos_token", false)
            .file();
        Tokenizer::open(&scratch.write("model.gguf", file)).unwrap()
    };
    let text = "<|user|> \n a<s> a<|x|> a".as_bytes();
    let phi3 = [2, 4, 5, 1, 4, 4, 5, 3, 4, 4, 5];
    assert_eq!(open("phi3").encode(text, 0).unwrap(), phi3);
    let others = [2, 4, 4, 0, 4, 5, 1, 4, 4, 5, 3, 4, 4, 5];
    assert_eq!(open("llama").encode(text, 0).unwrap(), others);
}
