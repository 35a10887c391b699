//! prefix_recipe_*, prefix_task_*.

use super::handles::{self, PrefixTask, PrefixTokenizer};
use super::out::Buffer;
use super::{bytes_in, entry, out, set, slice_in, text_in, PrefixError, PREFIX_NUL};
use crate::engine::prefix_h::{
    prefix_engine, prefix_event, prefix_job_totals, prefix_options, prefix_queue,
    prefix_result_info, Sized32, PREFIX_EVENT_ERROR, PREFIX_EVENT_FINISHED, PREFIX_EVENT_TEXT,
};
use crate::engine::Engine;
use crate::error::{Code, Error, Result};
use crate::tasks::{shipped_json, Event, Found, Item, Task, Timed, SHIPPED};

/// The size that the caller's struct says it has.
///
/// # Safety
/// `out` is NULL or begins with its struct_size and has so many bytes.
unsafe fn check_size<T: Sized32>(out: *mut T, name: &str) -> Result<usize> {
    if out.is_null() {
        return Err(Error::argument(format!("{name} is NULL")));
    }
    let given = unsafe { out.cast::<i32>().read() };
    let least = T::FIRST_LAYOUT;
    usize::try_from(given)
        .ok()
        .filter(|size| *size >= least)
        .ok_or_else(|| {
            Error::new(
                Code::StructTooOld,
                format!(
                    "{}: struct_size is {given}; it must be at least {least}",
                    T::NAME
                ),
            )
        })
}

/// Copies the fields that both sides know; struct_size of `out` stays the caller's.
///
/// # Safety
/// As check_size.
unsafe fn fill<T: Sized32>(out: *mut T, value: T) -> Result<()> {
    let known = unsafe { check_size(out, "out") }?.min(size_of::<T>());
    let size = size_of::<i32>();
    let from = (&raw const value).cast::<u8>();
    // SAFETY: both have `known` bytes.
    unsafe {
        std::ptr::copy_nonoverlapping(from.add(size), out.cast::<u8>().add(size), known - size)
    };
    Ok(())
}

/// # Safety
/// `out` is NULL or valid.
unsafe fn set_if<T>(out: *mut T, value: T) {
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
pub extern "C" fn prefix_recipe_count() -> usize {
    SHIPPED.len()
}

#[no_mangle]
pub extern "C" fn prefix_recipe_name(index: usize) -> *const u8 {
    SHIPPED
        .get(index)
        .map_or(std::ptr::null(), |(name, _)| name.as_ptr())
}

#[no_mangle]
pub unsafe extern "C" fn prefix_recipe_json(
    name: *const u8,
    name_len: usize,
    buf: *mut u8,
    cap: usize,
    needed: *mut usize,
    err: *mut PrefixError,
) -> i32 {
    unsafe {
        entry(err, "prefix_recipe_json", || {
            let text = shipped_json(text_in(name, name_len, "name")?)?;
            out::text(text, buf, cap, needed)
        })
    }
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

#[no_mangle]
pub unsafe extern "C" fn prefix_task_width(
    task: *const PrefixTask,
    width: *mut usize,
    err: *mut PrefixError,
) -> i32 {
    unsafe {
        entry(err, "prefix_task_width", || {
            set(width, handles::task(task)?.found()?.width, "width")
        })
    }
}

/// # Safety
/// `task` is a handle or anything.
unsafe fn with_item(
    task: *const PrefixTask,
    item: usize,
    body: impl FnOnce(&Item, &[f32]) -> Result<()>,
) -> Result<()> {
    let task = handles::task(task)?;
    let found = task.found()?;
    let Some(place) = found.items.get(item) else {
        return Err(Error::range(format!(
            "item {item}; the task has {}",
            found.items.len()
        )));
    };
    let done = place
        .as_ref()
        .ok_or_else(|| Error::new(Code::Misuse, format!("item {item} is unfinished")))?;
    body(done, &found.values[item * found.width..][..found.width])
}

#[no_mangle]
pub unsafe extern "C" fn prefix_task_item_info(
    task: *const PrefixTask,
    item: usize,
    out: *mut prefix_result_info,
    err: *mut PrefixError,
) -> i32 {
    unsafe {
        entry(err, "prefix_task_item_info", || {
            with_item(task, item, |item, _| fill(out, item.info))
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn prefix_task_item_message(
    task: *const PrefixTask,
    item: usize,
    buf: *mut u8,
    cap: usize,
    needed: *mut usize,
    err: *mut PrefixError,
) -> i32 {
    unsafe {
        entry(err, "prefix_task_item_message", || {
            with_item(task, item, |item, _| {
                out::text(&item.message, buf, cap, needed)
            })
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn prefix_task_item_values(
    task: *const PrefixTask,
    item: usize,
    out: *mut f32,
    capacity: usize,
    needed: *mut usize,
    err: *mut PrefixError,
) -> i32 {
    unsafe {
        entry(err, "prefix_task_item_values", || {
            with_item(task, item, |item, values| {
                item.check()?;
                out::array(values, out, capacity, needed)
            })
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn prefix_task_item_text(
    task: *const PrefixTask,
    item: usize,
    buf: *mut u8,
    cap: usize,
    needed: *mut usize,
    err: *mut PrefixError,
) -> i32 {
    unsafe {
        entry(err, "prefix_task_item_text", || {
            with_item(task, item, |item, _| {
                item.check()?;
                out::text(&item.text, buf, cap, needed)
            })
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn prefix_task_item_partial_text(
    task: *const PrefixTask,
    item: usize,
    buf: *mut u8,
    cap: usize,
    needed: *mut usize,
    err: *mut PrefixError,
) -> i32 {
    unsafe {
        entry(err, "prefix_task_item_partial_text", || {
            with_item(task, item, |item, _| {
                out::text(&item.text, buf, cap, needed)
            })
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn prefix_task_all_values(
    task: *const PrefixTask,
    out: *mut f32,
    capacity: usize,
    needed: *mut usize,
    err: *mut PrefixError,
) -> i32 {
    unsafe {
        entry(err, "prefix_task_all_values", || {
            let task = handles::task(task)?;
            let found = task.found()?;
            out::array(&found.values, out, capacity, needed)
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn prefix_task_statuses(
    task: *const PrefixTask,
    out: *mut i32,
    capacity: usize,
    needed: *mut usize,
    err: *mut PrefixError,
) -> i32 {
    unsafe {
        entry(err, "prefix_task_statuses", || {
            let task = handles::task(task)?;
            let statuses: Vec<i32> = task
                .found()?
                .items
                .iter()
                .map(|item| {
                    item.as_ref()
                        .map_or(Code::NoEvent as i32, |i| i.info.status)
                })
                .collect();
            out::array(&statuses, out, capacity, needed)
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn prefix_task_first_failure(
    task: *const PrefixTask,
    item: *mut usize,
    err: *mut PrefixError,
) -> i32 {
    unsafe {
        entry(err, "prefix_task_first_failure", || {
            let task = handles::task(task)?;
            for (index, place) in task.found()?.items.iter().enumerate() {
                if let Some(Err(error)) = place.as_ref().map(Item::check) {
                    set_if(item, index);
                    return Err(error);
                }
            }
            Ok(())
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn prefix_task_ranking(
    task: *const PrefixTask,
    first: usize,
    count: usize,
    order: *mut i64,
    capacity: usize,
    needed: *mut usize,
    scores: *mut f32,
    capacity_scores: usize,
    err: *mut PrefixError,
) -> i32 {
    unsafe {
        entry(err, "prefix_task_ranking", || {
            let task = handles::task(task)?;
            let (places, values) = task.ranking(first, count)?;
            let order = Buffer {
                name: "order",
                at: order,
                capacity,
            };
            let scores = Buffer {
                name: "scores",
                at: scores,
                capacity: capacity_scores,
            };
            out::arrays(&places, order, needed, &values, scores)
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn prefix_task_get_totals(
    task: *const PrefixTask,
    out: *mut prefix_job_totals,
    err: *mut PrefixError,
) -> i32 {
    unsafe {
        entry(err, "prefix_task_get_totals", || {
            fill(out, handles::task(task)?.found()?.totals())
        })
    }
}

/// A struct that has grown, with a program and a library of different age.
#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C)]
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct New {
        struct_size: i32,
        a: i32,
        b: i64,
        c: i64,
    }
    const OLD: usize = std::mem::offset_of!(New, c);

    unsafe impl Sized32 for New {
        const NAME: &'static str = "new";
        const FIRST_LAYOUT: usize = OLD;

        fn with_size(self, struct_size: i32) -> Self {
            New {
                struct_size,
                ..self
            }
        }
    }

    /// What a program with room for `size` bytes has after the library filled it.
    fn filled(size: i32) -> (Result<()>, New, i64) {
        let mut memory = (
            New {
                struct_size: size,
                a: 90,
                b: 91,
                c: 92,
            },
            93,
        );
        let value = New {
            struct_size: 0,
            a: 1,
            b: 2,
            c: 3,
        };
        let result = unsafe { fill(&raw mut memory.0, value) };
        (result, memory.0, memory.1)
    }

    #[test]
    fn structs_are_filled_as_far_as_both_sides_know_them() {
        for (size, c) in [(OLD as i32, 92), (OLD as i32 + 8, 3), (1000, 3)] {
            let (result, found, behind) = filled(size);
            assert!(result.is_ok());
            let (a, b) = (1, 2);
            let wanted = New {
                struct_size: size,
                a,
                b,
                c,
            };
            assert_eq!((found, behind), (wanted, 93));
        }
        for size in [OLD as i32 - 1, 4, 0, -1] {
            let (result, found, _) = filled(size);
            assert_eq!(result.unwrap_err().code as i32, Code::StructTooOld as i32);
            assert_eq!((found.a, found.b, found.c), (90, 91, 92));
        }
    }
}
