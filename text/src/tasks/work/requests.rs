//! From the items of a task to requests of the engine.

use super::state::{Chunk, Progress, Sent, Work};
use crate::engine::Request;
use crate::error::Result;
use crate::tasks::prompt::Prompts;
use crate::tasks::results::Item;
use crate::tasks::setup::CHUNKS;

impl Work {
    /// The next chunk of requests.
    pub(super) fn encode(&self, progress: &mut Progress) -> Result<Chunk> {
        let second_first = progress.prompts.document_first();
        let mut chunk = Chunk {
            batch: self.setup.engine.batch()?,
            items: Vec::new(),
        };
        let mut bad = Vec::new();
        let mut before: Vec<i32> = Vec::new();
        let mut distinct = 0;
        while progress.next < self.inputs.len()
            && chunk.items.len() + bad.len() < self.setup.chunk_items
            && distinct * CHUNKS < self.setup.options.chunk_tokens
            && !self.is_cancelled()
            && !self.is_late()
        {
            if progress.lists.is_some() {
                distinct += self.add_block(progress, &mut chunk)?.len();
                continue;
            }
            let item = self.inputs.in_order_of_work(progress.next, second_first);
            progress.next += 1;
            match self.add(item, &mut progress.prompts, &mut chunk) {
                Ok((tokens, choices)) => {
                    let shared = before.iter().zip(&tokens).take_while(|(a, b)| a == b);
                    distinct += tokens.len() - shared.count() + choices;
                    before = tokens;
                }
                Err(error) => bad.push((item, error)),
            }
        }
        if !bad.is_empty() {
            self.results.change(|found| {
                for (item, error) in &bad {
                    found.put(*item, Item::failed(error), self.inputs.user_tag(*item));
                }
            });
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
        let asked = self.setup.ask(&self.inputs, item, prompts)?;
        let rules = self.setup.constrained.as_ref();
        let rules = rules.map(|rules| rules.of_item(&self.setup.engine));
        let rules = rules.transpose()?;
        chunk
            .batch
            .add(&asked.tokens, &asked.request, &self.setup.request)?;
        let told = match rules {
            Some((constraint, told)) => {
                chunk.batch.constrain(chunk.items.len(), &constraint)?;
                Some(told)
            }
            None => None,
        };
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
            block: None,
            told,
            is_read: false,
        });
        Ok((asked.tokens, choices))
    }
}
