//! Orders, parts and estimates.

mod support;

use prefix::{estimate_batch, order, order_texts, partition, Status, Token};

#[test]
fn a_table_is_ordered() {
    support::load_library();
    let values = [[7, 5], [8, 6], [9, 5]];
    let found = order(&values, &[[1, 4], [1, 2], [1, 4]]).unwrap();
    assert_eq!(found.rows, [0, 2, 1]);
    assert_eq!(found.columns, [[1, 0], [1, 0], [0, 1]]);
    assert_eq!((found.tokens, found.hit_before, found.hit), (13, 0, 4));
    let texts = order_texts(&[["a", "Dune"], ["b", "It"], ["c", "Dune"]]).unwrap();
    assert_eq!(texts, found);
    let none: [[i32; 2]; 0] = [];
    assert_eq!(order(&values, &none).unwrap().hit, 1);
    let status =
        |values: &[Vec<i64>], lengths: &[Vec<i32>]| order(values, lengths).unwrap_err().status();
    assert_eq!(status(&[], &[]), Status::InvalidArgument);
    assert_eq!(status(&[vec![]], &[]), Status::InvalidArgument);
    assert_eq!(status(&[vec![1, 2], vec![1]], &[]), Status::InvalidArgument);
    assert_eq!(status(&[vec![1]], &[vec![-1]]), Status::OutOfRange);
}

/// Answers with a longer text the second time.
struct Growing(std::cell::Cell<bool>);

impl AsRef<str> for Growing {
    fn as_ref(&self) -> &str {
        if self.0.replace(true) {
            "longer"
        } else {
            "a"
        }
    }
}

#[test]
fn a_cell_is_asked_once() {
    support::load_library();
    let found = order_texts(&[[Growing(false.into())]]).unwrap();
    assert_eq!(found.tokens, 1);
}

#[test]
fn prompts_are_shared_out() {
    support::load_library();
    let prompts = [[1, 2, 3], [7, 8, 9], [1, 2, 4], [7, 8, 6]];
    let found = partition(&prompts, 2, 0.0).unwrap();
    assert_eq!(found.part, [0, 1, 0, 1]);
    assert_eq!(found.order, [0, 2, 3, 1]);
    assert_eq!(found.work, [4, 4]);
    assert_eq!((found.tokens, found.distinct), (12, 8));
    assert_eq!((found.computed, found.largest), (8, 4));
    for parts in [0, (1 << 20) + 1, usize::MAX] {
        let error = partition(&prompts, parts, 0.0).unwrap_err();
        assert_eq!(error.status(), Status::OutOfRange, "{parts}");
    }
    let error = partition(&prompts, 2, 0.5).unwrap_err();
    assert_eq!(error.status(), Status::OutOfRange);
}

#[test]
fn a_batch_is_estimated() {
    support::load_library();
    let prompts: [&[Token]; 4] = [&[1, 2], &[1, 3], &[4, 5], &[]];
    let found = estimate_batch(&prompts).unwrap();
    assert_eq!(found.computed, [2, 1, 2, 0]);
    assert_eq!((found.tokens, found.total), (6, 5));
    let none: [&[Token]; 0] = [];
    assert_eq!(estimate_batch(&none).unwrap().tokens, 0);
}
