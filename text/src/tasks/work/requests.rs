//! From the items of a task to requests of the engine.

use super::order::Order;
use super::{Chunk, Sent, State, Task, CHUNKS};
use crate::error::Result;
use crate::ffi::libprefix::Request;
use crate::tasks::outcome::Item;
use crate::tasks::prompt::{Built, Fields, Prompts};
use crate::tasks::recipe::{Method, TaskKind};
use std::sync::atomic::Ordering;

impl Task {
    /// The next chunk of requests.
    pub(super) fn encode(
        &self,
        state: &mut State,
        prompts: &mut Prompts,
        yes_no: &[i32; 2],
    ) -> Result<Chunk> {
        let order = Order::new(self, prompts.document_first());
        let mut chunk = Chunk {
            batch: self.engine.batch()?,
            items: Vec::new(),
        };
        let mut before: Vec<i32> = Vec::new();
        let mut distinct = 0;
        while state.next < self.items()
            && chunk.items.len() < self.chunk_items
            && distinct * CHUNKS < self.options.chunk_tokens
            && !self.cancelled.load(Ordering::Relaxed)
        {
            let item = order.item(state.next);
            state.next += 1;
            match self.add(item, prompts, yes_no, &mut chunk) {
                Ok((tokens, choices)) => {
                    let shared = before.iter().zip(&tokens).take_while(|(a, b)| a == b);
                    distinct += tokens.len() - shared.count() + choices;
                    before = tokens;
                }
                Err(error) => self.found(&mut state.found, item, Item::failed(&error)),
            }
        }
        Ok(chunk)
    }

    /// Adds the request of an item to the chunk; its tokens, and how many its choices have.
    fn add(
        &self,
        item: usize,
        prompts: &mut Prompts,
        yes_no: &[i32; 2],
        chunk: &mut Chunk,
    ) -> Result<(Vec<i32>, usize)> {
        let inputs = &self.inputs;
        let labels: String;
        let mut fields = Fields {
            instruction: &self.options.instruction,
            ..Fields::default()
        };
        match inputs.task {
            TaskKind::Rerank => {
                fields.query = inputs.queries.get(item / self.columns, "query")?;
                fields.document = inputs.documents.get(item % self.columns, "document")?;
            }
            TaskKind::Answer => {
                fields.query = inputs.queries.get(item, "question")?;
                fields.document = inputs.documents.get(0, "context")?;
            }
            TaskKind::Embed => fields.document = inputs.documents.get(item, "text")?,
            TaskKind::Classify => {
                fields.document = inputs.documents.get(item, "text")?;
                labels = (0..inputs.labels.len())
                    .map(|i| inputs.labels.get(i, "label"))
                    .collect::<Result<Vec<_>>>()?
                    .join(", ");
                fields.labels = &labels;
            }
        }

        let method = self.options.recipe.method;
        let mut sent = Sent {
            item,
            was_cut: false,
            lengths: Vec::new(),
        };
        let target = &self.options.recipe.target;
        let (tokens, after) = match method {
            Method::Likelihood => {
                let after = prompts.continuation(target, &fields)?;
                let Built {
                    mut tokens,
                    was_cut,
                } = prompts.build(&fields, self.limit(after.len()), self.options.truncate)?;
                sent.was_cut = was_cut;
                tokens.extend(&after);
                (tokens, after)
            }
            Method::Choices => {
                let mut after = Vec::new();
                for i in 0..inputs.labels.len() {
                    fields.label = inputs.labels.get(i, "label")?;
                    let label = prompts.continuation(target, &fields)?;
                    sent.lengths.push(label.len());
                    after.extend(label);
                }
                let longest = sent.lengths.iter().copied().max().unwrap_or(0);
                let built = prompts.build(&fields, self.limit(longest), self.options.truncate)?;
                sent.was_cut = built.was_cut;
                (built.tokens, after)
            }
            _ => {
                let more = if method == Method::Generate {
                    self.generated
                } else {
                    0
                };
                let built = prompts.build(&fields, self.limit(more), self.options.truncate)?;
                sent.was_cut = built.was_cut;
                (built.tokens, Vec::new())
            }
        };

        let mut offsets = vec![0i64];
        for n in &sent.lengths {
            offsets.push(offsets[offsets.len() - 1] + *n as i64);
        }
        let request = match method {
            Method::Likelihood => Request::Logprobs {
                from: tokens.len() - after.len(),
            },
            Method::YesNo => Request::Logits { ids: yes_no },
            Method::Embedding => Request::Embedding,
            Method::Generate => Request::Generate,
            Method::Choices => Request::Choices {
                tokens: &after,
                offsets: &offsets,
            },
        };
        chunk.batch.add(&tokens, &request, &self.request)?;
        chunk.items.push(sent);
        let choices = offsets[offsets.len() - 1] as usize;
        Ok((tokens, choices))
    }

    /// Longest prompt when `more` tokens follow it.
    fn limit(&self, more: usize) -> usize {
        let mut limit = self.positions.saturating_sub(more);
        for most in [
            self.options.max_prompt_tokens,
            self.options.recipe.max_prompt_tokens,
        ] {
            if most != 0 {
                limit = limit.min(most);
            }
        }
        limit
    }
}
