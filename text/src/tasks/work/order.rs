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
