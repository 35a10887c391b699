//! Texts that mean harm.

use crate::bounds::{measured, MB, SLOWEST};
use crate::support::capi::*;
use crate::support::fixture;
use prefix_text::ffi::prefix_tokenizer_encode_batch;
use serde_json::{json, Value};
use std::ptr::{null, null_mut};

/// The longest text that is taken: one word, one kind of space, one kind of digit.
pub fn longest_text() {
    for (name, piece) in [
        ("llama3", "a"),
        ("llama2", " "),
        ("llama3", "é"),
        ("llama2", "a "),
        ("unigram", "ab "),
        ("wordpiece", "a"),
    ] {
        let tokenizer = Tokenizer::from_json(fixture(name).as_bytes(), b"").unwrap();
        let text = piece.repeat(MB / piece.len());
        let (ids, took, grew) = measured(|| tokenizer.encode(text.as_bytes(), 0).unwrap());
        assert!(!ids.is_empty());
        assert!(
            took < SLOWEST && grew < 500 * MB,
            "{name} {piece:?}: {took:?}, {} MB",
            grew / MB
        );
    }
}

/// The engine of regexes gives up on a million characters of white space; the crate would leave the
/// rest of the text in one piece.
pub fn long_white_space() {
    let tokenizer = Tokenizer::from_json(fixture("llama3").as_bytes(), b"").unwrap();
    for space in [" ", "\u{3000}"] {
        let text = space.repeat(999_000) + "x";
        let before = text.len() - 1 - space.len();
        // The last space goes with the word.
        let mut wanted = tokenizer.encode(&text.as_bytes()[..before], 0).unwrap();
        wanted.extend(tokenizer.encode(&text.as_bytes()[before..], 0).unwrap());
        assert_eq!(tokenizer.encode(text.as_bytes(), 0).unwrap(), wanted);
        let error = tokenizer
            .encode((space.repeat(1_000_001) + "x").as_bytes(), 0)
            .expect_err("a million spaces");
        assert_eq!(error.code, OUT_OF_RANGE);
        assert!(error.message.contains("1000000"), "{}", error.message);
    }
}

pub fn invalid_utf8() {
    let tokenizer = Tokenizer::with_template("{{ messages[0].content }}").unwrap();
    for (bytes, at, byte) in [
        (&b"ab\xffcd"[..], 2, "0xff"),
        (b"\x80", 0, "0x80"),
        ("é\u{20ac}".as_bytes().split_at(3).0, 2, "0xe2"),
        (b"a\xc0\x80", 1, "0xc0"),
        (b"a\xed\xa0\x80", 1, "0xed"),
        (b"\xf4\x90\x80\x80", 0, "0xf4"),
    ] {
        let error = tokenizer.encode(bytes, 0).unwrap_err();
        assert_eq!(error.code, INVALID_UTF8);
        assert!(
            error.message.contains(byte) && error.message.contains(&format!("{at}")),
            "{}",
            error.message
        );
        assert_eq!(
            tokenizer.encode_offsets(bytes, 0).unwrap_err().code,
            INVALID_UTF8
        );
        assert_eq!(
            Tokenizer::from_json(bytes, b"").map(drop).unwrap_err().code,
            INVALID_UTF8
        );
        assert_eq!(
            Tokenizer::from_json(b"{}", bytes)
                .map(drop)
                .unwrap_err()
                .code,
            INVALID_UTF8
        );
    }
}

/// How many tokens so many empty texts have together, of a tokenizer that puts 1,024 around each.
fn batch_of_empty_texts(tokenizer: &Tokenizer, texts: usize) -> Outcome<usize> {
    let offsets = vec![0i64; texts + 1];
    let mut needed = 0;
    call(|err| unsafe {
        prefix_tokenizer_encode_batch(
            tokenizer.0,
            null(),
            0,
            offsets.as_ptr(),
            offsets.len(),
            1,
            null_mut(),
            0,
            &mut needed,
            null_mut(),
            0,
            err,
        )
    })?;
    Ok(needed)
}

pub fn longest_batch() {
    let mut file: Value = serde_json::from_str(&fixture("wordpiece")).unwrap();
    let cls = &mut file["post_processor"]["special_tokens"]["[CLS]"];
    cls["ids"] = json!(vec![2; 1023]);
    cls["tokens"] = json!(vec!["[CLS]"; 1023]);
    let tokenizer = Tokenizer::from_json(file.to_string().as_bytes(), b"").unwrap();
    let texts = 16 * MB / 1024;
    assert_eq!(batch_of_empty_texts(&tokenizer, texts), Ok(16 * MB));
    let (outcome, _, grew) = measured(|| batch_of_empty_texts(&tokenizer, texts + 1));
    let error = outcome.expect_err("a text more");
    assert_eq!(error.code, OUT_OF_RANGE);
    assert!(error.message.contains("16777216"), "{}", error.message);
    assert!(grew < 250 * MB, "{} MB", grew / MB);
}
