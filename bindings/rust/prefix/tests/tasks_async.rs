//! Tasks that are awaited, and shared between threads.
#![cfg(feature = "text")]

mod support;

use std::future::Future;
use std::pin::Pin;
use std::sync::{mpsc, Arc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use prefix::{Engine, EventKind, Options, Status, Task, TaskBuilder, TaskKind, Tokenizer};
use support::{block_on, open, threads_of_this_process, writing};

/// So many texts to write.
fn task(open: &(Engine, Tokenizer), texts: usize, max_tokens: usize) -> Task {
    let options = writing(max_tokens);
    let mut builder = Task::builder(&open.0, &open.1, TaskKind::Generate, Some(&options)).unwrap();
    let prompts: Vec<String> = (0..texts).map(|i| format!("{i} trees and more")).collect();
    builder.add(&prompts).unwrap();
    builder.submit().unwrap()
}

#[test]
fn handles_may_be_sent_and_shared() {
    fn shared<T: Send + Sync + 'static>() {}
    fn sent<T: Send + Sync + Clone + 'static>() {}
    shared::<TaskBuilder>();
    sent::<Task>();
    shared::<Options>();
    shared::<prefix::Finished>();
    shared::<prefix::EventStream>();
    shared::<prefix::Ranking>();
    fn awaited<F: Future + Send>(_: &F) {}
    let open = open();
    let task = task(&open, 1, 1);
    let mut stream = task.event_stream();
    awaited(&stream.next_event());
    awaited(&task.finished());
}

#[test]
fn awaiting_a_task_or_a_job_gives_it_back_and_dropping_the_wait_cancels_it() {
    let open = open();
    let done = block_on(async { task(&open, 2, 5).await }).unwrap();
    assert_eq!(done.statuses().unwrap(), [Status::Ok; 2]);
    let mut batch = open.0.batch().unwrap();
    batch
        .add(prefix::Request::logits(&[1, 5, 9, 12], &[3, 4]))
        .unwrap();
    let job = block_on(async { open.0.submit(&batch).unwrap().await }).unwrap();
    assert_eq!(job.values(0).unwrap().len(), 2);

    let mut context = Context::from_waker(Waker::noop());
    let before = open.0.stats().unwrap().requests_finished;
    let mut wait = Box::pin(std::future::IntoFuture::into_future(task(&open, 1000, 150)));
    assert!(wait.as_mut().poll(&mut context).is_pending());
    drop(wait); // what was the only clone
    let end = Instant::now() + Duration::from_secs(60);
    while open.0.stats().unwrap().requests_running + open.0.stats().unwrap().requests_waiting > 0 {
        assert!(Instant::now() < end);
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(open.0.stats().unwrap().requests_finished < before + 1000);

    let kept = task(&open, 1, 5);
    let mut wait = Box::pin(std::future::IntoFuture::into_future(kept.clone()));
    let _ = wait.as_mut().poll(&mut context);
    drop(wait);
    kept.wait().unwrap();
    assert_eq!(kept.statuses().unwrap(), [Status::Ok]);
}

#[test]
fn an_engine_tells_its_shape() {
    let (engine, _) = open();
    let info = engine.info().unwrap();
    assert!(
        info.layers > 0 && info.hidden > 0 && info.max_positions > 0,
        "{info:?}"
    );
    assert!(info.kv_bytes_per_token > 0 && info.threads == 1, "{info:?}");
    let fits = |token: &prefix::Token| (0..info.vocabulary as i32).contains(token);
    assert!(engine.end_tokens().unwrap().iter().all(fits));
}

#[test]
fn two_hundred_tasks_are_awaited_with_one_thread() {
    let open = open();
    let mut context = Context::from_waker(Waker::noop());
    let first = task(&open, 2000, 150);
    let mut one = Box::pin(first.finished());
    assert!(one.as_mut().poll(&mut context).is_pending());
    let before = threads_of_this_process();
    let tasks: Vec<_> = (0..200).map(|_| task(&open, 2, 5)).collect();
    let mut waits: Vec<_> = tasks.iter().map(|task| Box::pin(task.finished())).collect();
    for wait in &mut waits {
        let _ = wait.as_mut().poll(&mut context); // a task may be done already
    }
    // Other tests of this program come and go with a thread or two each.
    assert!(threads_of_this_process() < before + 20);
    first.cancel().unwrap();
    for (task, wait) in tasks.iter().zip(waits) {
        block_on(wait).unwrap();
        assert_eq!(task.statuses().unwrap(), [Status::Ok; 2]);
    }
    block_on(one).unwrap();
}

#[test]
fn one_thread_streams_many_texts() {
    let open = open();
    let mut streams: Vec<_> = (0..50)
        .map(|i| task(&open, 1 + i % 3, 20 + i))
        .map(|task| (task.event_stream(), vec![String::new(); task.len()], task))
        .collect();
    // All at once, as an executor with one thread would.
    block_on(std::future::poll_fn(|context| {
        let mut open = 0;
        for (stream, texts, _) in &mut streams {
            loop {
                match stream.poll_event(context) {
                    Poll::Ready(Some(event)) => {
                        let event = event.unwrap();
                        texts[event.request].push_str(event.text());
                    }
                    Poll::Ready(None) => break,
                    Poll::Pending => {
                        open += 1;
                        break;
                    }
                }
            }
        }
        if open == 0 {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }));
    for (_, texts, task) in &streams {
        for (item, text) in texts.iter().enumerate() {
            assert_eq!(*text, task.text(item).unwrap());
        }
    }
}

#[test]
fn an_awaited_event_comes_when_the_task_is_cancelled() {
    let open = open();
    let task = task(&open, 2000, 150);
    let mut stream = task.event_stream();
    assert!(block_on(stream.next_event()).unwrap().is_ok());
    task.cancel().unwrap();
    let mut failed = 0;
    while let Some(event) = block_on(stream.next_event()) {
        failed += usize::from(matches!(event.unwrap().kind, EventKind::Failed { .. }));
    }
    assert!(failed > 0);
    assert_eq!(task.finished_count().unwrap(), task.len());
    assert!(block_on(stream.next_event()).is_none());
}

#[test]
fn a_future_that_is_dropped_does_not_cancel_the_task() {
    let open = open();
    let task = task(&open, 10, 50);
    let mut finished = Box::pin(task.finished());
    let mut context = Context::from_waker(Waker::noop());
    assert!(finished.as_mut().poll(&mut context).is_pending());
    drop(finished);
    task.wait().unwrap();
    assert_eq!(task.statuses().unwrap(), [Status::Ok; 10]);
}

/// The waker of an executor that is gone.
struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("the panic of a waker, on purpose");
    }
}

#[test]
fn a_waker_that_panics_ends_nobodys_wait() {
    let open = open();
    let waker = Waker::from(Arc::new(Panics));
    let task = task(&open, 2000, 150);
    let mut finished = task.finished();
    let first = Pin::new(&mut finished).poll(&mut Context::from_waker(&waker));
    assert!(first.is_pending());
    task.cancel().unwrap();
    task.wait().unwrap();
    block_on(self::task(&open, 1, 5).finished()).unwrap();
}

/// As the waker of a task that owns futures.
struct Owns {
    _future: prefix::Finished,
}

impl Wake for Owns {
    fn wake(self: Arc<Self>) {}
}

#[test]
fn a_waker_may_own_another_wait() {
    let open = open();
    let (first, second) = (task(&open, 2000, 150), task(&open, 2000, 150));
    let (done, wait) = mpsc::channel();
    let tasks = (first.clone(), second.clone());
    std::thread::spawn(move || {
        let mut none = Context::from_waker(Waker::noop());
        let mut finished = tasks.0.finished();
        for replaced in [true, false] {
            let mut owned = tasks.1.finished();
            assert!(Pin::new(&mut owned).poll(&mut none).is_pending());
            let waker = Waker::from(Arc::new(Owns { _future: owned }));
            let mut context = Context::from_waker(&waker);
            assert!(Pin::new(&mut finished).poll(&mut context).is_pending());
            drop(waker); // the place has the last one
            if replaced {
                assert!(Pin::new(&mut finished).poll(&mut none).is_pending());
            }
        }
        drop(finished);
        done.send(()).unwrap();
    });
    wait.recv_timeout(Duration::from_secs(60))
        .expect("the wakers were dropped under the lock");
    first.cancel().unwrap();
    second.cancel().unwrap();
}

#[test]
fn dropping_the_last_clone_cancels() {
    let open = open();
    let first = task(&open, 2000, 150);
    let clone = first.clone();
    let stream = first.event_stream();
    drop(first);
    drop(stream);
    assert!(!clone.wait_for(Duration::ZERO).unwrap());
    drop(clone);
    let begin = Instant::now();
    loop {
        let stats = open.0.stats().unwrap();
        if stats.requests_running + stats.requests_waiting == 0 {
            return;
        }
        assert!(begin.elapsed() < Duration::from_secs(30), "{stats:?}");
        std::thread::yield_now();
    }
}

#[test]
fn several_threads_fill_wait_and_read() {
    let open = open();
    let mut builder = Task::builder(&open.0, &open.1, TaskKind::Embed, None).unwrap();
    std::thread::scope(|scope| {
        let filled = scope.spawn(|| builder.add(&["one", "two"]).unwrap());
        assert_eq!(filled.join().unwrap(), 0..2);
    });
    let task = builder.submit().unwrap();
    let vectors: Vec<Vec<f32>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    task.wait().unwrap();
                    task.values(0).unwrap()
                })
            })
            .collect();
        let join = |thread: std::thread::ScopedJoinHandle<Vec<f32>>| thread.join().unwrap();
        threads.into_iter().map(join).collect()
    });
    assert!(vectors.windows(2).all(|pair| pair[0] == pair[1]));
}
