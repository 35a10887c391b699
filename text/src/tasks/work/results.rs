//! From the results of requests to what a task answers.

use super::{Running, Sent, State, Task};
use crate::error::{printable, Result};
use crate::tasks::outcome::Item;
use crate::tasks::recipe::Method;

impl Task {
    pub(super) fn collect(&self, state: &mut State, running: &Running) -> Result<()> {
        for (i, sent) in running.items.iter().enumerate() {
            let info = running.job.info(i)?;
            let mut item = Item {
                info,
                message: String::new(),
                text: String::new(),
            };
            item.info.user_tag = i64::from(sent.was_cut);
            if info.status != 0 {
                item.message = printable(&running.job.message(i)?);
                // What there is of an answer that was cancelled or ran out of time is not lost.
                if self.options.recipe.method == Method::Generate && info.generated_tokens > 0 {
                    item.text = self.answer(&running.job.tokens(i)?)?;
                }
            } else if let Err(error) = self.read(state, running, i, sent, &mut item) {
                item = Item::failed(&error);
            }
            self.found(&mut state.found, sent.item, item);
        }
        state.totals.push(running.job.totals()?);
        Ok(())
    }

    /// From the values of a request to those of its item.
    fn read(
        &self,
        state: &mut State,
        running: &Running,
        index: usize,
        sent: &Sent,
        item: &mut Item,
    ) -> Result<()> {
        let method = self.options.recipe.method;
        if method == Method::Generate {
            item.text = self.answer(&running.job.tokens(index)?)?;
            return Ok(());
        }
        let values = running.job.values(index)?;
        let raw = self.options.raw;
        match method {
            Method::Likelihood => {
                let sum: f64 = values.iter().map(|v| f64::from(*v)).sum();
                let score = if raw { sum } else { sum / values.len() as f64 };
                state.values[sent.item] = score as f32;
            }
            Method::YesNo => {
                // softmax over two logits = sigmoid of their difference
                let difference = f64::from(values[0]) - f64::from(values[1]);
                let score = if raw {
                    difference
                } else {
                    1.0 / (1.0 + (-difference).exp())
                };
                state.values[sent.item] = score as f32;
            }
            Method::Choices => {
                let means: Vec<f64> = values
                    .iter()
                    .zip(&sent.lengths)
                    .map(|(sum, n)| f64::from(*sum) / *n as f64)
                    .collect();
                let most = means.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let total: f64 = means.iter().map(|m| (m - most).exp()).sum();
                let row = &mut state.values[sent.item * self.columns..][..self.columns];
                for (value, mean) in row.iter_mut().zip(&means) {
                    *value = if raw {
                        *mean as f32
                    } else {
                        ((mean - most).exp() / total) as f32
                    };
                }
            }
            _ => {
                let row = &mut state.values[sent.item * self.columns..][..self.columns];
                row.copy_from_slice(&values[..self.columns]);
            }
        }
        Ok(())
    }

    fn answer(&self, tokens: &[i32]) -> Result<String> {
        let known = with_text(tokens, self.text.vocab_size());
        let text = self.text.decode(&known, true)?;
        let stop = &self.options.recipe.stop;
        let text = text.trim_start();
        let end = (!stop.is_empty())
            .then(|| text.find(stop.as_str()))
            .flatten();
        Ok(text[..end.unwrap_or(text.len())].trim_end().to_string())
    }
}

/// Models pad their embedding beyond the vocabulary; those tokens stand for no text.
fn with_text(tokens: &[i32], vocab_size: u32) -> Vec<i32> {
    let size = i64::from(vocab_size);
    tokens
        .iter()
        .copied()
        .filter(|token| (0..size).contains(&i64::from(*token)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_beyond_the_vocabulary_have_no_text() {
        assert_eq!(with_text(&[4, 0, 5, -1, 6, 3], 5), [4, 0, 3]);
    }
}
