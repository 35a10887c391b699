//! Texts that come piece by piece.

use crate::support::capi::*;
use crate::support::strings::{texts, Stream};
use crate::{tokenizer, FIXTURES};
use prefix_text::ffi::*;

/// However tokens arrive, the pieces add up to the decoded text; and no piece ends inside a character.
pub fn streams() {
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

pub fn stream_rules() {
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
    // Asking for the size and too small a buffer take none of the tokens.
    assert_eq!(push(&ids, 0).unwrap().0, 12);
    assert_eq!(push(&ids, 12).unwrap_err().code, BUFFER_TOO_SMALL);
    let (needed, out) = push(&ids, 13).unwrap();
    assert_eq!((needed, &out[..12]), (12, "漢字漢字".as_bytes()));
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

/// A row of tokens that may yet become characters is held back, but not for ever.
pub fn held_back() {
    let words =
        r#"{"model": {"type": "WordLevel", "unk_token": "?", "vocab": {"?": 0, "\ufffd": 1}}}"#;
    let tokenizer = Tokenizer::from_json(words.as_bytes(), b"").unwrap();
    let detok = Detok::new(&tokenizer, 0);
    assert_eq!(detok.push(&[1; 63]).unwrap(), "");
    let all = ["\u{fffd}"; 64].join(" ");
    assert_eq!(detok.push(&[1]).unwrap(), all);
    // And so on, after what was shown.
    assert_eq!(detok.push(&[1; 63]).unwrap(), "");
    assert_eq!(detok.push(&[1]).unwrap(), format!(" {all}"));
    assert_eq!(detok.flush().unwrap(), "");
}
