//! Lists in work: a list is asked block by block, and scored when all of its blocks are there.
//!
//! ```text
//!   items    |====== list 0 ======|== list 6 ==|= list 10 ...
//!   blocks   [ 0 1 2 ][ 3 4 ][ 5 ][ 6 7 ][ 8 9 ]  encoded up to here
//!   unscored  0: two read, one running    6: both running, is_encoded
//! ```

use super::list_state::{ListWork, ReadBlock, SentBlock, Unscored};
use super::state::{Chunk, Progress, Running, Sent, Work};
use crate::engine::Request;
use crate::error::{Error, Result};
use crate::prefix_h::PREFIX_RESULT_CUT;
use crate::tasks::listwise::{scores, Block, ListContext, Lists};
use crate::tasks::results::Item;
use serde_json::{json, Value};
use std::ops::Range;

impl Work {
    /// Adds the next block to a chunk; its tokens.
    pub(super) fn add_block(&self, progress: &mut Progress, chunk: &mut Chunk) -> Result<Vec<i32>> {
        let Progress {
            lists: Some(lists),
            next,
            ..
        } = progress
        else {
            return Ok(Vec::new());
        };
        if *next >= lists.open.end {
            lists.open = *next..self.inputs.end_of_list(*next);
            let list = Unscored {
                end: lists.open.end,
                ..Unscored::default()
            };
            lists.unscored.insert(*next, list);
        }
        let list = lists.open.start;
        if !lists.unscored.contains_key(&list) {
            *next = lists.open.end; // one of its blocks was lost
            return Ok(Vec::new());
        }
        let added = self.next_block(&mut lists.prompts, *next..lists.open.end, list, chunk);
        let (block, tokens) = match added {
            Ok(added) => added,
            Err(error) => {
                lists.unscored.remove(&list);
                *next = lists.open.end;
                self.fail(lists.open.clone(), &error);
                return Ok(Vec::new());
            }
        };
        *next = block.next;
        if let Some(unscored) = lists.unscored.get_mut(&list) {
            unscored.running += usize::from(!tokens.is_empty());
            unscored.is_encoded = block.next == lists.open.end;
        }
        for (item, error) in block.bad {
            self.fail(item..item + 1, &error);
        }
        self.score(lists, list);
        Ok(tokens)
    }

    /// Without tokens where no document is good.
    fn next_block(
        &self,
        prompts: &mut Lists,
        items: Range<usize>,
        list: usize,
        chunk: &mut Chunk,
    ) -> Result<(Block, Vec<i32>)> {
        let setup = &self.setup;
        let context = ListContext {
            inputs: &self.inputs,
            options: &setup.options,
            limit: setup.limit(),
        };
        let mut block = prompts.block(context, items)?;
        if block.documents.is_empty() {
            return Ok((block, Vec::new()));
        }
        let tokens = std::mem::take(&mut block.tokens);
        let mut options = setup.options.request.clone();
        options.insert("pooling".into(), json!("tokens"));
        options.insert("positions".into(), json!(block.positions));
        options.insert("normalize".into(), json!(false));
        let options = setup.engine.options(&Value::Object(options).to_string())?;
        chunk.batch.add(&tokens, &Request::Embedding, &options)?;
        let documents = std::mem::take(&mut block.documents);
        chunk.items.push(Sent {
            item: documents[0].item,
            was_cut: false,
            lengths: Vec::new(),
            block: Some(SentBlock { list, documents }),
            told: None,
            is_read: false,
        });
        Ok((block, tokens))
    }

    /// Takes the vectors of a block; an error is one of its whole list.
    pub(super) fn read_block(
        &self,
        running: &Running,
        index: usize,
        over: &Option<Error>,
        lists: &mut ListWork,
    ) {
        let Some(block) = &running.items[index].block else {
            return;
        };
        let read = || -> Result<ReadBlock> {
            let item = self.item_of(running, index, &running.items[index], over)?;
            item.check()?;
            let values = running.job.values(index)?;
            let width = values.len() / (block.documents.len() + 1);
            let vector = |row: &[f32]| row.iter().map(|value| f64::from(*value)).collect();
            Ok(ReadBlock {
                documents: block.documents.clone(),
                info: item.info,
                vectors: values.chunks_exact(width).map(vector).collect(),
            })
        };
        match read() {
            Ok(read) => {
                if let Some(list) = lists.unscored.get_mut(&block.list) {
                    list.running -= 1;
                    list.blocks.push(read);
                }
                self.score(lists, block.list);
            }
            Err(error) => self.fail(lists.lose(block), &error),
        }
    }

    /// Gives a list's items their scores when all of its blocks are there.
    fn score(&self, lists: &mut ListWork, list: usize) {
        let is_whole = |list: &Unscored| list.is_encoded && list.running == 0;
        if !lists.unscored.get(&list).is_some_and(is_whole) {
            return;
        }
        let Some(mut list) = lists.unscored.remove(&list) else {
            return;
        };
        // Blocks may end in any order; sums have one.
        list.blocks.sort_by_key(|block| block.documents[0].item);
        let vectors: Vec<&[Vec<f64>]> = list.blocks.iter().map(|b| &b.vectors[..]).collect();
        let scores = scores(&vectors);
        self.results.change(|found| {
            for (block, scores) in list.blocks.iter().zip(scores) {
                for (document, score) in block.documents.iter().zip(scores) {
                    found.values_of(document.item)[0] = score;
                    let mut info = block.info;
                    info.flags = i32::from(document.was_cut) * PREFIX_RESULT_CUT;
                    let item = Item {
                        info,
                        message: String::new(),
                        text: String::new(),
                        scored: Vec::new(),
                    };
                    found.put(document.item, item, self.inputs.user_tag(document.item));
                }
            }
        });
    }
}
