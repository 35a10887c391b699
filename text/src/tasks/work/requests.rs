//! From the items of a task to requests of the engine.

use super::order::Order;
use super::{Chunk, Sent, State, Work, CHUNKS};
use crate::engine::Request;
use crate::error::Result;
use crate::tasks::outcome::Item;
use crate::tasks::prompt::{Fields, Prompts};
use crate::tasks::task::Context;
use std::sync::atomic::Ordering;

impl Work {
    /// The next chunk of requests.
    pub(super) fn encode(&self, state: &mut State, prompts: &mut Prompts) -> Result<Chunk> {
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
            match self.add(item, prompts, &mut chunk) {
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
        chunk: &mut Chunk,
    ) -> Result<(Vec<i32>, usize)> {
        let task = self.task();
        let fields = Fields {
            instruction: &self.options.instruction,
            ..task.texts(&self.inputs, &self.shape, item)?
        };
        let mut context = Context {
            inputs: &self.inputs,
            options: &self.options,
            prompts,
            ids: &self.ids,
            positions: self.positions,
            generated: self.generated,
        };
        let asked = task.ask(&mut context, fields)?;
        chunk
            .batch
            .add(&asked.tokens, &asked.request, &self.request)?;
        let (choices, lengths) = match &asked.request {
            Request::Choices { tokens, offsets } => {
                let lengths = offsets.windows(2).map(|pair| (pair[1] - pair[0]) as usize);
                (tokens.len(), lengths.collect())
            }
            _ => (0, Vec::new()),
        };
        chunk.items.push(Sent {
            item,
            was_cut: asked.was_cut,
            lengths,
        });
        Ok((asked.tokens, choices))
    }
}
