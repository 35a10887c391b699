//! Whole tasks in one call, on a tiny model that reads ASCII.
#![cfg(feature = "text")]

mod support;

use prefix::{Chat, Options, OptionsBuilder, Status, Task, TaskKind};
use support::{open, options, writing};

const DOCUMENTS: [&str; 3] = ["Bread is baked.", "Paris is big.", "A tree."];
const QUERIES: [&str; 2] = ["Which city?", "What is baked?"];

#[test]
fn one_call_ranks_embeds_and_classifies() {
    let (engine, tokenizer) = open();
    let ranking = prefix::rerank(&engine, &tokenizer, QUERIES[0], &DOCUMENTS, None).unwrap();
    assert_eq!((ranking.ranked.len(), ranking.failures.len()), (3, 0));

    let short = options().set("dimensions", 8).unwrap();
    let vectors = prefix::embed(&engine, &tokenizer, &DOCUMENTS, Some(&short)).unwrap();
    for vector in &vectors {
        let vector = vector.as_ref().unwrap();
        let norm: f32 = vector.iter().map(|x| x * x).sum();
        assert!(vector.len() == 8 && (norm - 1.0).abs() < 1e-3, "{vector:?}");
    }
    assert_eq!(vectors.len(), 3);

    let labels = ["food", "town", "plant"];
    let classes = prefix::classify(&engine, &tokenizer, &DOCUMENTS, &labels, None).unwrap();
    for class in &classes {
        let class = class.as_ref().unwrap();
        let sum: f32 = class.iter().map(|label| label.score).sum();
        assert!(class.len() == 3 && (sum - 1.0).abs() < 1e-4, "{class:?}");
        assert!(class.windows(2).all(|pair| pair[0].score >= pair[1].score));
    }
    assert_eq!(classes.len(), 3);
}

#[test]
fn one_call_answers_generates_and_chats() {
    let (engine, tokenizer) = open();
    let short = options().set("max_tokens", 5).unwrap();
    let short = Some(&short);
    let answers = prefix::answer(&engine, &tokenizer, DOCUMENTS[0], &QUERIES, short).unwrap();
    let texts = prefix::generate(&engine, &tokenizer, &DOCUMENTS, short).unwrap();
    let chats = [Chat::new().user("Hi \"you\"\n"), Chat::new().user("Go")];
    let messages = prefix::chat(&engine, &tokenizer, &chats, short).unwrap();
    assert_eq!((answers.len(), texts.len(), messages.len()), (2, 3, 2));
    for text in answers.iter().chain(&texts).chain(&messages) {
        assert!(text.as_ref().unwrap().len() <= 5 * 12, "{text:?}");
    }
}

/// One conversation for each thing that a template can be told, and what the one of the tests makes of it.
#[test]
fn templates_are_told_what_a_chat_says() {
    let (engine, tokenizer) = open();
    let chat = || Chat::new().user("Hi");
    let (turn, next) = ("<|start|>user: Hi<|end|>", "<|start|>assistant: ");
    let tools = r#"[{"name": "go"}, {"name": "stop"}]"#;
    let dated = chat().variable("dated", true).now("2026-01-31T23:59:59");
    let told = [
        (chat(), format!("{turn}{next}")),
        (chat().add_generation_prompt(false), turn.to_string()),
        (
            chat().continue_final_message(true),
            "<|start|>user: Hi".to_string(),
        ),
        (
            chat().continue_final_message(false),
            format!("{turn}{next}"),
        ),
        (chat().tools_json(tools), format!("[go][stop]{turn}{next}")),
        (
            chat().documents_json(r#"[{"text": "d"}]"#),
            format!("(d){turn}{next}"),
        ),
        (
            chat().variable("enable_thinking", true),
            format!("{turn}{next}<think>"),
        ),
        (dated, format!("2026-01-31 {turn}{next}")),
        (chat().template("short"), "Hi".to_string()),
    ];
    let short = options().set("max_tokens", 8).unwrap();
    let short = short.set("ignore_eos", true).unwrap();
    let mut builder = Task::builder(&engine, &tokenizer, TaskKind::Chat, Some(&short)).unwrap();
    for (item, (chat, text)) in told.iter().enumerate() {
        assert_eq!(tokenizer.chat_text(chat).unwrap(), *text);
        assert_eq!(builder.add_chat(chat).unwrap(), item);
        let tokens = builder.tokens(item).unwrap();
        assert_eq!(tokenizer.decode(&tokens, false).unwrap(), *text);
    }
    let task = builder.submit().unwrap();
    task.wait().unwrap();
    let chats = told.map(|(chat, _)| chat);
    let answers = prefix::chat(&engine, &tokenizer, &chats, Some(&short)).unwrap();
    for (item, answer) in answers.iter().enumerate() {
        assert_eq!(*answer.as_ref().unwrap(), task.text(item).unwrap());
    }
    assert_ne!(answers[0], answers[6], "what thinks says something else");
}

#[test]
fn a_template_option_that_is_wrong_is_named() {
    let (engine, tokenizer) = open();
    let chat = || Chat::new().user("Hi");
    let wrong = [
        (chat().option_json("add_prompt", "true"), "\"add_prompt\""),
        (chat().template("none"), "\"none\""),
        (chat().tools_json(r#"["go"]"#), "tools[0]"),
        (chat().documents_json("{}"), "documents"),
        (chat().variable_json("tools", "[]"), "not one of variables"),
        (chat().now("yesterday"), "yesterday"),
        (chat().variable("x", f64::NAN), "JSON"),
    ];
    let mut chats: Vec<Chat> = wrong.iter().map(|(chat, _)| chat.clone()).collect();
    chats.push(chat());
    let answers = prefix::chat(&engine, &tokenizer, &chats, None).unwrap();
    for ((chat, named), answer) in wrong.iter().zip(&answers) {
        let error = answer.as_ref().unwrap_err();
        assert!(error.message().contains(named), "{error}");
        let same = tokenizer.chat_text(chat).unwrap_err();
        assert!(same.message().contains(named), "{same}");
    }
    assert!(answers[wrong.len()].is_ok(), "the others are as ever");
}

#[test]
fn one_call_fails_only_when_nothing_succeeds() {
    let (engine, tokenizer) = open();
    let options = options().set("max_prompt_tokens", 20).unwrap();
    let options = options.set("truncate", "off").unwrap();
    let options = Some(&options);
    let long = "long ".repeat(100);
    let some = prefix::embed(&engine, &tokenizer, &[&long, "short"], options).unwrap();
    let error = some[0].as_ref().unwrap_err();
    assert_eq!(error.status(), Status::PromptTooLong);
    assert!(some[1].is_ok());
    let none = prefix::embed(&engine, &tokenizer, &[&long, &long], options).unwrap_err();
    assert_eq!(none.status(), Status::PromptTooLong);
    assert_eq!(none.message(), error.message());
    let nothing: [&str; 0] = [];
    let empty = prefix::embed(&engine, &tokenizer, &nothing, options).unwrap();
    assert!(empty.is_empty());
    let broken = [
        Chat::new().message_json("{"),
        Chat::new().user("Hi").user("you"),
    ];
    let some = prefix::chat(&engine, &tokenizer, &broken, None).unwrap();
    let error = some[0].as_ref().unwrap_err();
    assert_eq!(error.status(), Status::InvalidArgument);
    assert!(some[1].is_ok());
}

/// As Python's `error.partial`, Java's `partialTexts` and what Go gives beside its error.
#[test]
fn what_a_deadline_cut_off_comes_with_the_error() {
    let (engine, tokenizer) = open();
    let generate = |prompts: &[String], deadline| {
        let options = writing(150).set("deadline_ms", deadline).unwrap();
        prefix::generate(&engine, &tokenizer, prompts, Some(&options))
    };
    let once = vec!["once".to_string()];
    let whole = generate(&once, 0).unwrap().remove(0).unwrap();
    let (mut count, mut deadline) = (400, 1);
    loop {
        assert!(count < 10_000, "no deadline cut a text");
        let others = (1..count).map(|i| format!("{i} trees and more"));
        let prompts: Vec<String> = once.iter().cloned().chain(others).collect();
        let Err(error) = generate(&prompts, deadline) else {
            count *= 2; // some were done in time
            continue;
        };
        assert_eq!(error.status(), Status::Deadline);
        assert_eq!(error.partial_texts().len(), count);
        let begun = &error.partial_texts()[0];
        assert!(whole.starts_with(begun.as_str()), "{begun:?} {whole:?}");
        if !begun.is_empty() {
            break;
        }
        deadline *= 2; // it was not begun
    }
}

#[test]
fn an_error_has_the_texts_that_it_is_of() {
    let (engine, tokenizer) = open();
    let options = options().set("truncate", "off").unwrap();
    let options = Some(&options);
    let long = "long ".repeat(200);
    let some = prefix::generate(&engine, &tokenizer, &[&long, "short"], options).unwrap();
    assert_eq!(some[0].as_ref().unwrap_err().partial_texts(), [""]);
    assert!(some[1].is_ok());
    let none = prefix::generate(&engine, &tokenizer, &[&long, &long], options).unwrap_err();
    assert_eq!(none.partial_texts(), ["", ""]);
    let none = prefix::embed(&engine, &tokenizer, &[&long], options).unwrap_err();
    assert!(none.partial_texts().is_empty());
}

#[test]
fn texts_are_of_a_schema_an_expression_or_a_grammar() {
    let (engine, tokenizer) = open();
    let write = |rules: OptionsBuilder| {
        let options = rules.max_tokens(8).build().unwrap();
        prefix::generate(&engine, &tokenizer, &["one"], Some(&options))
    };
    // Token 2 ends texts of the model, and is a character for the tokenizer.
    let text = |rules| {
        let text = write(rules).unwrap().remove(0).unwrap();
        text.trim_end_matches('\u{2}').to_string()
    };
    let letters = text(Options::builder().regex("[ab]{4}"));
    assert!(letters.len() == 4 && letters.chars().all(|c| "ab".contains(c)));
    assert_eq!(text(Options::builder().grammar("start: \"yes\"")), "yes");
    let schema = r#"{"enum": ["only"]}"#;
    assert_eq!(text(Options::builder().json_schema(schema)), "\"only\"");
    let bad = write(Options::builder().json_schema(r#"{"type": "thing"}"#)).unwrap_err();
    assert_eq!(bad.status(), Status::InvalidArgument);
    assert!(bad.message().contains("thing"), "{bad}");
}
