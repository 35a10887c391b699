//! Ready-made tasks, on a tiny model that reads ASCII.
#![cfg(feature = "text")]

mod support;

use std::time::Duration;

use prefix::{tasks, Engine, Finish, Status, Tokenizer};
use support::bits;

fn open() -> (Engine, Tokenizer) {
    let folder = support::ascii_model();
    let options = support::options().set("threads", 1).unwrap();
    (
        Engine::open_with(&folder, &options).unwrap(),
        Tokenizer::open(&folder).unwrap(),
    )
}

const DOCUMENTS: [&str; 3] = ["Bread is baked.", "Paris is big.", "A tree."];

#[test]
fn rerank_scores_every_document_for_every_query() {
    let (engine, tokenizer) = open();
    let queries = ["Which city?", "What is baked?"];
    let task = tasks::rerank(&engine, &tokenizer, &queries, &DOCUMENTS, None).unwrap();
    assert_eq!(task.progress().unwrap(), (0, 6));
    assert_eq!(
        task.values().unwrap_err().status(),
        Status::Misuse,
        "before it has run"
    );
    task.run().unwrap();
    assert_eq!(task.progress().unwrap(), (6, 6));
    let scores = task.values().unwrap();
    assert_eq!(scores.shape(), (2, 3));
    for (row, values) in scores.rows().enumerate() {
        let order = task.order(row).unwrap();
        assert_eq!(order.len(), 3);
        assert!(
            order
                .windows(2)
                .all(|pair| values[pair[0]] >= values[pair[1]]),
            "{values:?}"
        );
    }
    assert_eq!(task.statuses().unwrap(), [Status::Ok; 6]);
    assert_eq!(task.info(0).unwrap().finish, Finish::None);
    assert!(
        task.totals().unwrap().tokens_shared > 0,
        "documents are computed once"
    );
    assert_eq!(task.order(2).unwrap_err().status(), Status::OutOfRange);

    // One alone has the bits it has among others.
    let one = tasks::rerank(&engine, &tokenizer, &queries[1..], &DOCUMENTS[2..], None).unwrap();
    one.run().unwrap();
    assert_eq!(
        bits(one.values().unwrap().as_slice()),
        bits(&scores.row(1)[2..])
    );
}

#[test]
fn embed_makes_vectors() {
    let (engine, tokenizer) = open();
    let options = Some(r#"{"dimensions": 8}"#);
    let task = tasks::embed(&engine, &tokenizer, &DOCUMENTS, options).unwrap();
    while !task.run_for(Duration::from_millis(1)).unwrap() {}
    let vectors = task.values().unwrap();
    assert_eq!(vectors.shape(), (3, 8));
    for vector in vectors.rows() {
        let norm: f32 = vector.iter().map(|x| x * x).sum();
        assert!((norm - 1.0).abs() < 1e-3, "{norm}");
    }
}

#[test]
fn answer_gives_texts() {
    let (engine, tokenizer) = open();
    let questions = ["What is baked?", "Where?"];
    let options = Some(r#"{"request": {"max_tokens": 5}}"#);
    let task = tasks::answer(&engine, &tokenizer, DOCUMENTS[0], &questions, options).unwrap();
    task.run().unwrap();
    assert_eq!(task.values().unwrap().shape(), (2, 0));
    for item in 0..2 {
        assert!(task.text(item).is_ok());
        assert!(task.info(item).unwrap().generated_tokens <= 5);
    }
    assert_eq!(task.text(2).unwrap_err().status(), Status::OutOfRange);
}

#[test]
fn classify_gives_probabilities() {
    let (engine, tokenizer) = open();
    let labels = ["food", "town"];
    let task = tasks::classify(&engine, &tokenizer, &DOCUMENTS, &labels, None).unwrap();
    task.run().unwrap();
    let values = task.values().unwrap();
    assert_eq!(values.shape(), (3, 2));
    assert!(values
        .rows()
        .all(|row| (row.iter().sum::<f32>() - 1.0).abs() < 1e-4));
}

#[test]
fn a_cancelled_task_ends_with_cancelled_items() {
    let (engine, tokenizer) = open();
    let documents: Vec<String> = (0..2000)
        .map(|i| format!("Document {i} on trees."))
        .collect();
    let task = tasks::rerank(&engine, &tokenizer, &["Trees?"], &documents, None).unwrap();
    assert!(!task.run_for(Duration::ZERO).unwrap(), "it has only begun");
    let canceller = task.clone();
    std::thread::spawn(move || canceller.cancel().unwrap())
        .join()
        .unwrap();
    task.run().unwrap();
    let statuses = task.statuses().unwrap();
    assert_eq!(statuses.last(), Some(&Status::Cancelled));
    assert!(task.values().unwrap().as_slice().last().unwrap().is_nan());
    assert!(!task.message(1999).unwrap().is_empty());
    assert_eq!(task.text(1999).unwrap_err().status(), Status::Cancelled);
}

#[test]
fn an_answer_that_was_cancelled_is_kept_so_far() {
    let (engine, tokenizer) = open();
    let questions: Vec<String> = (0..300).map(|i| format!("What is {i}?")).collect();
    let long = r#"{"request": {"max_tokens": 100, "ignore_eos": true}}"#;
    let task = tasks::answer(&engine, &tokenizer, DOCUMENTS[0], &questions, Some(long)).unwrap();
    while engine.stats().unwrap().steps < 5 {
        assert!(!task.run_for(Duration::from_millis(1)).unwrap());
    }
    task.cancel().unwrap();
    task.run().unwrap();
    assert_eq!(task.text(299).unwrap_err().status(), Status::Cancelled);
    let begun = (0..300).filter(|item| !task.text_so_far(*item).unwrap().is_empty());
    assert!(begun.count() > 0);
}

#[test]
fn options_and_recipes_are_checked() {
    let (engine, tokenizer) = open();
    let make =
        |options| tasks::rerank(&engine, &tokenizer, &["q"], &DOCUMENTS, Some(options)).map(|_| ());
    let refused = |options| make(options).unwrap_err().status();
    assert_eq!(refused(r#"{"topn": 1}"#), Status::UnknownOption);
    assert_eq!(refused(r#"{"recipe": "none"}"#), Status::NotFound);
    assert_eq!(refused("{"), Status::InvalidArgument);
    let names = tasks::recipes().unwrap();
    assert!(names.contains(&"query-likelihood"), "{names:?}");
    assert!(tasks::recipe_json(names[0]).unwrap().contains(names[0]));
    assert_eq!(
        tasks::recipe_json("none").unwrap_err().status(),
        Status::NotFound
    );

    let none: [&str; 0] = [];
    let empty = tasks::embed(&engine, &tokenizer, &none, None).unwrap();
    empty.run().unwrap();
    assert_eq!(empty.values().unwrap().as_slice(), [0.0; 0]);
}
