//! Jobs: results, events, cancelling, waiting with and without blocking.

mod support;

use std::future::Future;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use prefix::{Batch, Engine, EventKind, Finish, Finished, Options, Request, Status};
use support::{block_on, engine, options, threads_of_this_process};

/// A batch that keeps the tiny model busy for seconds.
fn long_batch(engine: &Engine) -> Batch {
    let options = options()
        .set("max_tokens", 200)
        .unwrap()
        .set("ignore_eos", true)
        .unwrap();
    let mut batch = engine.batch().unwrap();
    for i in 0..2000 {
        let prompt = [1, 2 + i % 100, 3 + i / 100, 4];
        batch
            .add(Request::generate(&prompt).options(&options).tag(i.into()))
            .unwrap();
    }
    batch
}

#[test]
fn a_bad_request_fails_alone() {
    let engine = engine();
    let mut batch = engine.batch().unwrap();
    assert!(batch.is_empty().unwrap());
    batch.add(Request::logits(&[1, 2], &[3, 4])).unwrap();
    batch
        .add(Request::logits(&[1, 99_999], &[3]).tag(7))
        .unwrap();
    batch.add(Request::embedding(&[1, 2])).unwrap();
    let job = engine.run(&batch).unwrap();
    assert_eq!((job.len(), job.finished_count().unwrap()), (3, 3));
    assert_eq!(job.values(0).unwrap().len(), 2);
    let error = job.values(1).unwrap_err();
    assert_eq!(error.status(), Status::OutOfRange);
    assert!(error.message().contains("99999"), "{error}");
    assert_eq!(job.message(1).unwrap(), error.message());
    assert_eq!(job.info(1).unwrap().tag, 7);
    let norm: f32 = job.values(2).unwrap().iter().map(|x| x * x).sum();
    assert!((norm - 1.0).abs() < 1e-3, "{norm}");
    assert_eq!(job.values(3).unwrap_err().status(), Status::OutOfRange);

    let values = job.all_values().unwrap();
    assert_eq!(
        values.iter().map(<[f32]>::len).collect::<Vec<_>>(),
        [2, 1, 128]
    );
    assert!(values.get(1).unwrap()[0].is_nan());
    let (first, why) = job.first_failure().unwrap().unwrap();
    assert_eq!((first, why.status()), (1, error.status()));
    assert!(why.message().ends_with(error.message()), "{why}");
    assert_eq!(values.get(3), None);
    assert_eq!(values.get(usize::MAX), None);
    let totals = job.totals().unwrap();
    assert_eq!((totals.requests, totals.failed), (3, 1));
    batch.clear().unwrap();
    assert_eq!(batch.len().unwrap(), 0);
}

#[test]
fn arguments_that_make_no_sense_are_refused_when_added() {
    let engine = engine();
    let mut batch = engine.batch().unwrap();
    let error = batch.add(Request::logits(&[], &[1])).map(|_| ());
    let result = error.and_then(|()| engine.run(&batch)?.values(0).map(|_| ()));
    assert_eq!(result.unwrap_err().status(), Status::InvalidArgument);
    let backwards = [0, 2, 1];
    let flat = Request::choices_flat(&[1], &[2, 3], &backwards);
    assert_eq!(batch.add(flat).unwrap_err().status(), Status::OutOfRange);
}

#[test]
fn events_come_in_order_and_end() {
    let engine = engine();
    let options = options()
        .set("max_tokens", 5)
        .unwrap()
        .set("logprobs", true)
        .unwrap();
    let options = options.set("ignore_eos", true).unwrap();
    let mut batch = engine.batch().unwrap();
    batch
        .add(Request::generate(&[1, 5, 9]).options(&options).tag(-3))
        .unwrap();
    let job = engine.submit(&batch).unwrap();
    let events: Vec<_> = job.events().map(Result::unwrap).collect();
    assert!(events
        .iter()
        .all(|event| event.request == 0 && event.tag == -3));
    assert!(events.windows(2).all(|pair| pair[0].time <= pair[1].time));
    assert_eq!(events.first().unwrap().kind, EventKind::Started);
    assert!(
        matches!(events.last().unwrap().kind, EventKind::Finished { .. }),
        "{events:?}"
    );
    let mut tokens = Vec::new();
    let mut logprobs = Vec::new();
    for event in &events {
        if let EventKind::Token { token, logprob } = event.kind {
            tokens.push(token);
            logprobs.push(logprob);
        }
    }
    assert_eq!(tokens, job.tokens(0).unwrap());
    assert_eq!(logprobs, job.logprobs(0).unwrap());
    assert_eq!(tokens.len(), 5);
    assert_eq!(job.info(0).unwrap().finish, Finish::Length);
    assert!(job.events().next().is_none(), "there are no more");
}

#[test]
fn a_failed_request_has_an_event() {
    let engine = engine();
    let mut batch = engine.batch().unwrap();
    batch.add(Request::embedding(&[1, 99_999])).unwrap();
    let job = engine.submit(&batch).unwrap();
    let last = job.events().last().unwrap().unwrap();
    assert!(
        matches!(
            last.kind,
            EventKind::Failed {
                status: Status::OutOfRange,
                ..
            }
        ),
        "{last:?}"
    );
}

#[test]
fn cancelling_mid_run_frees_the_engine() {
    let engine = engine();
    let job = engine.submit(&long_batch(&engine)).unwrap();
    let mut events = job.events();
    assert!(
        events.next_within(Duration::from_secs(60)).unwrap().is_ok(),
        "it has begun"
    );
    assert!(!job.wait_for(Duration::ZERO).unwrap());
    assert_eq!(
        job.info(1999).unwrap_err().status(),
        Status::Misuse,
        "unfinished"
    );
    let other = job.clone();
    let begin = Instant::now();
    std::thread::spawn(move || other.cancel().unwrap())
        .join()
        .unwrap();
    job.wait().unwrap();
    assert!(
        begin.elapsed() < Duration::from_secs(5),
        "{:?}",
        begin.elapsed()
    );
    assert_eq!(job.tokens(1999).unwrap_err().status(), Status::Cancelled);
    assert_eq!(job.info(1999).unwrap().finish, Finish::Cancelled);
    job.cancel().unwrap();
    assert_eq!(engine.stats().unwrap().requests_running, 0);
}

#[test]
fn one_request_can_be_cancelled() {
    let engine = engine();
    let job = engine.submit(&long_batch(&engine)).unwrap();
    job.cancel_request(1500).unwrap();
    let cancelled = job.events().map(Result::unwrap).find(|event| {
        matches!(
            event.kind,
            EventKind::Failed {
                status: Status::Cancelled,
                ..
            }
        )
    });
    assert_eq!(cancelled.unwrap().tag, 1500);
    assert_eq!(job.info(1500).unwrap().status, Status::Cancelled);
    assert!(job.cancel_request(2000).is_err());
}

#[test]
fn dropping_the_last_clone_cancels() {
    let engine = engine();
    let job = engine.submit(&long_batch(&engine)).unwrap();
    let clone = job.clone();
    drop(job);
    assert!(
        !clone.wait_for(Duration::ZERO).unwrap(),
        "the clone keeps it running"
    );
    drop(clone);
    settles(&engine);
}

/// Nothing runs or waits any more, soon.
fn settles(engine: &Engine) {
    let begin = Instant::now();
    loop {
        let stats = engine.stats().unwrap();
        if stats.requests_running + stats.requests_waiting == 0 {
            return;
        }
        assert!(begin.elapsed() < Duration::from_secs(5), "{stats:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_deadline_ends_a_request_with_timeout() {
    let engine = engine();
    let options: Options = options()
        .set("deadline_ms", 1)
        .unwrap()
        .set("max_tokens", 200)
        .unwrap();
    let mut batch = long_batch(&engine);
    let number = batch
        .add(Request::generate(&[9, 9]).options(&options))
        .unwrap();
    let job = engine.submit(&batch).unwrap();
    let found = job.events().map(Result::unwrap).find(|event| {
        event.request == number && { matches!(event.kind, EventKind::Failed { .. }) }
    });
    assert!(matches!(
        found.unwrap().kind,
        EventKind::Failed {
            status: Status::Deadline,
            ..
        }
    ));
}

#[test]
fn a_job_can_be_awaited() {
    let engine = engine();
    let mut batch = engine.batch().unwrap();
    batch.add(Request::logits(&[1, 2, 3], &[4])).unwrap();
    let values = block_on(async {
        let job = engine.submit(&batch).unwrap();
        job.finished().await.unwrap();
        job.finished().await.unwrap(); // done already
        job.all_values().unwrap()
    });
    assert_eq!(values.as_slice().len(), 1);
}

#[test]
fn one_thread_streams_the_events_of_many_jobs() {
    let engine = engine();
    let mut streams = Vec::new();
    for i in 0..50 {
        let options = options().set("ignore_eos", true).unwrap();
        let options = options.set("max_tokens", 1 + i % 7).unwrap();
        let mut batch = engine.batch().unwrap();
        batch
            .add(Request::generate(&[1, 2, i]).options(&options))
            .unwrap();
        let job = engine.submit(&batch).unwrap();
        streams.push((job.event_stream(), job, Vec::new()));
    }
    // All at once, as an executor with one thread would.
    let mut open = streams.len();
    block_on(std::future::poll_fn(|context| {
        for (stream, _, tokens) in &mut streams {
            while let Poll::Ready(event) = stream.poll_event(context) {
                match event.transpose().unwrap().map(|event| event.kind) {
                    Some(EventKind::Token { token, .. }) => tokens.push(token),
                    Some(EventKind::Finished { .. }) => open -= 1,
                    Some(_) => {}
                    None => break,
                }
            }
        }
        if open == 0 {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }));
    for (stream, job, tokens) in &mut streams {
        assert_eq!(*tokens, job.tokens(0).unwrap());
        assert!(block_on(stream.next_event()).is_none(), "it has ended");
    }
}

#[test]
fn an_awaited_event_comes_when_the_job_is_cancelled() {
    let engine = engine();
    let job = engine.submit(&long_batch(&engine)).unwrap();
    let mut stream = job.event_stream();
    assert!(block_on(stream.next_event()).unwrap().is_ok());
    job.cancel().unwrap();
    let mut failed = 0;
    while let Some(event) = block_on(stream.next_event()) {
        failed += usize::from(matches!(event.unwrap().kind, EventKind::Failed { .. }));
    }
    assert!(failed > 0);
    assert_eq!(job.finished_count().unwrap(), job.len());
}

/// The library has one notice for the events of a job: whoever of its streams was awaited last must not have it alone.
#[test]
fn all_streams_of_a_job_are_woken() {
    let engine = engine();
    let job = engine.submit(&long_batch(&engine)).unwrap();
    let read = |mut stream: prefix::EventStream| {
        std::thread::spawn(move || {
            let mut events = 0;
            while let Some(event) = block_on(stream.next_event()) {
                event.unwrap();
                events += 1;
            }
            events
        })
    };
    let streams = [(); 4].map(|()| job.event_stream());
    let mut left = job.event_stream();
    let readers = streams.map(read);
    // The one that comes last goes first, with the notice.
    let mut context = Context::from_waker(std::task::Waker::noop());
    while left.poll_event(&mut context).is_ready() {}
    drop(left);
    job.cancel().unwrap();
    let events: Vec<usize> = readers.map(|reader| reader.join().unwrap()).into();
    assert!(events.iter().sum::<usize>() > 0, "{events:?}");
    assert!(block_on(job.event_stream().next_event()).is_none());
}

#[test]
fn two_hundred_awaited_jobs_take_one_thread() {
    let engine = engine();
    let batch = long_batch(&engine);
    let mut context = Context::from_waker(std::task::Waker::noop());
    let mut one = Box::pin(engine.submit(&batch).unwrap().finished());
    assert!(one.as_mut().poll(&mut context).is_pending());
    let before = threads_of_this_process();
    let jobs: Vec<_> = (0..200).map(|_| engine.submit(&batch).unwrap()).collect();
    let mut waits: Vec<_> = jobs.iter().map(|job| Box::pin(job.finished())).collect();
    for wait in &mut waits {
        assert!(wait.as_mut().poll(&mut context).is_pending());
    }
    // Other tests of this program come and go with a thread or two each.
    assert!(threads_of_this_process() < before + 20);
    for (job, wait) in jobs.iter().zip(waits) {
        job.cancel().unwrap();
        block_on(wait).unwrap();
    }
}

#[test]
fn a_detached_job_goes_on_without_a_handle() {
    let engine = engine();
    let mut batch = engine.batch().unwrap();
    batch.add(Request::warm(&[7; 100])).unwrap();
    let job = engine.submit(&batch).unwrap();
    job.detach().unwrap();
    drop(job);
    settles(&engine);
    assert_eq!(engine.stats().unwrap().requests_failed, 0);
}

#[test]
fn awaiting_wakes_when_a_long_job_is_cancelled() {
    let engine = engine();
    let job = engine.submit(&long_batch(&engine)).unwrap();
    let finished: Finished = job.finished();
    let canceller = std::thread::spawn({
        let job = job.clone();
        move || {
            std::thread::sleep(Duration::from_millis(100));
            job.cancel().unwrap();
        }
    });
    block_on(finished).unwrap();
    canceller.join().unwrap();
    assert_eq!(job.info(1999).unwrap().status, Status::Cancelled);
}

#[test]
fn a_future_that_is_dropped_does_not_keep_the_job_running() {
    let engine = engine();
    let job = engine.submit(&long_batch(&engine)).unwrap();
    let mut finished = Box::pin(job.finished());
    let waker = std::task::Waker::noop();
    assert!(finished
        .as_mut()
        .poll(&mut Context::from_waker(waker))
        .is_pending());
    drop(finished);
    drop(job);
    settles(&engine);
}
