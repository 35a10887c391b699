//! prefix_task_*: a task is filled, submitted, waited for and followed.

use super::handles::{self, PrefixTask, PrefixTokenizer};
use super::structs::{check_size, fill};
use super::{bytes_in, entry, out, set, slice_in, text_in, PrefixError, PREFIX_NUL};
use crate::engine::Engine;
use crate::error::{Code, Error, Result};
use crate::prefix_h::{
    prefix_engine, prefix_event, prefix_options, prefix_queue, Sized32, PREFIX_EVENT_ERROR,
    PREFIX_EVENT_FINISHED, PREFIX_EVENT_TEXT,
};
use crate::tasks::{Event, Found, Task, Timed};

/// # Safety
/// `out` is NULL or valid.
pub(super) unsafe fn set_if<T>(out: *mut T, value: T) {
    if !out.is_null() {
        unsafe { out.write(value) };
    }
}

/// Texts of the caller, which stay his.
///
/// # Safety
/// `texts` points to n pointers to texts, `lengths` is NULL or points to n lengths.
unsafe fn texts_in<'a>(
    texts: *const *const u8,
    lengths: *const usize,
    n: usize,
    name: &str,
) -> Result<Vec<&'a [u8]>> {
    let texts = unsafe { slice_in(texts, n, name) }?;
    let lengths = match lengths.is_null() {
        true => None,
        false => Some(unsafe { slice_in(lengths, n, "lengths") }?),
    };
    let mut list = Vec::new();
    if list.try_reserve_exact(n).is_err() {
        let message = format!("there is no memory for {n} texts");
        return Err(Error::new(Code::OutOfMemory, message));
    }
    for (index, text) in texts.iter().enumerate() {
        let length = lengths.map_or(PREFIX_NUL, |lengths| lengths[index]);
        // The name of a text costs more than the text: only where it is wanted.
        let bytes = unsafe { bytes_in(*text, length, name) };
        list.push(bytes.map_err(|e| e.within(&format!("text {index}")))?);
    }
    Ok(list)
}

#[no_mangle]
pub unsafe extern "C" fn prefix_task_create(
    engine: *mut prefix_engine,
    tokenizer: *const PrefixTokenizer,
    kind: *const u8,
    kind_len: usize,
    options: *const prefix_options,
    out: *mut *mut PrefixTask,
    err: *mut PrefixError,
) -> i32 {
    unsafe {
        entry(err, "prefix_task_create", || {
            if out.is_null() {
                return Err(Error::argument("out is NULL"));
            }
            let text = handles::text(tokenizer)?;
            let kind = text_in(kind, kind_len, "kind")?;
            let engine = Engine::retain(engine)?;
            let options = engine.options_json(options)?;
            let task = Task::new(engine, text, kind, &options)?;
            set(out, handles::add_task(task)?, "out")
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn prefix_task_retain(task: *mut PrefixTask, err: *mut PrefixError) -> i32 {
    unsafe { entry(err, "prefix_task_retain", || handles::retain_task(task)) }
}

#[no_mangle]
pub extern "C" fn prefix_task_release(task: *mut PrefixTask) {
    // There is no way to report a failure here; a panic must still not reach C.
    unsafe {
        entry(std::ptr::null_mut(), "prefix_task_release", || {
            handles::release_task(task);
            Ok(())
        });
    }
}

#[no_mangle]
pub unsafe extern "C" fn prefix_task_info_json(
    task: *const PrefixTask,
    buf: *mut u8,
    cap: usize,
    needed: *mut usize,
    err: *mut PrefixError,
) -> i32 {
    unsafe {
        entry(err, "prefix_task_info_json", || {
            out::text(&handles::task(task)?.info_json(), buf, cap, needed)
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn prefix_task_set_labels(
    task: *mut PrefixTask,
    texts: *const *const u8,
    lengths: *const usize,
    n_texts: usize,
    err: *mut PrefixError,
) -> i32 {
    unsafe {
        entry(err, "prefix_task_set_labels", || {
            let task = handles::task(task)?;
            let mut labels = Vec::new();
            // All items have all labels, so a bad one is a mistake of the call.
            for (index, label) in texts_in(texts, lengths, n_texts, "texts")?
                .into_iter()
                .enumerate()
            {
                labels.push(
                    text_in(label.as_ptr(), label.len(), &format!("label {index}"))?.to_string(),
                );
            }
            if labels.is_empty() {
                return Err(Error::argument("there are no labels"));
            }
            task.set_labels(labels)
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn prefix_task_add(
    task: *mut PrefixTask,
    texts: *const *const u8,
    lengths: *const usize,
    n_texts: usize,
    user_tag: i64,
    index: *mut usize,
    err: *mut PrefixError,
) -> i32 {
    unsafe {
        entry(err, "prefix_task_add", || {
            let task = handles::task(task)?;
            let texts = texts_in(texts, lengths, n_texts, "texts")?;
            let first = task.fill(|inputs| inputs.add(&texts, user_tag))?;
            set_if(index, first);
            Ok(())
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn prefix_task_add_product(
    task: *mut PrefixTask,
    firsts: *const *const u8,
    first_lengths: *const usize,
    n_firsts: usize,
    seconds: *const *const u8,
    second_lengths: *const usize,
    n_seconds: usize,
    user_tag: i64,
    index: *mut usize,
    err: *mut PrefixError,
) -> i32 {
    unsafe {
        entry(err, "prefix_task_add_product", || {
            let task = handles::task(task)?;
            let firsts = texts_in(firsts, first_lengths, n_firsts, "firsts")?;
            let seconds = texts_in(seconds, second_lengths, n_seconds, "seconds")?;
            let first = task.fill(|inputs| inputs.add_product(&firsts, &seconds, user_tag))?;
            set_if(index, first);
            Ok(())
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn prefix_task_submit(task: *mut PrefixTask, err: *mut PrefixError) -> i32 {
    unsafe { entry(err, "prefix_task_submit", || handles::task(task)?.submit()) }
}

#[no_mangle]
pub unsafe extern "C" fn prefix_task_wait(
    task: *mut PrefixTask,
    timeout_ms: i64,
    err: *mut PrefixError,
) -> i32 {
    unsafe {
        entry(err, "prefix_task_wait", || {
            let task = handles::task(task)?;
            if task.wait(timeout_ms)? {
                return Ok(());
            }
            let (all, done) = task.counts();
            Err(Error::new(
                Code::Timeout,
                format!("{done} of {all} items are done after {timeout_ms} ms"),
            ))
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn prefix_task_notify(
    task: *mut PrefixTask,
    queue: *mut prefix_queue,
    tag: i64,
    err: *mut PrefixError,
) -> i32 {
    unsafe {
        entry(err, "prefix_task_notify", || {
            let task = handles::task(task)?;
            task.notify(task.queue(queue)?, tag);
            Ok(())
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn prefix_task_cancel(task: *mut PrefixTask, err: *mut PrefixError) -> i32 {
    unsafe {
        entry(err, "prefix_task_cancel", || {
            handles::task(task)?.cancel();
            Ok(())
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn prefix_task_count(
    task: *const PrefixTask,
    count: *mut usize,
    err: *mut PrefixError,
) -> i32 {
    unsafe {
        entry(err, "prefix_task_count", || {
            set(count, handles::task(task)?.counts().0, "count")
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn prefix_task_finished_count(
    task: *const PrefixTask,
    count: *mut usize,
    err: *mut PrefixError,
) -> i32 {
    unsafe {
        entry(err, "prefix_task_finished_count", || {
            set(count, handles::task(task)?.counts().1, "count")
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn prefix_task_item_tokens(
    task: *const PrefixTask,
    item: usize,
    out: *mut i32,
    capacity: usize,
    needed: *mut usize,
    err: *mut PrefixError,
) -> i32 {
    unsafe {
        entry(err, "prefix_task_item_tokens", || {
            out::array(&handles::task(task)?.tokens(item)?, out, capacity, needed)
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn prefix_task_next_event(
    task: *mut PrefixTask,
    timeout_ms: i64,
    event: *mut prefix_event,
    buf: *mut u8,
    cap: usize,
    needed: *mut usize,
    err: *mut PrefixError,
) -> i32 {
    unsafe {
        entry(err, "prefix_task_next_event", || {
            let task = handles::task(task)?;
            check_size(event, "event")?;
            let work = task.work()?;
            work.results.next_event(timeout_ms, |found, next| {
                let (item, text) = match &next.event {
                    Event::Text { item, text } => (*item, Some(text)),
                    Event::Ended { item } => (*item, None),
                };
                let is_read = match text {
                    // What has no text needs no room for it.
                    None if cap == 0 => {
                        out::text("", buf, cap, needed)?;
                        true
                    }
                    text => out::bytes(text.map_or("", |t| t).as_bytes(), buf, cap, needed)?,
                };
                fill(event, about(next, item, found, work.inputs.user_tag(item)))?;
                Ok(is_read)
            })
        })
    }
}

/// An event of a task in the words of prefix.h.
fn about(timed: &Timed, item: usize, found: &Found, user_tag: i64) -> prefix_event {
    let mut event = prefix_event {
        request: item as i64,
        user_tag,
        kind: PREFIX_EVENT_TEXT,
        time_us: timed.time_us,
        ..prefix_event::sized()
    };
    if let (Event::Ended { .. }, Some(item)) = (&timed.event, &found.items[item]) {
        event.status = item.info.status;
        event.cached = item.info.cached_tokens;
        event.computed = item.info.computed_tokens;
        event.kind = match event.status {
            0 => PREFIX_EVENT_FINISHED,
            _ => PREFIX_EVENT_ERROR,
        };
    }
    event
}

#[no_mangle]
pub unsafe extern "C" fn prefix_task_notify_events(
    task: *mut PrefixTask,
    queue: *mut prefix_queue,
    tag: i64,
    err: *mut PrefixError,
) -> i32 {
    unsafe {
        entry(err, "prefix_task_notify_events", || {
            let task = handles::task(task)?;
            task.notify_events(task.queue(queue)?, tag);
            Ok(())
        })
    }
}
