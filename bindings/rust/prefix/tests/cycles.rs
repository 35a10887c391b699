//! Memory stays flat over 10,000 cycles. Alone in its program, so that the memory is its own.

mod support;

use std::sync::Arc;
use std::task::{Context, Wake, Waker};

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

/// What wakes nobody and is large, so that a waker which is kept is seen.
struct Heavy(#[allow(dead_code)] [u8; 1024]);

impl Wake for Heavy {
    fn wake(self: Arc<Self>) {}
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
    flat("streams that are left", 10_000, || {
        let mut batch = engine.batch().unwrap();
        batch.add(Request::generate(&[1, 5, 9])).unwrap();
        let job = engine.submit(&batch).unwrap();
        let waker = Waker::from(Arc::new(Heavy([1; 1024])));
        let mut context = Context::from_waker(&waker);
        for mut stream in [job.event_stream(), job.event_stream()] {
            let _ = stream.poll_event(&mut context);
        }
    });
    flat("errors", 10_000, || {
        assert!(Options::new().unwrap().set("thread", 1).is_err());
        assert!(Engine::open("/nowhere").is_err());
        drop(Batch::plan_only().unwrap());
    });
    #[cfg(feature = "text")]
    {
        use prefix::{EventKind, Task, TaskKind, Tokenizer};
        let folder = support::ascii_model();
        let (engine, tokenizer) = (
            Engine::open(&folder).unwrap(),
            Tokenizer::open(&folder).unwrap(),
        );
        flat("tasks", 3000, || {
            let options = Options::new().unwrap().set("max_tokens", 2).unwrap();
            let options = options.set("stream", true).unwrap();
            let options = options.set("stop", &["\n\n"]).unwrap();
            let mut builder =
                Task::builder(&engine, &tokenizer, TaskKind::Generate, Some(&options)).unwrap();
            builder.add(&["one", &"too long ".repeat(100)]).unwrap();
            let task = builder.submit().unwrap();
            let ended = |kind: &EventKind| !matches!(kind, EventKind::Text(_));
            let events = task.events().map(|event| event.unwrap().kind);
            assert_eq!(events.filter(ended).count(), 2);
            assert!(task.text(0).is_ok());
        });
    }
    flat("engines", 300, || {
        let options = Options::new().unwrap().set("threads", 1).unwrap();
        let options = options.set("cache_bytes", "4M").unwrap();
        let engine = Engine::open_with(model("llama-base"), &options).unwrap();
        let mut batch = engine.batch().unwrap();
        batch.add(Request::logits(&[1, 5, 9, 12], &[3, 4])).unwrap();
        engine.run(&batch).unwrap();
    });
}
