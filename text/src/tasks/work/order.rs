use super::Task;
use crate::tasks::recipe::TaskKind;

/// The order of work: items that share most follow each other.
pub(super) struct Order {
    rows: usize,
    columns: usize,
    by_column: bool,
}

impl Order {
    pub(super) fn new(task: &Task, document_first: bool) -> Order {
        Order {
            rows: task.rows,
            columns: task.columns,
            by_column: task.inputs.task == TaskKind::Rerank && document_first,
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
