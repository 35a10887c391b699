//! The cache from outside: pins, limits, eviction, events, snapshots, namespaces of several parts.

mod support;

use std::path::PathBuf;
use std::time::Duration;

use prefix::{CacheEventKind, Engine, Request, Status, Token};
use support::{bits, engine, model, options};

fn engine_with_events(kept: u32) -> Engine {
    let options = options()
        .set("threads", 1)
        .and_then(|options| options.set("cache_events", kept))
        .unwrap();
    Engine::open_with(model("llama-base"), &options).unwrap()
}

fn prompt(n: i32) -> Vec<Token> {
    (0..n).map(|i| i * 3 % 131).collect()
}

fn warm(engine: &Engine, tokens: &[Token]) {
    let mut batch = engine.batch().unwrap();
    batch.add(Request::warm(tokens)).unwrap();
    let job = engine.run(&batch).unwrap();
    assert_eq!(job.info(0).unwrap().status, Status::Ok);
    assert_eq!(job.values(0).unwrap(), []);
}

fn logits(engine: &Engine, tokens: &[Token]) -> (Vec<u32>, u64) {
    let mut batch = engine.batch().unwrap();
    batch.add(Request::logits(tokens, &[1, 2, 3])).unwrap();
    let job = engine.run(&batch).unwrap();
    (
        bits(&job.values(0).unwrap()),
        job.info(0).unwrap().cached_tokens,
    )
}

/// A file that goes with the test.
struct File(PathBuf);

impl File {
    fn new(name: &str) -> File {
        let name = format!("{name}-{}", std::process::id());
        File(PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name))
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn a_warmed_prompt_is_found_with_the_same_bits() {
    let tokens = prompt(50);
    let engine = engine();
    warm(&engine, &tokens);
    let (values, cached) = logits(&engine, &tokens);
    assert!(cached >= 49);
    assert_eq!(values, logits(&support::engine(), &tokens).0);
}

#[test]
fn many_prompts_are_looked_up_at_once() {
    let engine = engine();
    warm(&engine, &prompt(50));
    let prompts = [prompt(50), vec![], prompt(20), prompt(80), vec![9, 9]];
    let cache = engine.cache();
    assert_eq!(cache.lookup_many(&prompts).unwrap(), [50, 0, 20, 50, 0]);
    assert_eq!(cache.lookup_many::<Vec<Token>>(&[]).unwrap(), []);
}

#[test]
fn a_lease_keeps_its_prefix_until_it_is_dropped() {
    let engine = engine();
    let tokens = prompt(50);
    let cache = engine.cache();
    let nothing = cache.pin(&tokens, None).unwrap_err();
    assert_eq!(nothing.status(), Status::NotFound);
    warm(&engine, &tokens);
    let lease = cache.pin(&tokens, None).unwrap();
    let second = cache.pin(&tokens, Some(Duration::from_secs(3600))).unwrap();
    assert_eq!(lease.tokens(), 50);
    assert_eq!(cache.trim(0).unwrap(), 0);
    drop(lease);
    assert_eq!(cache.trim(0).unwrap(), 0, "the second one still holds");
    second.release().unwrap();
    assert_eq!(cache.trim(0).unwrap(), 50);
}

#[test]
fn a_lease_may_end_by_itself_and_outlive_its_engine() {
    let engine = engine();
    let tokens = prompt(50);
    warm(&engine, &tokens);
    let short = engine
        .cache()
        .pin(&tokens, Some(Duration::from_nanos(1)))
        .unwrap();
    std::thread::sleep(Duration::from_millis(2));
    assert_eq!(short.release().unwrap_err().status(), Status::NotFound);

    warm(&engine, &tokens);
    engine.cache().pin(&tokens, None).unwrap().keep();
    assert_eq!(engine.cache().trim(0).unwrap(), 0, "it was left pinned");
    let (one, two) = (
        engine.cache().pin(&tokens, None).unwrap(),
        engine.cache().pin(&tokens, None).unwrap(),
    );
    let shut = engine.cache().pin(&tokens, None).unwrap();
    let clone = engine.clone();
    clone.shutdown(Duration::ZERO).unwrap();
    assert_eq!(shut.release().unwrap_err().status(), Status::Misuse);
    drop(engine);
    drop(one);
    two.release().unwrap();
}

#[test]
fn usage_limits_and_eviction() {
    let engine = engine();
    let cache = engine.cache();
    warm(&engine, &prompt(50));
    let usage = cache.usage().unwrap();
    assert_eq!(
        (usage.tokens, usage.floor_bytes, usage.quota_bytes),
        (50, 0, 0)
    );
    let token = usage.bytes / 50;
    cache.set_limits(token, 60 * token).unwrap();
    assert_eq!(cache.usage().unwrap().quota_bytes, 60 * token);
    for (floor, quota) in [(0, 1), (2 * token, token), (u64::MAX, token)] {
        let error = cache.set_limits(floor, quota).unwrap_err();
        assert_eq!(error.status(), Status::OutOfRange, "{error}");
    }
    let mut batch = engine.batch().unwrap();
    let other: Vec<Token> = (0..100).map(|i| i * 7 % 131).collect();
    batch.add(Request::warm(&other)).unwrap();
    let full = engine.run(&batch).unwrap();
    assert_eq!(full.info(0).unwrap().status, Status::CacheFull);
    cache.set_limits(0, 0).unwrap();
    assert_eq!(cache.evict(&prompt(20)).unwrap(), 30);
    assert_eq!(cache.lookup(&prompt(50)).unwrap().cached_tokens, 20);
    assert_eq!(cache.evict(&[]).unwrap(), 20);
}

#[test]
fn the_tree_as_json() {
    let engine = engine();
    warm(&engine, &prompt(50));
    let tree = engine.cache().tree_json().unwrap();
    assert!(tree.starts_with(r#"{"tokens":50,"#), "{tree}");
}

#[test]
fn events_tell_what_comes_and_goes() {
    let engine = engine_with_events(100);
    let mut events = engine.cache_events(0);
    assert!(events.next().is_none());
    let tokens = prompt(70);
    warm(&engine, &tokens);
    let stored: Vec<_> = events.by_ref().map(Result::unwrap).collect();
    assert_eq!(stored.len(), 2);
    for (event, block) in stored.iter().zip(tokens.chunks(32)) {
        let (parent, tokens) = (
            (event.position > 0).then_some(stored[0].block),
            block.to_vec(),
        );
        assert_eq!(event.kind, CacheEventKind::Stored { parent, tokens });
        assert_eq!((event.namespace, event.lost), (0, 0));
    }
    assert_eq!(stored[0].position, 0);
    assert_eq!(stored[1].sequence, stored[0].sequence + 1);
    assert_eq!(stored[1].position, 32);
    assert_eq!(events.next_sequence(), stored[1].sequence + 1);

    engine.cache().trim(0).unwrap();
    let gone: Vec<_> = events.by_ref().map(|event| event.unwrap().kind).collect();
    use CacheEventKind::{Cleared, Removed};
    assert_eq!(gone, [Removed, Removed, Cleared]);
    // A second reader has its own place; the engine lives as long as one reads.
    let mut again = engine.cache_events(0);
    drop(engine);
    assert_eq!(again.by_ref().count(), 5);
    assert!(again.next().is_none());
}

#[test]
fn a_reader_that_was_too_slow_begins_again_with_a_dump() {
    let engine = engine_with_events(4);
    let mut events = engine.cache_events(0);
    warm(&engine, &prompt(32));
    let first = events.next().unwrap().unwrap();
    warm(&engine, &prompt(32 * 7));
    let next = events.next().unwrap().unwrap();
    assert_eq!(next.lost, 2);
    assert_eq!(next.sequence, first.sequence + 3);
    let mut late = engine.cache_events(0); // where a dump of an empty cache sends a reader, too
    assert_eq!(late.next().unwrap().unwrap().lost, 3);
    let dump = engine.cache_dump().unwrap();
    assert_eq!(dump.json_lines.lines().count(), 8);
    assert_eq!(dump.next, first.sequence + 7);
    assert!(engine.cache_events(dump.next).next().is_none());
}

#[test]
fn an_engine_that_was_shut_down_has_no_cache() {
    let engine = engine_with_events(4);
    let clone = engine.clone();
    let mut events = clone.cache_events(0);
    engine.shutdown(Duration::ZERO).unwrap();
    let cache = clone.cache();
    let errors = [
        cache.lookup_many(&[[1]]).unwrap_err(),
        cache.usage().unwrap_err(),
        cache.set_limits(0, 0).unwrap_err(),
        cache.pin(&[1], None).unwrap_err(),
        cache.evict(&[]).unwrap_err(),
        cache.tree_json().unwrap_err(),
        events.next().unwrap().unwrap_err(),
        clone.cache_dump().unwrap_err(),
        clone.save_snapshot("never", &[]).unwrap_err(),
        clone.load_snapshot("never").unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.status(), Status::Misuse, "{error}");
    }
}

#[test]
fn events_need_their_option() {
    let engine = engine();
    let error = engine.cache_events(0).next().unwrap().unwrap_err();
    assert_eq!(error.status(), Status::Misuse);
    assert!(error.message().contains("cache_events"), "{error}");
    assert_eq!(engine.cache_dump().unwrap_err().status(), Status::Misuse);
}

#[test]
fn a_snapshot_starts_a_later_engine_warm() {
    let file = File::new("snapshot");
    let tokens = prompt(100);
    let first = engine();
    let (cold, _) = logits(&first, &tokens);
    let saved = first.save_snapshot(&file.0, &[]).unwrap();
    assert!(saved.tokens >= 96 && saved.namespaces == 1, "{saved:?}");
    assert_eq!(saved.bytes, std::fs::metadata(&file.0).unwrap().len());
    drop(first);

    let second = engine();
    let loaded = second.load_snapshot(&file.0).unwrap();
    assert_eq!((loaded.tokens, loaded.skipped_tokens), (saved.tokens, 0));
    let (warm, cached) = logits(&second, &tokens);
    assert!(cached >= 96);
    assert_eq!(warm, cold);

    // Of one namespace, in which there is nothing.
    let empty = second.namespace("empty").unwrap();
    assert_eq!(second.save_snapshot(&file.0, &[empty]).unwrap().tokens, 0);
}

#[test]
fn snapshots_that_cannot_be_loaded() {
    let file = File::new("bad-snapshot");
    let engine = engine();
    let status = |engine: &Engine| engine.load_snapshot(&file.0).unwrap_err().status();
    assert_eq!(status(&engine), Status::NotFound);
    std::fs::write(&file.0, "no snapshot").unwrap();
    assert_eq!(status(&engine), Status::Format);
    warm(&engine, &prompt(64));
    engine.save_snapshot(&file.0, &[]).unwrap();
    let f32s = options()
        .set("threads", 1)
        .and_then(|o| o.set("dtype", "f32"));
    let other = Engine::open_with(model("llama-base"), &f32s.unwrap()).unwrap();
    assert_eq!(status(&other), Status::IncompatibleSnapshot);
    let nowhere = engine.save_snapshot("/no/such/folder/cache", &[]);
    assert_eq!(nowhere.unwrap_err().status(), Status::Io);
    let zero = engine.save_snapshot("a\0b", &[]);
    assert_eq!(zero.unwrap_err().status(), Status::InvalidArgument);
}

#[test]
fn namespaces_of_several_parts() {
    let salted = options()
        .set("threads", 1)
        .and_then(|options| options.set("require_salt", true))
        .unwrap();
    let engine = Engine::open_with(model("llama-base"), &salted).unwrap();
    let tenant = engine.namespace_of(&["salt", "adapter"]).unwrap();
    assert_eq!(
        engine.namespace_of(&["salt", "adapter"]).unwrap().id(),
        tenant.id()
    );
    assert_ne!(
        engine.namespace_of(&["salta", "dapter"]).unwrap().id(),
        tenant.id()
    );
    assert_eq!(engine.namespace_of::<&str>(&[]).unwrap().id(), 0);

    let by_number = options().set("namespace_id", tenant.id()).unwrap();
    let tokens = prompt(40);
    let mut batch = engine.batch().unwrap();
    batch
        .add(Request::warm(&tokens).options(&by_number))
        .unwrap();
    batch.add(Request::warm(&tokens)).unwrap();
    let job = engine.run(&batch).unwrap();
    assert_eq!(job.info(0).unwrap().status, Status::Ok);
    let error = job.values(1).unwrap_err();
    assert_eq!(error.status(), Status::InvalidArgument, "no salt");
    assert_eq!(tenant.cache().lookup(&tokens).unwrap().cached_tokens, 40);
    assert_eq!(tenant.cache().usage().unwrap().tokens, 40);
}

#[test]
fn results_say_why_tokens_were_computed() {
    let engine = engine();
    let ask = |options: prefix::Options| {
        let options = options.set("max_tokens", 8).unwrap();
        let options = options.set("ignore_eos", true).unwrap();
        let mut batch = engine.batch().unwrap();
        batch
            .add(Request::generate(&[1, 2, 3, 4]).options(&options))
            .unwrap();
        engine.run(&batch).unwrap().info(0).unwrap()
    };
    let plain = || prefix::Options::new().unwrap();
    let first = ask(plain());
    assert_eq!((first.miss_first_seen, first.computed_tokens), (4, 4));
    assert_eq!(first.draft_tokens, 0);
    let again = ask(plain().set("draft_tokens", 8).unwrap());
    assert_eq!((again.miss_granularity, again.computed_tokens), (1, 1));
    assert!(again.draft_tokens > 0, "the answer is in the cache");
    assert_eq!(again.draft_tokens_accepted, again.draft_tokens);
    let elsewhere = ask(plain().set("namespace", "of nobody else").unwrap());
    assert_eq!(
        (elsewhere.miss_namespace, elsewhere.computed_tokens),
        (4, 4)
    );
    engine.cache().evict(&[]).unwrap();
    let evicted = ask(plain());
    assert_eq!((evicted.miss_evicted, evicted.computed_tokens), (4, 4));
    assert_eq!(evicted.miss_budget + evicted.miss_state, 0);
}

#[test]
fn stats_say_why_tokens_were_computed() {
    let engine = engine();
    warm(&engine, &prompt(40));
    engine.cache().evict(&[]).unwrap();
    warm(&engine, &prompt(40));
    let stats = engine.stats().unwrap();
    assert_eq!((stats.miss_first_seen, stats.miss_namespace), (40, 0));
    assert_eq!(stats.miss_evicted, 40);
    assert!(stats.metadata_bytes > 0);
    assert_eq!(stats.fetched_tokens + stats.fetch_skipped_tokens, 0);
    let metrics = engine.metrics_text().unwrap();
    assert!(metrics.contains("miss"), "{metrics}");
}
