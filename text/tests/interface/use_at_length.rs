//! Many threads, and many of everything.

use crate::support::capi::*;
use crate::support::strings::texts;
use crate::support::{fixture, memory};
use crate::tokenizer;
use prefix_text::ffi::*;
use serde_json::json;

pub fn eight_threads() {
    let texts = texts();
    for name in ["llama3", "unigram"] {
        let tokenizer = tokenizer(name);
        let expected: Vec<Vec<i32>> = texts[..400]
            .iter()
            .map(|t| tokenizer.encode(t.as_bytes(), 0).unwrap())
            .collect();
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (tokenizer, texts, expected) = (&tokenizer, &texts, &expected);
                scope.spawn(move || {
                    for i in (0..400).map(|i| (i * 7 + thread * 50) % 400) {
                        let flags = if i % 3 == 0 { 2 } else { 0 };
                        let ids = tokenizer.encode(texts[i].as_bytes(), flags).unwrap();
                        if flags == 0 {
                            assert_eq!(ids, expected[i]);
                        }
                        let detok = Detok::new(tokenizer, 0);
                        let mut text = detok.push(&ids).unwrap();
                        text += &detok.flush().unwrap();
                        assert_eq!(text, tokenizer.decode(&ids, 0).unwrap());
                    }
                });
            }
        });
    }
    // One stream in two threads at once is told so, and never mixed up.
    let tokenizer = tokenizer("llama3");
    let detok = Detok::new(&tokenizer, 0);
    let handle = detok.0 as usize;
    let ids = tokenizer
        .encode("word ".repeat(20_000).as_bytes(), 0)
        .unwrap();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..20 {
                    let mut needed = 0;
                    let mut out = vec![0u8; 6 * ids.len()];
                    let outcome = call(|e| unsafe {
                        prefix_detok_push(
                            handle as *mut PrefixDetok,
                            ids.as_ptr(),
                            ids.len(),
                            out.as_mut_ptr(),
                            out.len(),
                            &mut needed,
                            e,
                        )
                    });
                    match outcome {
                        Ok(()) => {
                            let text = std::str::from_utf8(&out[..needed]).unwrap();
                            assert_eq!(text.replace("word ", ""), "");
                        }
                        Err(e) => assert_eq!(e.code, MISUSE),
                    }
                }
            });
        }
    });
    assert_eq!(detok.flush().unwrap(), "");
}

pub fn many_cycles() {
    let small = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
        "pre_tokenizer": {"type": "Whitespace"}, "post_processor": null, "decoder": null,
        "model": {"type": "WordLevel", "unk_token": "u", "vocab": {"u": 0, "a": 1, "b": 2}},
    })
    .to_string();
    let large = fixture("llama3");
    let config =
        json!({"chat_template": "{% for m in messages %}{{ m.content * 100 }}{% endfor %}"})
            .to_string();
    let messages = r#"[{"role": "user", "content": "abc"}]"#;
    let cycle = |json: &str| {
        let tokenizer = Tokenizer::from_json(json.as_bytes(), config.as_bytes()).unwrap();
        tokenizer.encode(b"a b a", 0).unwrap();
        let detok = Detok::new(&tokenizer, 0);
        detok.push(&[1, 2]).unwrap();
        tokenizer.chat_text(messages, "").unwrap();
        assert!(tokenizer.encode(b"\xff", 0).is_err() && Tokenizer::from_json(b"{", b"").is_err());
    };
    let run = |from: usize, to: usize| {
        for i in from..to {
            cycle(if i % 50 == 0 { &large } else { &small });
        }
    };
    run(0, 1000);
    let before = memory::resident();
    run(1000, 10_000);
    let grew = memory::resident().saturating_sub(before);
    assert!(grew < 4 << 20, "{} KB more after 9,000 cycles", grew >> 10);
}
