//! From the results of requests to what a task answers.

use super::{Running, State, Work};
use crate::error::{printable, Result};
use crate::tasks::outcome::Item;
use crate::tasks::task::Answer;

impl Work {
    pub(super) fn collect(&self, state: &mut State, running: &Running) -> Result<()> {
        let width = self.shape.width();
        for (index, sent) in running.items.iter().enumerate() {
            let info = running.job.info(index)?;
            let answer = Answer {
                job: &running.job,
                index,
                lengths: &sent.lengths,
                options: &self.options,
                text: &self.text,
            };
            let mut item = Item {
                info,
                message: String::new(),
                text: String::new(),
            };
            item.info.user_tag = i64::from(sent.was_cut);
            if info.status != 0 {
                item.message = printable(&running.job.message(index)?);
                if info.generated_tokens > 0 {
                    item.text = self.task().read_begun(&answer)?;
                }
            } else {
                let values = &mut state.values[sent.item * width..][..width];
                match self.task().read(&answer, values) {
                    Ok(text) => item.text = text,
                    Err(error) => item = Item::failed(&error),
                }
            }
            self.found(&mut state.found, sent.item, item);
        }
        state.totals.push(running.job.totals()?);
        Ok(())
    }
}
