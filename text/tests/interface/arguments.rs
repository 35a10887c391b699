//! Arguments: pointers, lengths, flags, batches.

use crate::support::capi::*;
use crate::tokenizer;
use prefix_text::ffi::*;
use std::ptr::{null, null_mut};

pub fn arguments() {
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
        for flags in [8, 16, -1, i32::MIN] {
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
        assert!(error.message.len() < 456);
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

pub fn bad_batches() {
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
