//! GGUF files with pieces, scores and types that mean harm.

use crate::bounds::{measured, MB, SLOWEST};
use crate::support::capi::*;
use crate::support::gguf::Writer;
use crate::support::strings::Stream;
use crate::support::{file, Scratch};

const FIXTURES: [&str; 5] = ["llama-spm", "gemma-spm", "t5-spm", "bytes-spm", "wordpiece"];

const NORMAL: i32 = 1;
const UNKNOWN: i32 = 2;
const CONTROL: i32 = 3;
const BYTE: i32 = 6;

/// A small SentencePiece tokenizer, from which a test leaves out a key.
fn small(tokens: &[&str], types: &[i32], scores: &[f32], without: &str) -> Writer {
    of_model("llama", tokens, types, scores, without)
}

fn of_model(model: &str, tokens: &[&str], types: &[i32], scores: &[f32], without: &str) -> Writer {
    let mut writer = Writer::default().text("tokenizer.ggml.model", model);
    if without != "tokens" {
        writer = writer.texts("tokenizer.ggml.tokens", tokens);
    }
    if without != "token_type" {
        writer = writer.i32s("tokenizer.ggml.token_type", types);
    }
    if without != "scores" {
        writer = writer.f32s("tokenizer.ggml.scores", scores);
    }
    if without != "add_bos_token" {
        writer = writer.bool("tokenizer.ggml.add_bos_token", false);
    }
    writer
}

fn open(scratch: &Scratch, bytes: &[u8]) -> Outcome<Tokenizer> {
    let (result, took, grew) = measured(|| Tokenizer::open(&scratch.write("x.gguf", bytes)));
    assert!(
        took < SLOWEST && grew < 300 * MB,
        "{took:?}, {} MB",
        grew / MB
    );
    result
}

pub fn malformed_pieces() {
    let scratch = Scratch::new("bad-pieces");
    let tokens = ["<unk>", "<s>", "a", "b", "ab"];
    let types = [UNKNOWN, CONTROL, NORMAL, NORMAL, NORMAL];
    let scores = [0.0, 0.0, -1.0, -2.0, -0.5];
    let good = small(&tokens, &types, &scores, "");
    let tokenizer = open(&scratch, &good.file()).unwrap();
    assert_eq!(tokenizer.encode(b"aab", 0).unwrap(), [0, 2, 4]);

    let bytes = ["?", "<0x00>"];
    let with = |at: usize, token| {
        let mut changed = tokens;
        changed[at] = token;
        small(&changed, &types, &scores, "")
    };
    let typed = |at: usize, number| {
        let mut changed = types;
        changed[at] = number;
        small(&tokens, &changed, &scores, "")
    };
    let scored = |at: usize, score| {
        let mut changed = scores;
        changed[at] = score;
        small(&tokens, &types, &changed, "")
    };
    let long = "x".repeat(1025);
    for (writer, said) in [
        (
            small(&tokens, &types, &scores, "tokens"),
            "no tokenizer.ggml.tokens",
        ),
        (
            small(&tokens, &types, &scores, "scores"),
            "no tokenizer.ggml.scores",
        ),
        (
            small(&tokens, &types, &scores, "token_type"),
            "no tokenizer.ggml.token_type",
        ),
        (
            small(&tokens, &types, &scores, "add_bos_token"),
            "bos_token_id",
        ),
        (small(&[], &[], &[], ""), "tokens is empty"),
        (
            small(&tokens, &types[1..], &scores, ""),
            "token_type has 4 entries for 5",
        ),
        (
            small(&tokens, &types, &scores[1..], ""),
            "scores has 4 entries for 5",
        ),
        (typed(2, 0), "token 2 has the unknown type 0"),
        (typed(3, 7), "token 3 has the unknown type 7"),
        (typed(3, -1), "token 3 has the unknown type -1"),
        (typed(0, NORMAL), "neither an unknown token nor"),
        (
            typed(3, BYTE),
            "token 3 is of the type byte, but written \"b\"",
        ),
        (
            small(&bytes, &[UNKNOWN, BYTE], &[0.0; 2], ""),
            "none for the byte 1",
        ),
        (scored(2, f32::NAN), "token 2 has the score NaN"),
        (scored(4, f32::INFINITY), "token 4 has the score inf"),
        (with(3, "a"), "tokens 2 and 3 are both \"a\""),
        (
            with(3, &long),
            "token 3 has 1025 bytes; the limit for a piece is 1024",
        ),
        (with(0, &long), "unknown token has 1025 bytes"),
        (
            small(&tokens, &types, &scores, "").u32("tokenizer.ggml.unknown_token_id", 5),
            "unknown_token_id is 5, but there are 5 tokens",
        ),
        (
            small(&tokens, &types, &scores, "scores").texts("tokenizer.ggml.scores", &tokens),
            "not an array of numbers",
        ),
    ] {
        let error = open(&scratch, &writer.file()).map(drop).unwrap_err();
        assert_eq!(error.code, FORMAT, "{said}");
        assert!(error.message.contains(said), "{}", error.message);
    }
}

/// A charsmap is a list of bytes that hold a trie.
pub fn malformed_charsmaps() {
    let scratch = Scratch::new("bad-charsmaps");
    let of_bytes = |kind: u32, bytes: &[u8]| {
        let width = if kind < 2 { 1 } else { 4 };
        let count = (bytes.len() / width) as u64;
        let value = [&kind.to_le_bytes()[..], &count.to_le_bytes(), bytes].concat();
        of_model("t5", &["<unk>", "a"], &[UNKNOWN, NORMAL], &[0.0, -1.0], "")
            .bool("tokenizer.ggml.add_eos_token", false)
            .raw("tokenizer.ggml.precompiled_charsmap", 9, &value)
    };
    for kind in [0, 1] {
        open(&scratch, &of_bytes(kind, &[]).file()).unwrap();
        // A trie of one unit, with no key.
        open(
            &scratch,
            &of_bytes(kind, &[4, 0, 0, 0, 0, 0, 0, 0, 0]).file(),
        )
        .unwrap();
    }
    let large = vec![0; (4 << 20) + 1];
    for (writer, said) in [
        (
            of_bytes(0, &[1, 2, 3]),
            "of 3 bytes says that its trie has 0",
        ),
        (of_bytes(0, &[8, 0, 0, 0, 1, 2, 3, 4]), "trie has 8 of them"),
        (of_bytes(0, &[0xff; 16]), "trie has 4294967295 of them"),
        (of_bytes(0, &large), "the limit is 4194304"), // of elements, or of bytes
        (
            of_bytes(5, &[0, 1, 0, 0]),
            "has the number 256, which is no byte",
        ),
        (of_bytes(6, &[0; 4]), "not an array of integers"),
    ] {
        let error = open(&scratch, &writer.file()).map(drop).unwrap_err();
        assert_eq!(error.code, FORMAT, "{said}");
        assert!(error.message.contains(said), "{}", error.message);
    }
}

pub fn malformed_words() {
    let scratch = Scratch::new("bad-words");
    let tokens = [
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "\u{2581}un",
        "able",
        "\u{2581}Un",
    ];
    let types = [CONTROL, CONTROL, CONTROL, NORMAL, NORMAL, NORMAL];
    let good = |tokens: &[&str]| of_model("bert", tokens, &types[..tokens.len()], &[], "scores");
    let bert = |tokens: &[&str]| good(tokens).bool("tokenizer.ggml.add_sep_token", true);
    let ids = |writer: Writer, text: &str| {
        let tokenizer = open(&scratch, &writer.file()).unwrap();
        tokenizer.encode(text.as_bytes(), 1).unwrap()
    };
    let set = |writer: Writer| writer.bool("tokenizer.ggml.normalizer.lowercase", true);
    // What the vocabulary has in upper case is not made lower, unless the file says so.
    assert_eq!(ids(bert(&tokens), "unable Unable"), [3, 4, 5, 4, 2]);
    assert_eq!(ids(bert(&tokens[..5]), "unable Unable"), [3, 4, 3, 4, 2]);
    assert_eq!(ids(set(bert(&tokens)), "unable Unable"), [3, 4, 3, 4, 2]);
    assert_eq!(ids(bert(&tokens), "zz"), [0, 2]);
    for (writer, said) in [
        (bert(&["[PAD]", "[CLS]", "[SEP]"]), "nor [UNK]"),
        (bert(&["[UNK]", "[CLS]", "[PAD]"]), "nor [SEP]"),
        (
            bert(&["[UNK]", "[SEP]", "[SEP]"]),
            "tokens 1 and 2 are both \"[SEP]\"",
        ),
        (
            of_model("bert", &tokens, &types, &[], "token_type"),
            "no tokenizer.ggml.token_type",
        ),
        (
            bert(&["[UNK]", "[CLS]", "[SEP]", "\u{2581}##a", "a"]),
            "tokens 3 and 4 are both \"##a\"",
        ),
    ] {
        let error = open(&scratch, &writer.file()).map(drop).unwrap_err();
        assert_eq!(error.code, FORMAT, "{said}");
        assert!(error.message.contains(said), "{}", error.message);
    }
}

/// What opens must also work.
pub fn mutated_pieces() {
    let scratch = Scratch::new("mutated-pieces");
    let mut stream = Stream::new("pieces");
    for name in FIXTURES {
        let whole = std::fs::read(file(&format!("text/tests/fixtures/{name}.gguf"))).unwrap();
        for _ in 0..60 {
            let cut = &whole[..stream.below(whole.len())];
            assert_eq!(open(&scratch, cut).map(drop).unwrap_err().code, FORMAT);
        }
        for _ in 0..400 {
            let mut changed = whole.clone();
            for _ in 0..=stream.below(6) {
                let at = stream.below(changed.len());
                changed[at] = [0, 1, 0x7f, 0x80, 0xff, 5, 6][stream.below(7)];
            }
            match open(&scratch, &changed) {
                Err(e) => {
                    let codes = [FORMAT, UNSUPPORTED_MODEL, NOT_FOUND];
                    assert!(codes.contains(&e.code), "{e:?}");
                }
                Ok(tokenizer) => {
                    let text = "  Hello, na\u{ef}ve w\u{f6}rld <s>\u{2581}\u{6f22}\n\n".as_bytes();
                    for flags in [0, 1, 2] {
                        let ids = tokenizer.encode(text, flags).unwrap();
                        tokenizer.decode(&ids, 0).unwrap();
                    }
                }
            }
        }
    }
}

/// A long text in which every place begins a piece of every length, and one that is joined from one
/// end to the other.
pub fn texts_of_one_piece() {
    let scratch = Scratch::new("one-piece");
    let mut tokens = vec!["<unk>".to_string()];
    tokens.extend((1..=1024).map(|n| "a".repeat(n)));
    let mut types = vec![NORMAL; tokens.len()];
    types[0] = UNKNOWN;
    let tokens: Vec<&str> = tokens.iter().map(String::as_str).collect();
    // Long ones first, short ones first, all alike.
    for sign in [1.0, -1.0, 0.0] {
        let scores: Vec<f32> = (0..tokens.len()).map(|n| n as f32 * sign).collect();
        let writer =
            small(&tokens, &types, &scores, "").bool("tokenizer.ggml.add_space_prefix", false);
        let tokenizer = open(&scratch, &writer.file()).unwrap();
        let text = vec![b'a'; MB];
        let (ids, took, grew) = measured(|| tokenizer.encode(&text, 0).unwrap());
        assert_eq!(ids.iter().map(|id| *id as usize).sum::<usize>(), text.len());
        assert!(
            took < SLOWEST && grew < 400 * MB,
            "{took:?}, {} MB",
            grew / MB
        );
    }
}
