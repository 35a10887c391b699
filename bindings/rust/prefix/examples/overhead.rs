//! What the bindings cost: overhead MODEL prints one JSON object, times in microseconds.
//!
//! Times are medians. `engine` is what the library itself says about the job; the rest of `wall` is crossing
//! the interface, copying tokens in and scores out.

use std::time::{Duration, Instant};

use prefix::{Engine, Options, Request, Token, Values};

const DOCUMENTS: usize = 1000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = std::env::args().nth(1).ok_or("usage: overhead MODEL")?;
    let engine = Engine::open_with(model, &Options::new()?.set("threads", 1)?)?;

    // One call that does nothing: the state of the engine.
    let calls = 1_000_000;
    let begin = Instant::now();
    for _ in 0..calls {
        std::hint::black_box(engine.state());
    }
    let crossing_ns = begin.elapsed().as_nanos() as f64 / f64::from(calls);

    // A batch without requests: a job is made, waited for and released.
    let empty_batch = engine.batch()?;
    let empty = median(2000, || Ok(engine.run(&empty_batch)?.totals()?.time))?;

    // One token whose logit is asked for again and again; after the first run all is in the cache.
    let (tokens, ids) = ([1, 5, 9, 12], [3]);
    let mut batch = engine.batch()?;
    let mut values = Values::default();
    let small = median(2000, || {
        batch.clear()?;
        batch.add(Request::logits(&tokens, &ids))?;
        let job = engine.run(&batch)?;
        job.all_values_into(&mut values)?;
        Ok(job.totals()?.time)
    })?;

    // Many documents after one instruction: one call adds them, one runs them, one brings all scores.
    let instruction: Vec<Token> = (0..32).map(|i| 1 + i % 97).collect();
    let documents: Vec<Token> = (0..DOCUMENTS as Token * 8)
        .map(|i| 1 + i * 31 % 127)
        .collect();
    let offsets: Vec<i64> = (0..=DOCUMENTS as i64).map(|i| i * 8).collect();
    let score = median(20, || {
        batch.clear()?;
        batch.add(Request::continuations_flat(
            &instruction,
            &documents,
            &offsets,
        ))?;
        let job = engine.run(&batch)?;
        job.all_values_into(&mut values)?;
        assert_eq!(values.as_slice().len(), documents.len());
        Ok(job.totals()?.time)
    })?;

    println!(
        "{{\"call_ns\": {crossing_ns:.1}, \"empty_run\": {}, \"one_logit\": {}, \"score_{DOCUMENTS}_documents\": {}}}",
        json(empty),
        json(small),
        json(score)
    );
    Ok(())
}

/// (wall, engine): the run with the median wall time.
fn median(
    runs: usize,
    mut run: impl FnMut() -> prefix::Result<Duration>,
) -> prefix::Result<(Duration, Duration)> {
    run()?; // fills the cache
    let mut times = Vec::with_capacity(runs);
    for _ in 0..runs {
        let begin = Instant::now();
        let engine = run()?;
        times.push((begin.elapsed(), engine));
    }
    times.sort();
    Ok(times[runs / 2])
}

fn json((wall, engine): (Duration, Duration)) -> String {
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    format!(
        "{{\"wall_us\": {:.1}, \"engine_us\": {:.1}}}",
        micros(wall),
        micros(engine)
    )
}
