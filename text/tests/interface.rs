//! The C interface: handles, sizes, streams, threads, forks, exports, silence.

mod support;

use prefix_text::ffi::*;
use serde_json::json;
use std::collections::BTreeSet;
use std::process::Command;
use std::ptr::{null, null_mut};
use support::capi::*;
use support::runner::{main as run, Skip};
use support::strings::{texts, Stream};
use support::{fixture, gguf, memory, read, Scratch};

const FIXTURES: [&str; 5] = ["llama3", "roberta", "llama2", "unigram", "wordpiece"];

fn tokenizer(name: &str) -> Tokenizer {
    Tokenizer::from_json(fixture(name).as_bytes(), b"").unwrap()
}

/// One call of every function with a tokenizer and of every one with a detokeniser.
type Calls = Vec<(&'static str, Outcome<()>)>;

fn calls_with(handle: *mut PrefixTokenizer) -> Calls {
    let (mut n, mut token, mut size) = (0, 0, 0);
    let mut detok = null_mut();
    let ids = [1i32];
    let cuts = [0i64, 1];
    let messages = br#"[{"role":"user","content":"a"}]"#;
    vec![
        (
            "retain",
            call(|e| unsafe { prefix_tokenizer_retain(handle, e) }),
        ),
        (
            "info",
            call(|e| unsafe { prefix_tokenizer_info_json(handle, null_mut(), 0, &mut n, e) }),
        ),
        (
            "vocab_size",
            call(|e| unsafe { prefix_tokenizer_vocab_size(handle, &mut size, e) }),
        ),
        (
            "special_token",
            call(|e| unsafe {
                prefix_tokenizer_special_token(handle, b"bos".as_ptr(), 3, &mut token, e)
            }),
        ),
        (
            "end_tokens",
            call(|e| unsafe { prefix_tokenizer_end_tokens(handle, null_mut(), 0, &mut n, e) }),
        ),
        (
            "token_bytes",
            call(|e| unsafe { prefix_tokenizer_token_bytes(handle, 1, null_mut(), 0, &mut n, e) }),
        ),
        (
            "token_id",
            call(|e| unsafe { prefix_tokenizer_token_id(handle, b"a".as_ptr(), 1, &mut token, e) }),
        ),
        (
            "encode",
            call(|e| unsafe {
                prefix_tokenizer_encode(handle, b"a".as_ptr(), 1, 0, null_mut(), 0, &mut n, e)
            }),
        ),
        (
            "encode_offsets",
            call(|e| unsafe {
                prefix_tokenizer_encode_offsets(
                    handle,
                    b"a".as_ptr(),
                    1,
                    0,
                    null_mut(),
                    0,
                    &mut n,
                    null_mut(),
                    0,
                    e,
                )
            }),
        ),
        (
            "encode_batch",
            call(|e| unsafe {
                let (text, cuts) = (b"a".as_ptr(), cuts.as_ptr());
                prefix_tokenizer_encode_batch(
                    handle,
                    text,
                    1,
                    cuts,
                    2,
                    0,
                    null_mut(),
                    0,
                    &mut n,
                    null_mut(),
                    0,
                    e,
                )
            }),
        ),
        (
            "decode",
            call(|e| unsafe {
                prefix_tokenizer_decode(handle, ids.as_ptr(), 1, 0, null_mut(), 0, &mut n, e)
            }),
        ),
        (
            "detok_create",
            call(|e| unsafe { prefix_detok_create(handle, 0, &mut detok, e) }),
        ),
        (
            "chat_text",
            call(|e| unsafe {
                prefix_tokenizer_chat_text(
                    handle,
                    messages.as_ptr(),
                    messages.len(),
                    null(),
                    0,
                    null_mut(),
                    0,
                    &mut n,
                    e,
                )
            }),
        ),
        (
            "chat_tokens",
            call(|e| unsafe {
                let (at, len) = (messages.as_ptr(), messages.len());
                prefix_tokenizer_chat_tokens(
                    handle,
                    at,
                    len,
                    null(),
                    0,
                    null_mut(),
                    0,
                    &mut n,
                    null_mut(),
                    0,
                    e,
                )
            }),
        ),
    ]
}

fn detok_calls_with(handle: *mut PrefixDetok) -> Calls {
    let mut n = 0;
    vec![
        (
            "push",
            call(|e| unsafe { prefix_detok_push(handle, null(), 0, null_mut(), 0, &mut n, e) }),
        ),
        (
            "flush",
            call(|e| unsafe { prefix_detok_flush(handle, null_mut(), 0, &mut n, e) }),
        ),
    ]
}

fn all_fail(calls: Calls, code: i32) {
    for (name, outcome) in calls {
        let error = outcome.expect_err(name);
        assert_eq!(error.code, code, "{name}: {}", error.message);
        assert!(error.domain.contains(name), "{} in {name}", error.domain);
    }
}

fn handles() {
    let tokenizer = tokenizer("llama3");
    let detok = Detok::new(&tokenizer, 0);
    all_fail(calls_with(null_mut()), INVALID_ARGUMENT);
    all_fail(detok_calls_with(null_mut()), INVALID_ARGUMENT);
    // Numbers that were never handles, and a handle of the other kind.
    let far = tokenizer.0 as usize + (1 << 30);
    for garbage in [
        1,
        8,
        15,
        17,
        far,
        far + 1,
        usize::MAX,
        usize::MAX - 15,
        1 << 63,
        detok.0 as usize,
    ] {
        all_fail(calls_with(garbage as *mut PrefixTokenizer), MISUSE);
        unsafe { prefix_tokenizer_release(garbage as *mut PrefixTokenizer) };
    }
    for garbage in [1, 16 * 9999, far, usize::MAX, tokenizer.0 as usize] {
        all_fail(detok_calls_with(garbage as *mut PrefixDetok), MISUSE);
        unsafe { prefix_detok_release(garbage as *mut PrefixDetok) };
    }
    unsafe {
        prefix_tokenizer_release(null_mut());
        prefix_detok_release(null_mut());
    }
    // Nothing of that has released these two.
    assert_eq!(
        detok.push(&[5]).unwrap(),
        tokenizer.decode(&[5], 0).unwrap()
    );

    let released = support::capi::Tokenizer::from_json(fixture("llama3").as_bytes(), b"").unwrap();
    let handle = released.0;
    drop(released);
    all_fail(calls_with(handle), MISUSE);
    unsafe { prefix_tokenizer_release(handle) };
    let released = Detok::new(&tokenizer, 0);
    let handle = released.0;
    drop(released);
    all_fail(detok_calls_with(handle), MISUSE);
    unsafe { prefix_detok_release(handle) };
}

fn references() {
    let first = tokenizer("llama3");
    let detok = Detok::new(&first, 0);
    call(|e| unsafe { prefix_tokenizer_retain(first.0, e) }).unwrap();
    unsafe { prefix_tokenizer_release(first.0) };
    assert!(first.vocab_size() > 900);
    drop(first);
    // A detokeniser keeps its tokenizer alive.
    assert_eq!(detok.push(&[0]).unwrap() + &detok.flush().unwrap(), "!");
}

fn arguments() {
    let tokenizer = tokenizer("llama3");
    let t = tokenizer.0;
    let mut n = 7usize;
    let mut out = null_mut();
    let code = |outcome: Outcome<()>| outcome.unwrap_err().code;
    unsafe {
        // A result that has nowhere to go, a buffer that is not there, a text that is not there.
        assert_eq!(
            code(call(|e| prefix_tokenizer_open(
                b"x".as_ptr(),
                1,
                null_mut(),
                e
            ))),
            INVALID_ARGUMENT
        );
        assert_eq!(
            code(call(|e| prefix_tokenizer_open(null(), 5, &mut out, e))),
            INVALID_ARGUMENT
        );
        assert_eq!(
            code(call(|e| prefix_tokenizer_open(
                null(),
                PREFIX_NUL,
                &mut out,
                e
            ))),
            INVALID_ARGUMENT
        );
        assert_eq!(
            code(call(|e| prefix_tokenizer_open(
                b"".as_ptr(),
                0,
                &mut out,
                e
            ))),
            INVALID_ARGUMENT
        );
        assert_eq!(
            code(call(|e| prefix_tokenizer_open(
                b"a\0b".as_ptr(),
                3,
                &mut out,
                e
            ))),
            INVALID_ARGUMENT
        );
        assert_eq!(
            code(call(|e| prefix_tokenizer_open(
                c"/no/such".as_ptr().cast(),
                PREFIX_NUL,
                &mut out,
                e
            ))),
            NOT_FOUND
        );
        assert_eq!(
            code(call(|e| prefix_tokenizer_open(
                b"/no/such".as_ptr(),
                8,
                &mut out,
                e
            ))),
            NOT_FOUND
        );
        assert_eq!(
            code(call(|e| prefix_tokenizer_from_json(
                null(),
                3,
                null(),
                0,
                &mut out,
                e
            ))),
            INVALID_ARGUMENT
        );
        assert_eq!(
            code(call(|e| prefix_tokenizer_from_json(
                null(),
                0,
                null(),
                0,
                null_mut(),
                e
            ))),
            INVALID_ARGUMENT
        );
        assert!(out.is_null());
        assert_eq!(
            code(call(|e| prefix_tokenizer_vocab_size(t, null_mut(), e))),
            INVALID_ARGUMENT
        );
        assert_eq!(
            code(call(|e| prefix_detok_create(t, 0, null_mut(), e))),
            INVALID_ARGUMENT
        );
        assert_eq!(
            code(call(|e| prefix_tokenizer_encode(
                t,
                null(),
                5,
                0,
                null_mut(),
                0,
                &mut n,
                e
            ))),
            INVALID_ARGUMENT
        );
        assert_eq!(
            code(call(|e| prefix_tokenizer_encode(
                t,
                null(),
                PREFIX_NUL,
                0,
                null_mut(),
                0,
                &mut n,
                e
            ))),
            INVALID_ARGUMENT
        );
        assert_eq!(
            code(call(|e| prefix_tokenizer_encode(
                t,
                b"a".as_ptr(),
                1,
                0,
                null_mut(),
                9,
                &mut n,
                e
            ))),
            INVALID_ARGUMENT
        );
        assert_eq!(
            code(call(|e| prefix_tokenizer_decode(
                t,
                null(),
                3,
                0,
                null_mut(),
                0,
                &mut n,
                e
            ))),
            INVALID_ARGUMENT
        );
        assert_eq!(
            code(call(|e| prefix_tokenizer_decode(
                t,
                b"a".as_ptr().cast(),
                usize::MAX - 1,
                0,
                null_mut(),
                0,
                &mut n,
                e
            ))),
            OUT_OF_RANGE
        );
        let mut token = 5;
        assert_eq!(
            code(call(|e| prefix_tokenizer_token_id(
                t,
                b"no such".as_ptr(),
                7,
                &mut token,
                e
            ))),
            NOT_FOUND
        );
        assert_eq!(
            code(call(|e| prefix_tokenizer_token_id(
                t,
                b"a".as_ptr(),
                1,
                null_mut(),
                e
            ))),
            INVALID_ARGUMENT
        );
        assert_eq!(
            code(call(|e| prefix_tokenizer_special_token(
                t,
                b"bos".as_ptr(),
                3,
                &mut token,
                e
            ))),
            NOT_FOUND
        );
        for flags in [4, 8, -1, i32::MIN] {
            assert_eq!(
                code(call(|e| prefix_tokenizer_encode(
                    t,
                    b"a".as_ptr(),
                    1,
                    flags,
                    null_mut(),
                    0,
                    &mut n,
                    e
                ))),
                INVALID_ARGUMENT
            );
        }
        for flags in [2, -1] {
            assert_eq!(
                code(call(|e| prefix_tokenizer_decode(
                    t,
                    [1].as_ptr(),
                    1,
                    flags,
                    null_mut(),
                    0,
                    &mut n,
                    e
                ))),
                INVALID_ARGUMENT
            );
        }
        assert_eq!(n, 7, "needed is written on success only");
        // Without an error, and with one of another version, there is only the status.
        assert_eq!(
            prefix_tokenizer_vocab_size(null(), null_mut(), null_mut()),
            INVALID_ARGUMENT
        );
        let mut short = PrefixError::new();
        short.struct_size = 16;
        assert_eq!(
            prefix_tokenizer_vocab_size(null(), null_mut(), &mut short),
            INVALID_ARGUMENT
        );
        assert_eq!((short.code, short.message[0]), (0, 0));
        // An error is written whole: longer messages than it holds are cut between characters.
        let long = "é".repeat(2000);
        let error =
            call(|e| prefix_tokenizer_token_id(t, long.as_ptr(), long.len(), &mut token, e))
                .unwrap_err();
        assert!(error.message.len() < 472);
        // needed may be NULL; texts may end with a zero.
        let mut ids = [0i32; 4];
        call(|e| {
            prefix_tokenizer_encode(
                t,
                c"a".as_ptr().cast(),
                PREFIX_NUL,
                0,
                ids.as_mut_ptr(),
                4,
                null_mut(),
                e,
            )
        })
        .unwrap();
        assert_eq!(ids[0], tokenizer.encode(b"a", 0).unwrap()[0]);
    }
    assert!(tokenizer.encode(b"", 0).unwrap().is_empty());
    assert_eq!(tokenizer.decode(&[], 0).unwrap(), "");
    let size = tokenizer.vocab_size() as i32;
    for bad in [-1, size, i32::MAX, i32::MIN] {
        assert_eq!(
            tokenizer.decode(&[1, bad], 0).unwrap_err().code,
            OUT_OF_RANGE
        );
        let mut n = 0;
        let outcome = call(|e| unsafe {
            prefix_tokenizer_token_bytes(tokenizer.0, bad, null_mut(), 0, &mut n, e)
        });
        assert_eq!(outcome.unwrap_err().code, OUT_OF_RANGE);
    }
}

/// Every capacity: `needed` is always all of it, what fits is written, what does not is not touched.
fn sizes() {
    let tokenizer = tokenizer("llama3");
    let text = "Ein naïver Text: 漢字 😀";
    let whole = tokenizer.encode(text.as_bytes(), 0).unwrap();
    for capacity in 0..whole.len() + 3 {
        let mut out = vec![-9i32; whole.len() + 4];
        let mut needed = 0;
        call(|e| unsafe {
            let at = text.as_ptr();
            prefix_tokenizer_encode(
                tokenizer.0,
                at,
                text.len(),
                0,
                out.as_mut_ptr(),
                capacity,
                &mut needed,
                e,
            )
        })
        .unwrap();
        assert_eq!(needed, whole.len());
        let written = capacity.min(whole.len());
        assert_eq!(out[..written], whole[..written]);
        assert!(out[written..].iter().all(|id| *id == -9));
    }
    for capacity in 0..text.len() + 3 {
        let mut out = vec![0xeeu8; text.len() + 4];
        let mut needed = 0;
        call(|e| unsafe {
            let (ids, n) = (whole.as_ptr(), whole.len());
            prefix_tokenizer_decode(
                tokenizer.0,
                ids,
                n,
                0,
                out.as_mut_ptr(),
                capacity,
                &mut needed,
                e,
            )
        })
        .unwrap();
        assert_eq!(needed, text.len());
        let written = capacity.min(text.len());
        assert_eq!(out[..written], text.as_bytes()[..written]);
        // A zero follows when there is room.
        let end = written + usize::from(capacity > text.len());
        assert!(out[written..end].iter().all(|b| *b == 0));
        assert!(out[end..].iter().all(|b| *b == 0xee));
    }
    // Offsets and batches: each buffer has its own capacity.
    let (ids, offsets) = tokenizer.encode_offsets(text.as_bytes(), 0).unwrap();
    assert_eq!((ids.len() * 2, &ids), (offsets.len(), &whole));
    let cuts = [0i64, 4, 4, text.len() as i64];
    let mut ends = [-1i64; 4];
    let batch = filled(100, |out, cap, needed, e| unsafe {
        prefix_tokenizer_encode_batch(
            tokenizer.0,
            text.as_ptr(),
            text.len(),
            cuts.as_ptr(),
            4,
            0,
            out,
            cap,
            needed,
            ends.as_mut_ptr(),
            4,
            e,
        )
    })
    .unwrap();
    let first = tokenizer.encode(&text.as_bytes()[..4], 0).unwrap();
    let second = tokenizer.encode(&text.as_bytes()[4..], 0).unwrap();
    assert_eq!(batch, [first.clone(), second].concat());
    assert_eq!(
        ends,
        [
            0,
            first.len() as i64,
            first.len() as i64,
            batch.len() as i64
        ]
    );
}

fn bad_batches() {
    let tokenizer = tokenizer("llama3");
    let text = "aé\u{fffd}b".as_bytes();
    let n = text.len() as i64;
    let batch = |cuts: &[i64]| {
        filled::<i32>(100, |out, cap, needed, e| unsafe {
            let (at, len, cuts_at, cuts_len) =
                (text.as_ptr(), text.len(), cuts.as_ptr(), cuts.len());
            prefix_tokenizer_encode_batch(
                tokenizer.0,
                at,
                len,
                cuts_at,
                cuts_len,
                0,
                out,
                cap,
                needed,
                null_mut(),
                0,
                e,
            )
        })
    };
    assert!(batch(&[0, n]).is_ok());
    assert_eq!(batch(&[]).unwrap_err().code, INVALID_ARGUMENT);
    for cuts in [
        &[1, n][..],
        &[0],
        &[0, n - 1],
        &[0, n + 1],
        &[0, 3, 2, n],
        &[0, -1, n],
        &[0, i64::MAX, n],
        &[0, i64::MIN, n],
    ] {
        assert_eq!(batch(cuts).unwrap_err().code, OUT_OF_RANGE, "{cuts:?}");
    }
    let error = batch(&[0, 1, 2, n]).unwrap_err();
    assert_eq!(error.code, INVALID_UTF8);
    assert!(error.message.contains("text 1"), "{}", error.message);
}

/// However tokens arrive, the pieces add up to the decoded text; and no piece ends inside a character.
fn streams() {
    let texts = texts();
    let mut stream = Stream::new("streams");
    for name in FIXTURES {
        let tokenizer = tokenizer(name);
        let size = tokenizer.vocab_size() as usize;
        for flags in [0, 1] {
            let detok = Detok::new(&tokenizer, flags);
            for round in 0..250 {
                // Real texts, texts cut anywhere, and any tokens at all.
                let mut ids = tokenizer
                    .encode(texts[stream.below(9000) / 10 * 10].as_bytes(), round % 2)
                    .unwrap();
                match round % 5 {
                    3 => drop(ids.drain(..stream.below(ids.len() + 1))),
                    4 => {
                        ids = (0..stream.below(60))
                            .map(|_| stream.below(size) as i32)
                            .collect()
                    }
                    _ => {}
                }
                ids.truncate(400);
                let mut text = String::new();
                let mut at = 0;
                while at < ids.len() {
                    let n = (1 + stream.below(5)).min(ids.len() - at);
                    text += &detok.push(&ids[at..at + n]).unwrap();
                    at += n;
                }
                text += &detok.flush().unwrap();
                assert_eq!(
                    text,
                    tokenizer.decode(&ids, flags).unwrap(),
                    "{name} {flags} {ids:?}"
                );
            }
        }
    }
}

fn stream_rules() {
    let tokenizer = tokenizer("llama3");
    let detok = Detok::new(&tokenizer, 0);
    let ids = tokenizer.encode("漢字漢字".as_bytes(), 0).unwrap();
    let push = |ids: &[i32], cap: usize| {
        let mut needed = 0;
        let mut out = vec![0xeeu8; cap];
        call(|e| unsafe {
            prefix_detok_push(
                detok.0,
                ids.as_ptr(),
                ids.len(),
                out.as_mut_ptr(),
                cap,
                &mut needed,
                e,
            )
        })
        .map(|()| (needed, out))
    };
    // Too small a buffer gets nothing, and the text waits.
    let (needed, out) = push(&ids, 11).unwrap();
    assert_eq!(needed, 12);
    assert!(out.iter().all(|b| *b == 0xee));
    let (needed, out) = push(&[], 12).unwrap();
    assert_eq!((needed, &out[..]), (12, "漢字漢字".as_bytes()));
    assert_eq!(push(&[], 12).unwrap().0, 0);
    // A bad token takes none of the tokens with it.
    assert_eq!(push(&[ids[0], -1], 50).unwrap_err().code, OUT_OF_RANGE);
    assert_eq!(push(&[], 50).unwrap().0, 0);
    assert_eq!(detok.flush().unwrap(), "");
    // Half a character waits, and is U+FFFD at the end. The handle goes on with the next stream.
    let half = &tokenizer.encode("é漢".as_bytes(), 0).unwrap()[..1];
    let first = detok.push(half).unwrap();
    assert_eq!(
        first + &detok.flush().unwrap(),
        tokenizer.decode(half, 0).unwrap()
    );
    assert_eq!(detok.push(&ids).unwrap(), "漢字漢字");
}

/// The bytes of single tokens: together they are the text, for byte-level vocabularies.
fn token_bytes() {
    for name in FIXTURES {
        let tokenizer = tokenizer(name);
        let bytes = |id| {
            sized::<u8>(|out, cap, needed, e| unsafe {
                prefix_tokenizer_token_bytes(tokenizer.0, id, out, cap, needed, e)
            })
            .unwrap()
        };
        for id in 0..tokenizer.vocab_size() as i32 {
            bytes(id);
        }
        if name == "llama3" {
            let text = "Any text: naïve 漢字 😀\u{0}\n";
            let ids = tokenizer.encode(text.as_bytes(), 0).unwrap();
            let joined: Vec<u8> = ids.into_iter().flat_map(bytes).collect();
            assert_eq!(joined, text.as_bytes());
        }
    }
}

fn facts() {
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
    assert_eq!(info["special_tokens"]["eos"]["text"], "<|end_of_text|>");
    assert_eq!(info["special_tokens"]["mask"]["text"], "</think>");
    assert_eq!(info["end_tokens"], json!([7, 9, ends[0], ends[1]]));
    assert_eq!(
        info["chat_templates"],
        json!(["default", "rag", "tool_use"])
    );
    assert_eq!(tokenizer.chat_text(messages, "").unwrap(), "file");
    assert!(Tokenizer::open(&file).is_err());
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

fn chat_options() {
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

fn eight_threads() {
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
                    let outcome = call(|e| unsafe {
                        prefix_detok_push(
                            handle as *mut PrefixDetok,
                            ids.as_ptr(),
                            ids.len(),
                            null_mut(),
                            0,
                            &mut needed,
                            e,
                        )
                    });
                    assert!(outcome.is_ok() || outcome.unwrap_err().code == MISUSE);
                }
            });
        }
    });
    let text = detok.push(&[]).unwrap();
    assert_eq!(text.replace("word ", ""), "");
}

fn many_cycles() {
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

fn exports() {
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

fn versions() {
    assert_eq!(prefix_text_abi_version(), 1);
    let version = unsafe { std::ffi::CStr::from_ptr(prefix_text_version_string().cast()) };
    assert_eq!(version.to_str().unwrap(), env!("CARGO_PKG_VERSION"));
}

/// Starts this program again to do `what`, and gives what it printed.
fn again(what: &str) -> std::process::Output {
    Command::new(std::env::current_exe().unwrap())
        .env("PREFIX_TEXT_TEST", what)
        .output()
        .unwrap()
}

fn silence() {
    let done = again("noise");
    assert!(done.status.success());
    assert_eq!((done.stdout.len(), done.stderr.len()), (0, 0), "{done:?}");
}

/// Everything that could tempt a library to print: failures of all kinds, and panics inside.
fn noise() {
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

/// A child of a fork may not use what its parent opened, and learns so without waiting for ever.
fn fork() {
    let done = again("fork");
    assert_eq!(done.status.code(), Some(0), "{done:?}");
}

fn forked() {
    let tokenizer = tokenizer("wordpiece");
    unsafe {
        let child = libc::fork();
        if child == 0 {
            let mut size = 0;
            let status = prefix_tokenizer_vocab_size(tokenizer.0, &mut size, null_mut());
            libc::_exit(if status == 201 { 0 } else { 1 });
        }
        let mut status = -1;
        libc::waitpid(child, &mut status, 0);
        assert_eq!(status, 0);
    }
}

fn main() {
    match std::env::var("PREFIX_TEXT_TEST").as_deref() {
        Ok("noise") => return noise(),
        Ok("fork") => return forked(),
        _ => {}
    }
    let nothing = || Skip::No;
    run(&[
        ("versions", nothing, versions),
        ("handles", nothing, handles),
        ("references", nothing, references),
        ("arguments", nothing, arguments),
        ("sizes", nothing, sizes),
        ("bad_batches", nothing, bad_batches),
        ("streams", nothing, streams),
        ("stream_rules", nothing, stream_rules),
        ("token_bytes", nothing, token_bytes),
        ("facts", nothing, facts),
        ("chat_options", nothing, chat_options),
        ("eight_threads", nothing, eight_threads),
        ("many_cycles", nothing, many_cycles),
        ("exports", nothing, exports),
        ("silence", nothing, silence),
        ("fork", nothing, fork),
    ]);
}
