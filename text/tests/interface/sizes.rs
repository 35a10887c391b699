//! Results in buffers of the caller, of every size.

use crate::support::capi::*;
use crate::{tokenizer, FIXTURES};
use prefix_text::ffi::*;
use std::ptr::null_mut;

/// Every capacity: `needed` is always all of it, which is written whole or not at all; 0 only asks.
pub fn sizes() {
    let tokenizer = tokenizer("llama3");
    let text = "Ein naïver Text: 漢字 😀";
    let whole = tokenizer.encode(text.as_bytes(), 0).unwrap();
    for capacity in 0..whole.len() + 3 {
        let mut out = vec![-9i32; whole.len() + 4];
        let mut needed = 0;
        let outcome = call(|e| unsafe {
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
        });
        assert_eq!(needed, whole.len());
        let fits = capacity >= whole.len();
        match outcome {
            Ok(()) => assert!(fits || capacity == 0),
            Err(e) => {
                assert!(!fits && capacity > 0 && e.code == BUFFER_TOO_SMALL);
                let says = format!("out has room for {capacity}; {needed} are needed");
                assert_eq!(e.message, says);
            }
        }
        let written = if fits { whole.len() } else { 0 };
        assert_eq!(out[..written], whole[..written]);
        assert!(out[written..].iter().all(|id| *id == -9));
    }
    for capacity in 0..text.len() + 3 {
        let mut out = vec![0xeeu8; text.len() + 4];
        let mut needed = 0;
        let outcome = call(|e| unsafe {
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
        });
        assert_eq!(needed, text.len());
        // There must be room for the zero that follows.
        let fits = capacity > text.len();
        match outcome {
            Ok(()) => assert!(fits || capacity == 0),
            Err(e) => assert!(!fits && capacity > 0 && e.code == BUFFER_TOO_SMALL),
        }
        let end = if fits { text.len() + 1 } else { 0 };
        assert!(out[..end].starts_with(if fits { text.as_bytes() } else { b"" }));
        assert!(!fits || out[text.len()] == 0);
        assert!(out[end..].iter().all(|b| *b == 0xee));
    }
    // Two buffers: where the second is too small, neither is written.
    let mut ids = vec![-9i32; whole.len()];
    let mut offsets = vec![-9i64; 2 * whole.len()];
    let outcome = call(|e| unsafe {
        prefix_tokenizer_encode_offsets(
            tokenizer.0,
            text.as_ptr(),
            text.len(),
            0,
            ids.as_mut_ptr(),
            ids.len(),
            null_mut(),
            offsets.as_mut_ptr(),
            offsets.len() - 1,
            e,
        )
    });
    assert_eq!(outcome.unwrap_err().code, BUFFER_TOO_SMALL);
    assert!(ids.iter().all(|id| *id == -9) && offsets.iter().all(|at| *at == -9));
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
    more_tokens_than_bytes();
}

/// A text may have more tokens than bytes, where what it becomes is longer: `needed` tells.
fn more_tokens_than_bytes() {
    let mut longer = Vec::new();
    for name in FIXTURES {
        let tokenizer = tokenizer(name);
        for text in ["\u{fdfa}", "~"] {
            let encode = |out: &mut [i32], needed: &mut usize| {
                let (ids, capacity) = (out.as_mut_ptr(), out.len());
                call(|e| unsafe {
                    let at = text.as_ptr();
                    prefix_tokenizer_encode(
                        tokenizer.0,
                        at,
                        text.len(),
                        0,
                        ids,
                        capacity,
                        needed,
                        e,
                    )
                })
            };
            let whole = tokenizer.encode(text.as_bytes(), 0).unwrap();
            let (mut out, mut needed) = (vec![-9i32; text.len()], 0);
            let outcome = encode(&mut out, &mut needed);
            assert_eq!(needed, whole.len(), "{name}, {text}");
            if needed <= text.len() {
                assert_eq!((outcome, &out[..needed]), (Ok(()), &whole[..]));
                continue;
            }
            longer.push((name, text));
            assert_eq!(outcome.unwrap_err().code, BUFFER_TOO_SMALL);
            assert!(out.iter().all(|id| *id == -9));
            out.resize(needed, -9);
            encode(&mut out, &mut needed).unwrap();
            assert_eq!(out, whole);
        }
    }
    assert!(longer.contains(&("llama2", "~")), "{longer:?}");
    assert!(longer.contains(&("unigram", "\u{fdfa}")), "{longer:?}");
}

/// The bytes of single tokens: together they are the text, for byte-level vocabularies.
pub fn token_bytes() {
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
