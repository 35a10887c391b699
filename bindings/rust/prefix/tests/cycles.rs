//! Memory stays flat over 10,000 cycles. Alone in its program, so that the memory is its own.

mod support;

use prefix::{Batch, Engine, Options, Request};
use support::{engine, model, resident_bytes};

/// Runs a cycle 10,000 times; memory may not grow between the first tenth and the end.
fn flat(what: &str, cycles: usize, mut cycle: impl FnMut()) {
    for _ in 0..cycles / 10 {
        cycle();
    }
    let before = resident_bytes();
    for _ in 0..cycles - cycles / 10 {
        cycle();
    }
    let grown = resident_bytes().saturating_sub(before);
    println!("{what}: {cycles} cycles, {grown} bytes more");
    assert!(
        grown < 2 << 20,
        "{what}: {grown} bytes more after {cycles} cycles"
    );
}

#[test]
fn memory_is_flat() {
    let engine = engine();
    flat("create, run, release", 10_000, || {
        let options = Options::new().unwrap().set("max_tokens", 2).unwrap();
        let mut batch = engine.batch().unwrap();
        batch.add(Request::logits(&[1, 5, 9, 12], &[3, 4])).unwrap();
        batch
            .add(Request::generate(&[1, 5, 9]).options(&options))
            .unwrap();
        batch.add(Request::embedding(&[1, 99_999])).unwrap(); // fails, with a message
        let job = engine.run(&batch).unwrap();
        assert_eq!(job.values(0).unwrap().len(), 2);
        assert!(job.values(2).is_err());
    });
    flat("errors", 10_000, || {
        assert!(Options::new().unwrap().set("thread", 1).is_err());
        assert!(Engine::open("/nowhere").is_err());
        drop(Batch::plan_only().unwrap());
    });
    flat("engines", 300, || {
        let options = Options::new().unwrap().set("threads", 1).unwrap();
        let options = options.set("cache_bytes", "4M").unwrap();
        let engine = Engine::open_with(model("llama-base"), &options).unwrap();
        let mut batch = engine.batch().unwrap();
        batch.add(Request::logits(&[1, 5, 9, 12], &[3, 4])).unwrap();
        engine.run(&batch).unwrap();
    });
}
