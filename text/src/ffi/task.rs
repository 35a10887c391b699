//! prefix_recipe_*, prefix_rerank and the other tasks, prefix_task_*.

use super::handles::{self, PrefixTask, PrefixTokenizer};
use super::tokenizer::check_cuts;
use super::{bytes_in, entry, out, set, slice_in, text_in, PrefixError, PREFIX_NUL};
use crate::engine::prefix_h::{prefix_job_totals, prefix_result_info, Sized32};
use crate::engine::Engine;
use crate::error::{Code, Error, Result};
use crate::tasks::{self, shipped_json, Inputs, Item, Options, Texts, Work, SHIPPED};
use std::ffi::c_void;

/// Copies the fields that both sides know; struct_size of `out` stays the caller's.
///
/// # Safety
/// `out` is NULL or begins with its struct_size and has so many bytes.
unsafe fn fill<T: Sized32>(out: *mut T, value: T) -> Result<()> {
    if out.is_null() {
        return Err(Error::argument("out is NULL"));
    }
    let given = unsafe { out.cast::<i32>().read() };
    let least = T::FIRST_LAYOUT;
    if usize::try_from(given).map_or(true, |size| size < least) {
        return Err(Error::new(
            Code::StructTooOld,
            format!(
                "{}: struct_size is {given}; it must be at least {least}",
                T::NAME
            ),
        ));
    }
    let known = (given as usize).min(size_of::<T>());
    let size = size_of::<i32>();
    let from = (&raw const value).cast::<u8>();
    // SAFETY: both have `known` bytes.
    unsafe {
        std::ptr::copy_nonoverlapping(from.add(size), out.cast::<u8>().add(size), known - size)
    };
    Ok(())
}

/// # Safety
/// As slice_in.
unsafe fn texts_in(
    text: *const u8,
    text_len: usize,
    offsets: *const i64,
    n_offsets: usize,
    name: &str,
) -> Result<Texts> {
    let bytes = unsafe { bytes_in(text, text_len, name) }?;
    let cuts = unsafe { slice_in(offsets, n_offsets, &format!("the offsets of {name}")) }?;
    check_cuts(cuts, bytes.len()).map_err(|e| e.within(name))?;
    Ok(Texts::new(bytes, cuts))
}

/// # Safety
/// `engine` and `tokenizer` are handles or anything; `options` as text_in; `out` is NULL or valid.
unsafe fn make(
    engine: *mut c_void,
    tokenizer: *const PrefixTokenizer,
    options: *const u8,
    options_len: usize,
    inputs: Inputs,
    out: *mut *mut PrefixTask,
) -> Result<()> {
    if out.is_null() {
        return Err(Error::argument("out is NULL"));
    }
    let text = handles::text(tokenizer)?;
    let options = if options.is_null() && (options_len == 0 || options_len == PREFIX_NUL) {
        ""
    } else {
        unsafe { text_in(options, options_len, "options") }?
    };
    let options = Options::parse(options, inputs.kind)?;
    let engine = unsafe { Engine::retain(engine.cast()) }?;
    let task = Work::new(engine, text, inputs, options)?;
    unsafe { set(out, handles::add_task(task)?, "out") }
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
            out::text(&text, buf, cap, needed)
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn prefix_rerank(
    engine: *mut c_void,
    tokenizer: *const PrefixTokenizer,
    queries: *const u8,
    queries_len: usize,
    query_offsets: *const i64,
    n_query_offsets: usize,
    documents: *const u8,
    documents_len: usize,
    document_offsets: *const i64,
    n_document_offsets: usize,
    options: *const u8,
    options_len: usize,
    out: *mut *mut PrefixTask,
    err: *mut PrefixError,
) -> i32 {
    unsafe {
        entry(err, "prefix_rerank", || {
            let inputs = Inputs {
                kind: &tasks::rerank::KIND,
                queries: texts_in(
                    queries,
                    queries_len,
                    query_offsets,
                    n_query_offsets,
                    "queries",
                )?,
                documents: texts_in(
                    documents,
                    documents_len,
                    document_offsets,
                    n_document_offsets,
                    "documents",
                )?,
                labels: Texts::default(),
            };
            make(engine, tokenizer, options, options_len, inputs, out)
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn prefix_embed(
    engine: *mut c_void,
    tokenizer: *const PrefixTokenizer,
    text: *const u8,
    text_len: usize,
    offsets: *const i64,
    n_offsets: usize,
    options: *const u8,
    options_len: usize,
    out: *mut *mut PrefixTask,
    err: *mut PrefixError,
) -> i32 {
    unsafe {
        entry(err, "prefix_embed", || {
            let inputs = Inputs {
                kind: &tasks::embed::KIND,
                queries: Texts::default(),
                documents: texts_in(text, text_len, offsets, n_offsets, "text")?,
                labels: Texts::default(),
            };
            make(engine, tokenizer, options, options_len, inputs, out)
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn prefix_answer(
    engine: *mut c_void,
    tokenizer: *const PrefixTokenizer,
    context: *const u8,
    context_len: usize,
    questions: *const u8,
    questions_len: usize,
    question_offsets: *const i64,
    n_question_offsets: usize,
    options: *const u8,
    options_len: usize,
    out: *mut *mut PrefixTask,
    err: *mut PrefixError,
) -> i32 {
    unsafe {
        entry(err, "prefix_answer", || {
            let context = text_in(context, context_len, "context")?;
            let inputs = Inputs {
                kind: &tasks::answer::KIND,
                queries: texts_in(
                    questions,
                    questions_len,
                    question_offsets,
                    n_question_offsets,
                    "questions",
                )?,
                documents: Texts::one(context.as_bytes()),
                labels: Texts::default(),
            };
            make(engine, tokenizer, options, options_len, inputs, out)
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn prefix_classify(
    engine: *mut c_void,
    tokenizer: *const PrefixTokenizer,
    text: *const u8,
    text_len: usize,
    offsets: *const i64,
    n_offsets: usize,
    labels: *const u8,
    labels_len: usize,
    label_offsets: *const i64,
    n_label_offsets: usize,
    options: *const u8,
    options_len: usize,
    out: *mut *mut PrefixTask,
    err: *mut PrefixError,
) -> i32 {
    unsafe {
        entry(err, "prefix_classify", || {
            let labels = texts_in(labels, labels_len, label_offsets, n_label_offsets, "labels")?;
            // All items have all labels, so a bad one is a mistake of the call.
            for index in 0..labels.len() {
                labels.get(index, "label")?;
            }
            let inputs = Inputs {
                kind: &tasks::classify::KIND,
                queries: Texts::default(),
                documents: texts_in(text, text_len, offsets, n_offsets, "text")?,
                labels,
            };
            make(engine, tokenizer, options, options_len, inputs, out)
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
pub unsafe extern "C" fn prefix_task_run(
    task: *mut PrefixTask,
    timeout_ms: i64,
    err: *mut PrefixError,
) -> i32 {
    unsafe {
        entry(err, "prefix_task_run", || {
            let task = handles::task(task)?;
            if task.run(timeout_ms)? {
                return Ok(());
            }
            let (done, total) = task.progress();
            Err(Error::new(
                Code::Timeout,
                format!(
                    "{done} of {total} items are done after {timeout_ms} ms; run again to go on"
                ),
            ))
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

/// # Safety
/// `out` is NULL or valid.
unsafe fn set_if<T>(out: *mut T, value: T) {
    if !out.is_null() {
        unsafe { out.write(value) };
    }
}

#[no_mangle]
pub unsafe extern "C" fn prefix_task_progress(
    task: *const PrefixTask,
    done: *mut i64,
    total: *mut i64,
    err: *mut PrefixError,
) -> i32 {
    unsafe {
        entry(err, "prefix_task_progress", || {
            let progress = handles::task(task)?.progress();
            set_if(done, progress.0);
            set_if(total, progress.1);
            Ok(())
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn prefix_task_shape(
    task: *const PrefixTask,
    rows: *mut i64,
    columns: *mut i64,
    err: *mut PrefixError,
) -> i32 {
    unsafe {
        entry(err, "prefix_task_shape", || {
            let task = handles::task(task)?;
            let outcome = task.outcome()?;
            set_if(rows, outcome.rows as i64);
            set_if(columns, outcome.columns as i64);
            Ok(())
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn prefix_task_values(
    task: *const PrefixTask,
    out: *mut f32,
    capacity: usize,
    needed: *mut usize,
    err: *mut PrefixError,
) -> i32 {
    unsafe {
        entry(err, "prefix_task_values", || {
            let task = handles::task(task)?;
            out::array(&task.outcome()?.values, out, capacity, needed)
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn prefix_task_order(
    task: *const PrefixTask,
    row: i64,
    out: *mut i64,
    capacity: usize,
    needed: *mut usize,
    err: *mut PrefixError,
) -> i32 {
    unsafe {
        entry(err, "prefix_task_order", || {
            let task = handles::task(task)?;
            let outcome = task.outcome()?;
            task.require_order()?;
            let index = in_range(row, outcome.rows, "row")?;
            out::array(&outcome.order(index, task.top_n()), out, capacity, needed)
        })
    }
}

fn in_range(index: i64, count: usize, what: &str) -> Result<usize> {
    usize::try_from(index)
        .ok()
        .filter(|i| *i < count)
        .ok_or_else(|| Error::range(format!("{what} {index}; the task has {count}")))
}

/// # Safety
/// `task` is a handle or anything.
unsafe fn with_item(
    task: *const PrefixTask,
    item: i64,
    body: impl FnOnce(&Item) -> Result<()>,
) -> Result<()> {
    let task = handles::task(task)?;
    let outcome = task.outcome()?;
    body(&outcome.items[in_range(item, outcome.items.len(), "item")?])
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
            let items = &task.outcome()?.items;
            let statuses: Vec<i32> = items.iter().map(|item| item.info.status).collect();
            out::array(&statuses, out, capacity, needed)
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn prefix_task_item_info(
    task: *const PrefixTask,
    item: i64,
    out: *mut prefix_result_info,
    err: *mut PrefixError,
) -> i32 {
    unsafe {
        entry(err, "prefix_task_item_info", || {
            with_item(task, item, |item| fill(out, item.info))
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn prefix_task_item_message(
    task: *const PrefixTask,
    item: i64,
    buf: *mut u8,
    cap: usize,
    needed: *mut usize,
    err: *mut PrefixError,
) -> i32 {
    unsafe {
        entry(err, "prefix_task_item_message", || {
            with_item(task, item, |item| {
                out::text(&item.message, buf, cap, needed)
            })
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn prefix_task_item_text(
    task: *const PrefixTask,
    item: i64,
    buf: *mut u8,
    cap: usize,
    needed: *mut usize,
    err: *mut PrefixError,
) -> i32 {
    unsafe {
        entry(err, "prefix_task_item_text", || {
            with_item(task, item, |item| match item.info.status {
                0 => out::text(&item.text, buf, cap, needed),
                status => Err(Error::new(Code::from_status(status), &item.message)),
            })
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn prefix_task_item_partial_text(
    task: *const PrefixTask,
    item: i64,
    buf: *mut u8,
    cap: usize,
    needed: *mut usize,
    err: *mut PrefixError,
) -> i32 {
    unsafe {
        entry(err, "prefix_task_item_partial_text", || {
            with_item(task, item, |item| out::text(&item.text, buf, cap, needed))
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn prefix_task_totals(
    task: *const PrefixTask,
    out: *mut prefix_job_totals,
    err: *mut PrefixError,
) -> i32 {
    unsafe {
        entry(err, "prefix_task_totals", || {
            fill(out, handles::task(task)?.outcome()?.totals)
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
