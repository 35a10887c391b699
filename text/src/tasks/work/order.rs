use super::Work;

/// The order of work: items that share most follow each other.
pub(super) struct Order {
    rows: usize,
    columns: usize,
    by_column: bool,
}

impl Order {
    pub(super) fn new(work: &Work, document_first: bool) -> Order {
        Order {
            rows: work.shape.rows,
            columns: work.shape.columns,
            by_column: work.task().by_document() && document_first,
        }
    }

    pub(super) fn item(&self, at: usize) -> usize {
        if self.by_column {
            (at % self.rows) * self.columns + at / self.rows
        } else {
            at
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Order;

    fn order(by_column: bool) -> Vec<usize> {
        let order = Order {
            rows: 2,
            columns: 3,
            by_column,
        };
        (0..6).map(|at| order.item(at)).collect()
    }

    #[test]
    fn all_queries_of_a_document_follow_each_other() {
        assert_eq!(order(true), [0, 3, 1, 4, 2, 5]);
        assert_eq!(order(false), [0, 1, 2, 3, 4, 5]);
    }
}
