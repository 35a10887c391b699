//! From the items of a task to requests of the engine.

use super::state::{Chunk, Progress, Sent, Work};
use crate::engine::Request;
use crate::error::Result;
use crate::memory;
use crate::tasks::method::Asked;
use crate::tasks::results::Item;
use crate::tasks::seeds::Seeds;
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
        // Samples of a prompt follow each other, and it is made once.
        let mut asked: Option<(usize, Result<Asked>)> = None;
        let mut before: Vec<i32> = Vec::new();
        let mut distinct = 0;
        while progress.next < self.inputs.len()
            && chunk.items.len() + bad.len() < self.setup.chunk_items
            && distinct * CHUNKS < self.setup.options.chunk_tokens
            && !self.is_cancelled()
            && !self.is_late()
        {
            memory::check()?;
            if progress.lists.is_some() {
                distinct += self.add_block(progress, &mut chunk)?.len();
                continue;
            }
            let item = self.inputs.in_order_of_work(progress.next, second_first);
            progress.next += 1;
            let prompt = self.inputs.prompt(item);
            if asked.as_ref().is_none_or(|(of, _)| *of != prompt) {
                let next = self.setup.ask(&self.inputs, item, &mut progress.prompts);
                if let Some((_, Ok(last))) = asked.replace((prompt, next)) {
                    before = last.tokens;
                }
                if let Some((_, Ok(next))) = &asked {
                    distinct += next.distinct(&before);
                }
            }
            let added = match &asked {
                Some((_, Ok(asked))) => self.add(item, asked, &mut progress.seeds, &mut chunk),
                Some((_, Err(error))) => Err(error.clone()),
                None => Ok(()), // there is one now
            };
            if let Err(error) = added {
                bad.push((item, error));
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

    /// Adds the request of an item to the chunk.
    fn add(
        &self,
        item: usize,
        asked: &Asked,
        seeds: &mut Option<Seeds>,
        chunk: &mut Chunk,
    ) -> Result<()> {
        let options = match seeds {
            Some(seeds) => seeds.options(self.inputs.sample(item))?,
            None => &self.setup.request,
        };
        let rules = self.setup.constrained.as_ref();
        let rules = rules.map(|rules| rules.of_item(&self.setup.engine));
        let rules = rules.transpose()?;
        if chunk.items.try_reserve(1).is_err() {
            return Err(memory::none_for(chunk.items.len() + 1));
        }
        chunk.batch.add(&asked.tokens, &asked.request, options)?;
        let told = match rules {
            Some((constraint, told)) => {
                chunk.batch.constrain(chunk.items.len(), &constraint)?;
                Some(told)
            }
            None => None,
        };
        let lengths = match &asked.request {
            Request::Choices { offsets, .. } => {
                let lengths = offsets.windows(2).map(|pair| (pair[1] - pair[0]) as usize);
                lengths.collect()
            }
            _ => Vec::new(),
        };
        chunk.items.push(Sent {
            item,
            was_cut: asked.was_cut,
            lengths,
            block: None,
            told,
            is_read: false,
        });
        Ok(())
    }
}
