//! prefix_task_*: what a task has found.

use super::handles::{self, PrefixTask};
use super::out::Buffer;
use super::structs::fill;
use super::task::set_if;
use super::{entry, out, set, PrefixError};
use crate::error::{Code, Error, Result};
use crate::prefix_h::{prefix_job_totals, prefix_result_info};
use crate::tasks::{Found, Item, Scored};

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

/// An item, if it is finished.
fn place(found: &Found, item: usize) -> Result<Option<&Item>> {
    let place = found
        .items
        .get(item)
        .ok_or_else(|| Error::range(format!("item {item}; the task has {}", found.items.len())))?;
    Ok(place.as_ref())
}

fn unfinished(item: usize) -> Error {
    Error::new(Code::Misuse, format!("item {item} is unfinished"))
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
    let done = place(&found, item)?.ok_or_else(|| unfinished(item))?;
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

/// The tokens of a text, as far as they are there.
///
/// # Safety
/// `task` is a handle or anything.
unsafe fn with_tokens(
    task: *const PrefixTask,
    item: usize,
    body: impl FnOnce(&[Scored]) -> Result<()>,
) -> Result<()> {
    let task = handles::task(task)?;
    let found = task.found()?;
    if place(&found, item)?.is_none() && !task.is_streamed() {
        return Err(unfinished(item));
    }
    body(found.scored(item))
}

#[no_mangle]
pub unsafe extern "C" fn prefix_task_item_logprobs(
    task: *const PrefixTask,
    item: usize,
    first: usize,
    tokens: *mut i32,
    capacity: usize,
    needed: *mut usize,
    logprobs: *mut f32,
    capacity_logprobs: usize,
    offsets: *mut i64,
    capacity_offsets: usize,
    err: *mut PrefixError,
) -> i32 {
    unsafe {
        entry(err, "prefix_task_item_logprobs", || {
            with_tokens(task, item, |all| {
                let Some(wanted) = all.get(first..) else {
                    return Err(Error::range(format!(
                        "first is {first}; item {item} has {} tokens with log-probs",
                        all.len()
                    )));
                };
                let ids: Vec<i32> = wanted.iter().map(|one| one.token).collect();
                let values: Vec<f32> = wanted.iter().map(|one| one.logprob).collect();
                let places: Vec<i64> = wanted.iter().map(|one| one.offset as i64).collect();
                let tokens = Buffer {
                    name: "tokens",
                    at: tokens,
                    capacity,
                };
                let logprobs = Buffer {
                    name: "logprobs",
                    at: logprobs,
                    capacity: capacity_logprobs,
                };
                let offsets = Buffer {
                    name: "offsets",
                    at: offsets,
                    capacity: capacity_offsets,
                };
                out::arrays(
                    needed,
                    &[
                        &tokens.of(&ids),
                        &logprobs.of(&values),
                        &offsets.of(&places),
                    ],
                )
            })
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn prefix_task_item_top(
    task: *const PrefixTask,
    item: usize,
    place: usize,
    tokens: *mut i32,
    capacity: usize,
    needed: *mut usize,
    logprobs: *mut f32,
    capacity_logprobs: usize,
    err: *mut PrefixError,
) -> i32 {
    unsafe {
        entry(err, "prefix_task_item_top", || {
            with_tokens(task, item, |all| {
                let Some(token) = all.get(place) else {
                    return Err(Error::range(format!(
                        "place {place}; item {item} has {} tokens with log-probs",
                        all.len()
                    )));
                };
                let (ids, values): (Vec<i32>, Vec<f32>) = token.top.iter().copied().unzip();
                let tokens = Buffer {
                    name: "tokens",
                    at: tokens,
                    capacity,
                };
                let logprobs = Buffer {
                    name: "logprobs",
                    at: logprobs,
                    capacity: capacity_logprobs,
                };
                out::arrays(needed, &[&tokens.of(&ids), &logprobs.of(&values)])
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
            out::arrays(needed, &[&order.of(&places), &scores.of(&values)])
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
