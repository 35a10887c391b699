//! Orders of tables, parts of batches and what batches compute: arithmetic that needs no engine.

use std::collections::HashMap;

use prefix_sys as sys;
use prefix_sys::Init;

use crate::batch::Lists;
use crate::error::{call, Error, Result, Status};
use crate::library;
use crate::raw::count;
use crate::Token;

/// An order of a table in which prompts share the longest prefixes with the one before.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableOrder {
    /// The row of each prompt.
    pub rows: Vec<usize>,
    /// The columns of each prompt, as they stand in it.
    pub columns: Vec<Vec<usize>>,
    /// Tokens of all cells.
    pub tokens: u64,
    /// Those that prompts share with the one before, in the order given.
    pub hit_before: u64,
    /// The same in this order.
    pub hit: u64,
}

fn index(number: i64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn flatten<T: Copy, R: AsRef<[T]>>(rows: &[R], columns: usize) -> Result<Vec<T>> {
    let mut flat = Vec::with_capacity(rows.len() * columns);
    for (r, row) in rows.iter().enumerate() {
        let row = row.as_ref();
        if row.len() != columns {
            let message = format!("row {r} has {} cells, the first one {columns}", row.len());
            return Err(Error::new(Status::InvalidArgument, "order", &message));
        }
        flat.extend_from_slice(row);
    }
    Ok(flat)
}

/// Orders the rows of a table, and the columns within each row. `values` are its rows: any number that stands
/// for a cell's text, equal for equal cells of a column; `lengths` the tokens of each cell, empty to count each
/// as 1. A prompt has to name its columns, since they stand otherwise in each.
///
/// Fails with [`Status::InvalidArgument`] for no rows, rows of different lengths and a value with two lengths.
pub fn order<V: AsRef<[i64]>, L: AsRef<[i32]>>(values: &[V], lengths: &[L]) -> Result<TableOrder> {
    library::ready()?;
    let columns = values.first().map_or(0, |row| row.as_ref().len());
    let flat = flatten(values, columns)?;
    let sizes = flatten(lengths, columns)?;
    let mut rows = vec![0i64; values.len()];
    let mut order = vec![0i32; flat.len()];
    let mut out = sys::prefix_order_info::init();
    // Safety: arrays with their lengths, a struct with its size; also below.
    call(|err| unsafe {
        sys::prefix_order(
            flat.as_ptr(),
            flat.len(),
            sizes.as_ptr(),
            sizes.len(),
            columns,
            rows.as_mut_ptr(),
            rows.len(),
            order.as_mut_ptr(),
            order.len(),
            &mut out,
            err,
        )
    })?;
    let columns_of = |prompt: &[i32]| prompt.iter().map(|&c| index(c.into())).collect();
    Ok(TableOrder {
        rows: rows.into_iter().map(index).collect(),
        columns: order.chunks(columns).map(columns_of).collect(),
        tokens: count(out.tokens),
        hit_before: count(out.hit_before),
        hit: count(out.hit),
    })
}

/// [`order`] of texts, whose bytes stand for tokens.
pub fn order_texts<T: AsRef<str>, R: AsRef<[T]>>(rows: &[R]) -> Result<TableOrder> {
    let mut numbers = HashMap::new();
    let mut values = Vec::with_capacity(rows.len());
    let mut lengths = Vec::with_capacity(rows.len());
    for row in rows {
        // Each is asked once: it may answer otherwise the second time.
        let cells = row.as_ref().iter().map(AsRef::as_ref).map(|text| {
            let next = numbers.len() as i64;
            let length = i32::try_from(text.len()).unwrap_or(i32::MAX);
            (*numbers.entry(text).or_insert(next), length)
        });
        let (row_values, row_lengths): (Vec<i64>, Vec<i32>) = cells.unzip();
        values.push(row_values);
        lengths.push(row_lengths);
    }
    order(&values, &lengths)
}

/// The prompts of a batch, shared out among workers.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parts {
    /// The part of each prompt.
    pub part: Vec<usize>,
    /// The prompts, part after part, those that share prefixes beside each other.
    pub order: Vec<usize>,
    /// The different tokens of each part.
    pub work: Vec<u64>,
    /// Tokens of all prompts.
    pub tokens: u64,
    /// Those of them that differ: what one worker would compute.
    pub distinct: u64,
    /// By all parts together.
    pub computed: u64,
    /// By the part that computes the most.
    pub largest: u64,
}

/// Shares prompts out among `parts` workers that each have a cache of their own: parts of about equal work, cut
/// where the fewest tokens are computed more than once. A part has at most `balance` times the mean; 0 stands
/// for 1.05.
///
/// Fails with [`Status::OutOfRange`] for no or more than 1048576 parts, a balance below 1, a negative token.
pub fn partition<T: AsRef<[Token]>>(prompts: &[T], parts: usize, balance: f64) -> Result<Parts> {
    library::ready()?;
    let lists = Lists::join(prompts);
    let number = i32::try_from(parts).unwrap_or(i32::MAX);
    let mut part = vec![0i32; prompts.len()];
    let mut order = vec![0i64; prompts.len()];
    let mut work = vec![0i64; parts.min(1 << 20)];
    let mut out = sys::prefix_partition_info::init();
    call(|err| unsafe {
        sys::prefix_partition(
            lists.tokens.as_ptr(),
            lists.tokens.len(),
            lists.offsets.as_ptr(),
            lists.offsets.len(),
            number,
            balance,
            part.as_mut_ptr(),
            part.len(),
            order.as_mut_ptr(),
            order.len(),
            work.as_mut_ptr(),
            work.len(),
            &mut out,
            err,
        )
    })?;
    Ok(Parts {
        part: part.into_iter().map(|p| index(p.into())).collect(),
        order: order.into_iter().map(index).collect(),
        work: work.into_iter().map(count).collect(),
        tokens: count(out.tokens),
        distinct: count(out.distinct),
        computed: count(out.computed),
        largest: count(out.largest),
    })
}

/// What a batch of prompts costs an engine that has nothing of them in its cache.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchEstimate {
    /// By each prompt: its tokens without those that a prompt before it has.
    pub computed: Vec<u64>,
    /// Tokens of all prompts.
    pub tokens: u64,
    /// Computed in all.
    pub total: u64,
}

/// Counts what requests with these prompts would compute as one batch.
pub fn estimate_batch<T: AsRef<[Token]>>(prompts: &[T]) -> Result<BatchEstimate> {
    library::ready()?;
    let lists = Lists::join(prompts);
    let mut computed = vec![0i64; prompts.len()];
    let mut out = sys::prefix_estimate_info::init();
    call(|err| unsafe {
        sys::prefix_estimate_batch(
            lists.tokens.as_ptr(),
            lists.tokens.len(),
            lists.offsets.as_ptr(),
            lists.offsets.len(),
            computed.as_mut_ptr(),
            computed.len(),
            &mut out,
            err,
        )
    })?;
    Ok(BatchEstimate {
        computed: computed.into_iter().map(count).collect(),
        tokens: count(out.tokens),
        total: count(out.computed),
    })
}
