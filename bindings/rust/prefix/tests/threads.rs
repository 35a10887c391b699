//! Eight threads on one engine: every result has the bits it has alone.

mod support;

use prefix::{Engine, Request, Token};
use support::{bits, engine_with};

const THREADS: i32 = 8;
const ROUNDS: i32 = 25;

fn prompts(thread: i32, round: i32) -> Vec<Vec<Token>> {
    (0..4)
        .map(|i| {
            let stem = (0..20).map(|k| 1 + (k * 7 + round % 3) % 120);
            stem.chain([1 + thread, 1 + round, 1 + i]).collect()
        })
        .collect()
}

fn scores(engine: &Engine, thread: i32, round: i32) -> Vec<u32> {
    let mut batch = engine.batch().unwrap();
    let ids = [3, 70, 130];
    for prompt in prompts(thread, round) {
        batch.add(Request::logits(&prompt, &ids)).unwrap();
    }
    bits(engine.run(&batch).unwrap().all_values().unwrap().as_slice())
}

#[test]
fn eight_threads_on_one_engine() {
    let shared = engine_with(2);
    let together: Vec<Vec<Vec<u32>>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let engine = shared.clone();
                scope.spawn(move || {
                    (0..ROUNDS)
                        .map(|round| scores(&engine, thread, round))
                        .collect()
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    let alone = engine_with(1);
    for thread in 0..THREADS {
        for round in 0..ROUNDS {
            let expected = scores(&alone, thread, round);
            assert_eq!(
                together[thread as usize][round as usize], expected,
                "{thread} {round}"
            );
        }
    }
    let stats = shared.stats().unwrap();
    assert_eq!(stats.requests_finished, (THREADS * ROUNDS * 4) as u64);
    assert_eq!(stats.requests_running + stats.requests_waiting, 0);
}

#[test]
fn several_threads_take_the_events_of_one_job() {
    let engine = engine_with(1);
    let mut batch = engine.batch().unwrap();
    for i in 0..100 {
        batch.add(Request::embedding(&[1, 2, 3 + i])).unwrap();
    }
    let job = engine.submit(&batch).unwrap();
    let finished: usize = std::thread::scope(|scope| {
        let count = || {
            let events = job.events().map(Result::unwrap);
            events
                .filter(|e| matches!(e.kind, prefix::EventKind::Finished { .. }))
                .count()
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(count)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum()
    });
    assert_eq!(finished, 100);
}
