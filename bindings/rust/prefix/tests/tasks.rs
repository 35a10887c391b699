//! Ready-made tasks, on a tiny model that reads ASCII.
#![cfg(feature = "text")]

mod support;

use std::time::Duration;

use prefix::{
    tasks, Engine, EventKind, Finish, Options, Status, Task, TaskBuilder, TaskKind, Tokenizer,
};
use support::{bits, open, options, writing};

fn builder(
    (engine, tokenizer): &(Engine, Tokenizer),
    kind: TaskKind,
    options: Option<&Options>,
) -> TaskBuilder {
    Task::builder(engine, tokenizer, kind, options).unwrap()
}

/// A task that keeps the tiny model busy for seconds.
fn long_task(open: &(Engine, Tokenizer), options: &Options) -> Task {
    let prompts: Vec<String> = (0..2000).map(|i| format!("{i} trees and more")).collect();
    let mut builder = builder(open, TaskKind::Generate, Some(options));
    builder.add(&prompts).unwrap();
    builder.submit().unwrap()
}

const DOCUMENTS: [&str; 3] = ["Bread is baked.", "Paris is big.", "A tree."];
const QUERIES: [&str; 2] = ["Which city?", "What is baked?"];

/// A task's prompts are tokens: to warm them before it, to find all of them after it, and to keep them.
#[test]
fn ranked_documents_are_found_in_the_cache() {
    let open = open();
    let documents: Vec<String> = (0..13).map(|i| format!("Tree {i} is green.")).collect();
    let ranking = || {
        let mut builder = builder(&open, TaskKind::Rerank, None);
        builder.add_product(&["Which tree?"], &documents).unwrap();
        builder
    };
    let (engine, cache) = (&open.0, open.0.cache());
    let warm = ranking().tokens(5).unwrap();
    assert_eq!(cache.lookup(&warm).unwrap().cached_tokens, 0);
    let mut batch = engine.batch().unwrap();
    batch.add(prefix::Request::warm(&warm)).unwrap();
    engine.run(&batch).unwrap();
    let task = ranking().submit().unwrap();
    task.wait().unwrap();
    let prompts: Vec<_> = (0..13).map(|item| task.tokens(item).unwrap()).collect();
    // Without the last token, which is only scored, but for the prompt that was warmed.
    let mut lengths: Vec<u64> = prompts.iter().map(|all| all.len() as u64 - 1).collect();
    lengths[5] += 1;
    assert_eq!(cache.lookup_many(&prompts).unwrap(), lengths);
    let info = task.info(5).unwrap();
    assert!(
        info.computed_tokens <= 12,
        "only the query, whose tokens are scored: {info:?}"
    );
    let lease = cache.pin(&prompts[7], None).unwrap();
    assert_eq!(lease.tokens(), lengths[7]);
    cache.evict(&[]).unwrap();
    assert_eq!(cache.lookup(&prompts[7]).unwrap().cached_tokens, lengths[7]);
    assert!(cache.lookup(&prompts[8]).unwrap().cached_tokens < lengths[8]);
}

#[test]
fn products_and_pairs_have_the_same_scores() {
    let open = open();
    let mut product = builder(&open, TaskKind::Rerank, None);
    assert_eq!(product.add_product(&QUERIES, &DOCUMENTS).unwrap(), 0..6);
    let product = product.submit().unwrap();

    let mut pairs = builder(&open, TaskKind::Rerank, None);
    assert!(pairs.is_empty().unwrap());
    for (i, query) in QUERIES.iter().enumerate() {
        let texts = DOCUMENTS.map(|document| [*query, document]);
        let items = pairs.add(&texts.concat()).unwrap();
        assert_eq!(items, 3 * i..3 * i + 3);
    }
    assert_eq!(pairs.len().unwrap(), 6);
    let pairs = pairs.submit().unwrap();

    for task in [&product, &pairs] {
        task.wait().unwrap();
        assert_eq!((task.len(), task.finished_count().unwrap()), (6, 6));
        assert_eq!((task.width().unwrap(), task.is_empty()), (1, false));
        assert_eq!(task.statuses().unwrap(), [Status::Ok; 6]);
        assert_eq!(task.first_failure().unwrap(), None);
        assert_eq!(task.info(0).unwrap().finish, Finish::None);
        let totals = task.totals().unwrap();
        assert_eq!((totals.requests, totals.failed), (6, 0));
    }
    let values = product.all_values().unwrap();
    assert_eq!(
        bits(values.as_slice()),
        bits(pairs.all_values().unwrap().as_slice())
    );
    assert_eq!(values.len(), 6);
    for item in 0..6 {
        assert_eq!(product.values(item).unwrap(), values.get(item).unwrap());
    }
    assert!(
        product.totals().unwrap().tokens_shared > 0,
        "documents are computed once"
    );
}

#[test]
fn ranking_is_by_score_within_a_range() {
    let open = open();
    let options = options().set("top_n", 2).unwrap();
    for (options, places) in [(None, 3), (Some(&options), 2)] {
        let mut builder = builder(&open, TaskKind::Rerank, options);
        let items = builder.add_product(&QUERIES, &DOCUMENTS).unwrap();
        let task = builder.submit().unwrap();
        task.wait().unwrap();
        for query in 0..2 {
            let ranking = task.ranking(query * 3..query * 3 + 3).unwrap();
            assert_eq!(ranking.len(), places);
            assert!(ranking
                .windows(2)
                .all(|pair| pair[0].score >= pair[1].score));
            for place in ranking {
                let value = task.values(query * 3 + place.index).unwrap();
                assert_eq!(value, [place.score]);
            }
        }
        assert_eq!(task.ranking(6..6).unwrap(), []);
        assert!(task.ranking(items).is_ok());
        for beyond in [5..7, 7..7, 0..usize::MAX] {
            let error = task.ranking(beyond).unwrap_err();
            assert_eq!(error.status(), Status::OutOfRange);
        }
    }
}

#[test]
fn tags_come_back_with_info_and_events() {
    let open = open();
    let mut builder = builder(&open, TaskKind::Rerank, None);
    builder.add(&["q", "d"]).unwrap();
    assert_eq!(builder.add_tagged(&["q", "e"], -7).unwrap(), 1..2);
    let many = builder.add_product_tagged(&QUERIES, &["d"], i64::MAX);
    assert_eq!(many.unwrap(), 2..4);
    let tags = [0, -7, i64::MAX, i64::MAX];
    let task = builder.submit().unwrap();
    let mut events = 0;
    for event in task.events() {
        let event = event.unwrap();
        assert_eq!(event.tag, tags[event.request]);
        assert!(matches!(event.kind, EventKind::Finished { .. }));
        events += 1;
    }
    assert_eq!(events, 4);
    for (item, tag) in tags.into_iter().enumerate() {
        assert_eq!(task.info(item).unwrap().tag, tag);
    }
}

#[test]
fn what_it_is_made_of_is_known_before() {
    let open = open();
    let builder = builder(&open, TaskKind::Rerank, None);
    let info = builder.info_json().unwrap();
    assert!(info.contains("\"query-likelihood\""), "{info}");
    assert_eq!(builder.submit().unwrap().info_json().unwrap(), info);
}

#[test]
fn tokens_are_what_the_engine_is_given() {
    let open = open();
    let options = options().set("max_prompt_tokens", 80).unwrap();
    let options = options.set("truncate", "off").unwrap();
    let mut builder = builder(&open, TaskKind::Embed, Some(&options));
    builder.add(&[DOCUMENTS[0], &"long ".repeat(100)]).unwrap();
    let tokens = builder.tokens(0).unwrap();
    let text = open.1.decode(&tokens, false).unwrap();
    assert!(text.contains(DOCUMENTS[0]), "{text:?}");
    assert_eq!(
        builder.tokens(1).unwrap_err().status(),
        Status::PromptTooLong
    );
    assert_eq!(builder.tokens(2).unwrap_err().status(), Status::OutOfRange);
    let task = builder.submit().unwrap();
    task.wait().unwrap();
    assert_eq!(task.tokens(0).unwrap(), tokens);
    assert_eq!(task.info(0).unwrap().prompt_tokens, tokens.len() as u64);
    let cached = open.0.cache().lookup(&tokens).unwrap();
    assert_eq!(cached.cached_tokens, tokens.len() as u64);
}

#[test]
fn labels_get_probabilities() {
    let open = open();
    let mut builder = builder(&open, TaskKind::Classify, None);
    builder.set_labels(&["animal"]).unwrap();
    builder.set_labels(&["food", "town"]).unwrap();
    builder.add(&DOCUMENTS).unwrap();
    let error = builder.add_product(&QUERIES, &DOCUMENTS).unwrap_err();
    assert_eq!(error.status(), Status::Misuse, "an item has one text");
    let none: [&str; 0] = [];
    let error = builder.set_labels(&none).unwrap_err();
    assert_eq!(error.status(), Status::InvalidArgument);
    let task = builder.submit().unwrap();
    task.wait().unwrap();
    let values = task.all_values().unwrap();
    assert_eq!((task.width().unwrap(), values.len()), (2, 3));
    for (item, row) in values.iter().enumerate() {
        assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-4, "{row:?}");
        let best = task.ranking(item * 2..item * 2 + 2).unwrap()[0];
        assert_eq!(best.score, row[0].max(row[1]));
    }

    let mut unlabelled = self::builder(&open, TaskKind::Classify, None);
    unlabelled.add(&DOCUMENTS).unwrap();
    let error = unlabelled.submit().unwrap_err();
    assert_eq!(error.status(), Status::InvalidArgument);
    let mut other = self::builder(&open, TaskKind::Embed, None);
    let error = other.set_labels(&["a"]).unwrap_err();
    assert_eq!(error.status(), Status::Misuse);
}

#[test]
fn texts_need_not_outlive_the_builder() {
    let open = open();
    let mut builder = builder(&open, TaskKind::Generate, None);
    {
        let prompt = "x".repeat(50);
        builder.add(&[&prompt]).unwrap();
        builder.add(&[prompt]).unwrap();
    }
    let task = builder.submit().unwrap();
    task.wait().unwrap();
    assert_eq!(task.text(0).unwrap(), task.text(1).unwrap());
    assert_eq!(task.values(0).unwrap(), [0.0; 0]);
    assert_eq!(task.all_values().unwrap().len(), 2);
}

/// The texts of a task, from its pieces.
fn pieces(task: &Task) -> Vec<String> {
    let mut texts = vec![String::new(); task.len()];
    for event in task.events() {
        let event = event.unwrap();
        texts[event.request].push_str(event.text());
    }
    texts
}

#[test]
fn pieces_add_up_to_the_text() {
    let open = open();
    let options = writing(60);
    let mut builder = builder(&open, TaskKind::Answer, Some(&options));
    builder.add_product(&DOCUMENTS, &QUERIES).unwrap();
    let task = builder.submit().unwrap();
    let texts = pieces(&task);
    assert!(texts.iter().any(|text| text.len() > 30), "{texts:?}");
    for (item, text) in texts.iter().enumerate() {
        assert_eq!(*text, task.text(item).unwrap());
        assert_eq!(task.partial_text(item).unwrap(), *text);
        assert_eq!(task.info(item).unwrap().generated_tokens, 60);
    }
    assert!(task.events().next().is_none(), "there are no more");

    let quiet = options.set("stream", false).unwrap();
    let mut builder = self::builder(&open, TaskKind::Answer, Some(&quiet));
    builder.add_product(&DOCUMENTS, &QUERIES).unwrap();
    let task = builder.submit().unwrap();
    assert_eq!(pieces(&task), [""; 6]);
    let whole: Vec<_> = (0..6).map(|item| task.text(item).unwrap()).collect();
    assert_eq!(whole, texts, "the same without option stream");
}

#[test]
fn a_long_piece_comes_whole() {
    // A text that comes as one piece: it ends before a stop text that might have begun with it.
    let open = open();
    let free = prefix::generate(&open.0, &open.1, &["tree"], Some(&writing(150))).unwrap();
    let text = free[0].as_ref().unwrap();
    let stop = format!("{text}and more");
    let options = writing(150).set("stop", &[stop.as_str()]).unwrap();
    let mut builder = builder(&open, TaskKind::Generate, Some(&options));
    builder.add(&["tree"]).unwrap();
    let task = builder.submit().unwrap();
    let events: Vec<_> = task.events().map(Result::unwrap).collect();
    let longest = events.iter().map(|event| event.text().len()).max();
    assert!(longest.unwrap() > 64, "{events:?}");
    assert_eq!(pieces(&task), [""], "read already");
    let text: String = events.iter().map(|event| event.text()).collect();
    assert_eq!(text, task.text(0).unwrap());
}

#[test]
fn a_text_ends_before_a_stop_string() {
    let open = open();
    let free = prefix::generate(&open.0, &open.1, &["tree"], Some(&writing(100))).unwrap();
    let text = free[0].as_ref().unwrap();
    let stop = &text[20..24];
    let options = writing(100).set("stop", &["\u{1}nowhere", stop]).unwrap();
    let mut builder = builder(&open, TaskKind::Generate, Some(&options));
    builder.add(&["tree"]).unwrap();
    let task = builder.submit().unwrap();
    assert_eq!(pieces(&task), [task.text(0).unwrap()]);
    let at = text.find(stop).unwrap();
    assert_eq!(task.text(0).unwrap(), text[..at].trim_end());
    assert_eq!(task.info(0).unwrap().finish, Finish::Stop);
}

#[test]
fn cancelling_keeps_what_is_finished() {
    let open = open();
    let small_chunks = writing(20).set("chunk_tokens", 500).unwrap();
    let task = long_task(&open, &small_chunks);
    let finished = task.events().map(Result::unwrap).find_map(|event| {
        matches!(event.kind, EventKind::Finished { .. }).then_some(event.request)
    });
    let first = finished.unwrap();
    let canceller = task.clone();
    std::thread::spawn(move || canceller.cancel().unwrap())
        .join()
        .unwrap();
    task.wait().unwrap();
    task.cancel().unwrap();
    assert!(task.text(first).is_ok());
    assert_eq!(task.info(first).unwrap().status, Status::Ok);
    let statuses = task.statuses().unwrap();
    let cancelled = statuses.iter().filter(|s| **s == Status::Cancelled).count();
    assert!(cancelled > 0);
    assert_eq!(task.totals().unwrap().failed, cancelled as u64);
    let (item, error) = task.first_failure().unwrap().unwrap();
    assert_eq!(
        statuses.iter().position(|s| *s != Status::Ok).unwrap(),
        item
    );
    assert_eq!(error.status(), Status::Cancelled);
    assert_eq!(task.message(item).unwrap(), error.message());
    assert_eq!(task.text(item).unwrap_err().message(), error.message());
}

#[test]
fn a_text_that_was_cancelled_is_kept_so_far() {
    let open = open();
    let task = long_task(&open, &writing(150));
    let begun = task
        .events()
        .map(Result::unwrap)
        .find(|event| !event.text().is_empty());
    let begun = begun.unwrap();
    task.cancel().unwrap();
    task.wait().unwrap();
    let text = task.text(begun.request);
    assert_eq!(text.unwrap_err().status(), Status::Cancelled);
    let partial = task.partial_text(begun.request).unwrap();
    assert!(partial.starts_with(begun.text()), "{begun:?} {partial:?}");
    assert_eq!(task.partial_text(1999).unwrap(), "", "it was not begun");
}

#[test]
fn a_deadline_ends_the_whole_task() {
    let open = open();
    let options = writing(150).set("deadline_ms", 1).unwrap();
    let task = long_task(&open, &options);
    task.wait().unwrap();
    assert_eq!(task.statuses().unwrap()[1999], Status::Deadline);
    let message = task.message(1999).unwrap();
    assert!(message.contains("1 ms"), "{message}");
}

#[test]
fn unfinished_items_cannot_be_read() {
    let open = open();
    let task = long_task(&open, &writing(150));
    assert!(!task.wait_for(Duration::ZERO).unwrap());
    assert_eq!(task.text(1999).unwrap_err().status(), Status::Misuse);
    assert_eq!(task.info(1999).unwrap_err().status(), Status::Misuse);
    assert_eq!(task.statuses().unwrap()[1999], Status::NoEvent);
    let error = task.text(2000).unwrap_err();
    assert_eq!(error.status(), Status::OutOfRange);
    assert!(task.finished_count().unwrap() < 2000);
    let mut events = task.events();
    let first = events.next_within(Duration::from_secs(60)).unwrap();
    assert!(first.is_ok());
    task.cancel().unwrap();
    task.wait().unwrap();
}

#[test]
fn a_prompt_that_is_cut_says_so() {
    let open = open();
    let options = options().set("max_prompt_tokens", 80).unwrap();
    let documents = ["short", &"long ".repeat(100)];
    let mut builder = builder(&open, TaskKind::Rerank, Some(&options));
    builder.add_product(&["q"], &documents).unwrap();
    let task = builder.submit().unwrap();
    task.wait().unwrap();
    let cut = [0, 1].map(|item| task.info(item).unwrap().was_cut);
    assert_eq!(cut, [false, true]);

    let off = options.set("truncate", "off").unwrap();
    let ranking = prefix::rerank(&open.0, &open.1, "q", &documents, Some(&off)).unwrap();
    assert_eq!(ranking.ranked.len(), 1);
    assert_eq!(ranking.ranked[0].index, 0);
    let (failed, error) = &ranking.failures[0];
    assert_eq!((ranking.failures.len(), *failed), (1, 1));
    assert_eq!(error.status(), Status::PromptTooLong);
}

#[test]
fn what_does_not_belong_is_refused() {
    let (engine, tokenizer) = open();
    let refused = |kind, key: &str, value: prefix::Value| {
        let options = options().set(key, value).unwrap();
        let made = Task::builder(&engine, &tokenizer, kind, Some(&options));
        made.unwrap_err()
    };
    for (kind, key, value) in [
        (TaskKind::Embed, "stream", true.into()),
        (TaskKind::Embed, "max_tokens", 5.into()),
        (TaskKind::Generate, "top_n", 5.into()),
        (TaskKind::Rerank, "stop", (&["x"]).into()),
        (TaskKind::Rerank, "threads", 1.into()),
        (TaskKind::Chat, "dimensions", 5.into()),
    ] {
        let error = refused(kind, key, value);
        assert_eq!(error.status(), Status::InvalidArgument, "{error}");
        assert!(error.message().contains(key), "{error}");
    }
    let error = refused(TaskKind::Rerank, "recipe", "none".into());
    assert_eq!(error.status(), Status::NotFound);
    let mut odd = Task::builder(&engine, &tokenizer, TaskKind::Rerank, None).unwrap();
    let error = odd.add(&["q", "d", "q"]).unwrap_err();
    assert_eq!(error.status(), Status::InvalidArgument);
    assert!(odd.is_empty().unwrap(), "nothing of it was taken");
}

#[test]
fn a_task_without_items_is_done() {
    let open = open();
    for kind in [TaskKind::Rerank, TaskKind::Embed, TaskKind::Generate] {
        let task = builder(&open, kind, None).submit().unwrap();
        task.wait().unwrap();
        assert!(task.is_empty());
        assert_eq!(task.all_values().unwrap().len(), 0);
        assert_eq!(task.statuses().unwrap(), []);
        assert!(task.events().next().is_none());
    }
}

#[test]
fn kinds_have_the_names_of_the_library() {
    let open = open();
    for kind in [
        TaskKind::Rerank,
        TaskKind::Embed,
        TaskKind::Classify,
        TaskKind::Answer,
        TaskKind::Generate,
        TaskKind::Chat,
    ] {
        assert!(builder(&open, kind, None).is_empty().unwrap());
        assert_eq!(kind.name(), format!("{kind:?}").to_lowercase());
    }
}

#[test]
fn recipes_are_listed() {
    support::load_library();
    let names = tasks::recipes().unwrap();
    assert!(names.contains(&"query-likelihood"), "{names:?}");
    assert!(tasks::recipe_json(names[0]).unwrap().contains(names[0]));
    let error = tasks::recipe_json("none").unwrap_err();
    assert_eq!(error.status(), Status::NotFound);
}
