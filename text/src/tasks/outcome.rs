//! What a task has found.

use crate::engine::prefix_h::{
    prefix_job_totals, prefix_result_info, Sized32, PREFIX_FINISH_CANCELLED, PREFIX_FINISH_ERROR,
};
use crate::error::{printable, Code, Error};
use std::cmp::Ordering;

pub struct Item {
    pub info: prefix_result_info,
    pub message: String,
    pub text: String,
}

pub struct Outcome {
    pub rows: usize,
    pub columns: usize,
    /// rows x columns; NaN where an item failed.
    pub values: Vec<f32>,
    pub items: Vec<Item>,
    pub totals: prefix_job_totals,
}

impl Item {
    pub fn failed(error: &Error) -> Item {
        Item {
            info: prefix_result_info {
                status: error.code as i32,
                finish: if error.code == Code::Cancelled {
                    PREFIX_FINISH_CANCELLED
                } else {
                    PREFIX_FINISH_ERROR
                },
                ..prefix_result_info::sized()
            },
            message: printable(&error.message),
            text: String::new(),
        }
    }
}

impl Outcome {
    /// The columns of a row from best to worst; failed ones have no place.
    pub fn order(&self, row: usize, top_n: usize) -> Vec<i64> {
        let values = &self.values[row * self.columns..(row + 1) * self.columns];
        let mut order: Vec<usize> = (0..self.columns).filter(|c| !values[*c].is_nan()).collect();
        // Stable: equal scores stay in the order of the input.
        order.sort_by(|a, b| {
            values[*b]
                .partial_cmp(&values[*a])
                .unwrap_or(Ordering::Equal)
        });
        if top_n != 0 {
            order.truncate(top_n);
        }
        order.into_iter().map(|c| c as i64).collect()
    }

    pub fn add(&mut self, t: &prefix_job_totals) {
        self.totals.tokens_given += t.tokens_given;
        self.totals.tokens_computed += t.tokens_computed;
        self.totals.tokens_cached += t.tokens_cached;
        self.totals.tokens_shared += t.tokens_shared;
        self.totals.tokens_generated += t.tokens_generated;
        self.totals.steps += t.steps;
        self.totals.rows += t.rows;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_keep_the_order_of_the_input() {
        let outcome = Outcome {
            rows: 2,
            columns: 4,
            values: vec![1.0, 2.0, 2.0, f32::NAN, 0.5, -0.0, 0.0, 0.5],
            items: Vec::new(),
            totals: prefix_job_totals::sized(),
        };
        assert_eq!(outcome.order(0, 0), [1, 2, 0]);
        assert_eq!(outcome.order(0, 2), [1, 2]);
        assert_eq!(outcome.order(1, 0), [0, 3, 1, 2]);
    }
}
