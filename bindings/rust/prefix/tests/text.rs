//! Tokenizers, chats and streams, with a vocabulary of a few words.
#![cfg(feature = "text")]

mod support;

use prefix::text::Special;
use prefix::{Chat, Status, Token, Tokenizer};

/// 256 bytes and two special tokens.
fn tokenizer() -> Tokenizer {
    support::load_library();
    let (tokenizer, config) = support::byte_tokenizer(256);
    Tokenizer::from_json(&tokenizer, Some(&config)).unwrap()
}

fn bytes(text: &str) -> Vec<Token> {
    text.bytes().map(Token::from).collect()
}

#[test]
fn text_and_back() {
    let tokenizer = tokenizer();
    let text = "été, 😀 \"quoted\"";
    let tokens = tokenizer.encode(text, Special::Written).unwrap();
    assert_eq!(tokens, bytes(text));
    assert_eq!(tokenizer.decode(&tokens, false).unwrap(), text);
    assert_eq!(tokenizer.encode("", Special::Added).unwrap(), []);
    assert_eq!(tokenizer.vocab_size().unwrap(), 258);
    assert_eq!(tokenizer.token_bytes(0xc3).unwrap(), [0xc3]);
    assert_eq!(
        tokenizer.token_bytes(258).unwrap_err().status(),
        Status::OutOfRange
    );
    assert!(tokenizer.info_json().unwrap().contains("\"vocab_size\""));
    assert_eq!(prefix::text::version().unwrap().split('.').count(), 3);
}

#[test]
fn special_tokens_are_recognised_or_literal() {
    let tokenizer = tokenizer();
    assert_eq!(tokenizer.special_token("eos").unwrap(), 257);
    assert_eq!(
        tokenizer.special_token("bos").unwrap_err().status(),
        Status::NotFound
    );
    assert_eq!(tokenizer.token_id("<|start|>").unwrap(), 256);
    assert_eq!(
        tokenizer.token_id("word").unwrap_err().status(),
        Status::NotFound
    );
    assert!(tokenizer.end_tokens().unwrap().contains(&257));
    assert_eq!(
        tokenizer.encode("a<|end|>", Special::Written).unwrap(),
        [97, 257]
    );
    assert_eq!(
        tokenizer.encode("a<|end|>", Special::Literal).unwrap(),
        bytes("a<|end|>")
    );
    assert_eq!(tokenizer.decode(&[97, 257], true).unwrap(), "a");
    assert_eq!(tokenizer.decode(&[97, 257], false).unwrap(), "a<|end|>");
}

#[test]
fn a_text_that_goes_on_another_has_no_space_put_in_front() {
    support::load_library();
    let (tokenizer, config) = support::byte_tokenizer(256);
    let prepends = r#""normalizer": {"type": "Prepend", "prepend": " "}"#;
    let tokenizer = tokenizer.replace("\"normalizer\": null", prepends);
    let tokenizer = Tokenizer::from_json(&tokenizer, Some(&config)).unwrap();
    for (special, wanted) in [
        (Special::Written, vec![32, 97, 257]),
        (Special::Continues, vec![97, 257]),
        (Special::LiteralContinues, bytes("a<|end|>")),
    ] {
        let tokens = tokenizer.encode("a<|end|>", special).unwrap();
        assert_eq!(tokens, wanted, "{special:?}");
    }
}

#[test]
fn tokens_know_where_they_come_from() {
    let encoding = tokenizer().encode_ranges("aé", Special::Written).unwrap();
    assert_eq!(encoding.tokens, bytes("aé"));
    assert_eq!(
        encoding.ranges,
        [0..1, 1..3, 1..3],
        "parts of one character have all of it"
    );
}

#[test]
fn many_texts_in_one_call() {
    let texts = ["one", "", "three", "😀"];
    let tokens = tokenizer().encode_batch(&texts, Special::Written).unwrap();
    assert_eq!(tokens, texts.map(bytes));
    let none: [&str; 0] = [];
    assert_eq!(
        tokenizer().encode_batch(&none, Special::Written).unwrap(),
        Vec::<Vec<Token>>::new()
    );
}

#[test]
fn streams_never_cut_a_character() {
    let tokenizer = tokenizer();
    let mut detok = tokenizer.detok(true).unwrap();
    drop(tokenizer); // the stream keeps it
    let text = "né 😀";
    let pieces: Vec<String> = bytes(text)
        .iter()
        .map(|t| detok.push(&[*t]).unwrap())
        .collect();
    assert_eq!(pieces, ["n", "", "é", " ", "", "", "", "😀"]);
    assert_eq!(detok.flush().unwrap(), "");
    assert_eq!(detok.push(&[0x61, 0xc3]).unwrap(), "a");
    assert_eq!(detok.flush().unwrap(), "\u{fffd}");
    let long = "word ".repeat(5000);
    assert_eq!(
        detok.push(&bytes(&long)).unwrap() + &detok.flush().unwrap(),
        long
    );
    let error = detok.push(&[97, 9999]).unwrap_err();
    assert_eq!(error.status(), Status::OutOfRange);
    assert_eq!(
        detok.push(&[98]).unwrap(),
        "b",
        "none of the failed call was taken"
    );
}

#[test]
fn a_chat_becomes_a_prompt_with_turns() {
    let tokenizer = tokenizer();
    let chat = Chat::new()
        .system("Be \"brief\".")
        .user("Hi\n")
        .assistant("Yes?")
        .user("Go");
    let text = "<|start|>system: Be \"brief\".<|end|><|start|>user: Hi\n<|end|>\
                <|start|>assistant: Yes?<|end|><|start|>user: Go<|end|><|start|>assistant: ";
    assert_eq!(tokenizer.chat_text(&chat).unwrap(), text);
    let prompt = tokenizer.chat_prompt(&chat).unwrap();
    assert_eq!(prompt.tokens, tokenizer.chat_tokens(&chat).unwrap());
    assert_eq!(
        prompt.tokens,
        tokenizer.encode(text, Special::Written).unwrap()
    );
    assert_eq!((chat.len(), prompt.turns.len()), (4, 5));
    assert_eq!(*prompt.turns.last().unwrap(), prompt.tokens.len());
    let first = tokenizer
        .decode(&prompt.tokens[..prompt.turns[1]], false)
        .unwrap();
    assert_eq!(
        first,
        "<|start|>system: Be \"brief\".<|end|><|start|>user: Hi\n<|end|>"
    );

    let open = chat.clone().add_generation_prompt(false);
    assert!(tokenizer.chat_text(&open).unwrap().ends_with("Go<|end|>"));
    let tokens = tokenizer.chat_tokens(&open).unwrap();
    assert_eq!(
        tokenizer.decode(&tokens, false).unwrap(),
        tokenizer.chat_text(&open).unwrap()
    );
    let odd = chat.option_json("add_prompt", "false");
    let error = tokenizer.chat_text(&odd).unwrap_err();
    assert_eq!(error.status(), Status::UnknownOption);
    assert!(error.message().contains("\"add_prompt\""), "{error}");
    let broken = Chat::new().message_json("{");
    assert_eq!(
        tokenizer.chat_text(&broken).unwrap_err().status(),
        Status::InvalidArgument
    );
}

#[test]
fn files_that_are_none_are_refused() {
    support::load_library();
    assert_eq!(
        Tokenizer::open("/nowhere").unwrap_err().status(),
        Status::NotFound
    );
    let error = Tokenizer::from_json("{}", None).unwrap_err();
    assert_eq!(error.status(), Status::Format);
    assert!(!error.message().is_empty());
}

#[test]
fn one_tokenizer_serves_many_threads() {
    fn share<T: Send + Sync + Clone + 'static>(_: &T) {}
    let tokenizer = tokenizer();
    share(&tokenizer);
    std::thread::scope(|scope| {
        for i in 0..8 {
            let tokenizer = tokenizer.clone();
            scope.spawn(move || {
                let text = format!("thread {i} ").repeat(100);
                let tokens = tokenizer.encode(&text, Special::Literal).unwrap();
                assert_eq!(tokenizer.decode(&tokens, false).unwrap(), text);
            });
        }
    });
}
