//! Prompts with all documents of a query, of which each has a score (jina-reranker-v3,
//! arXiv 2509.25085, "last but not late interaction").
//!
//! ```text
//!   list    items of one query that follow each other       (q,d0) (q,d1) ...           (q,d299)
//!   blocks  one request of the engine each                  |= d0..d124 =|= d125..d249 =|= d250..d299 =|
//!   block   head  d0 <d>  d1 <d>  ...  d124 <d>  tail <q>   a vector at each <d> and at <q>
//!   score   cosine of a document's vector with the query's, which is the mean of those of all blocks,
//!           each weighted by how near its best document is
//! ```
//!
//! Documents of a block see those before them, so a score depends on the whole list: a list stands or
//! falls as one, but for documents that cannot be encoded, which fail alone and are left out.

use super::inputs::Inputs;
use super::options::Options;
use super::piece::Piece;
use super::prompt::{Fields, Prompts, Truncate};
use super::recipe::{ListPrompt, Prompt, Recipe};
use crate::error::{quote, Code, Error, Result};
use crate::text::{EncodeOptions, Text};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// A document in a block.
#[derive(Clone, Copy, Debug)]
pub struct Listed {
    pub item: usize,
    pub was_cut: bool,
}

/// A prompt, and where it is read.
#[derive(Default)]
pub struct Block {
    pub documents: Vec<Listed>,
    pub tokens: Vec<i32>,
    /// Of its documents, and of the query behind them.
    pub positions: Vec<usize>,
    /// Items that are in no block.
    pub bad: Vec<(usize, Error)>,
    /// The first item behind it.
    pub next: usize,
}

#[derive(Clone, Copy)]
pub struct ListContext<'a> {
    pub inputs: &'a Inputs,
    pub options: &'a Options,
    /// Most tokens of a prompt.
    pub limit: usize,
}

/// How prompts of lists are put together.
pub struct Lists {
    text: Arc<Text>,
    prompt: ListPrompt,
    head: Prompts,
    document: Prompts,
    tail: Prompts,
    read_document: i32,
    read_query: i32,
}

/// A text that was cut, perhaps.
struct Cut<'a> {
    text: Cow<'a, str>,
    tokens: usize,
    was_cut: bool,
}

impl Lists {
    pub fn new(text: &Arc<Text>, recipe: &Recipe, prompt: &ListPrompt) -> Result<Lists> {
        let part = |pieces: &[Piece]| Prompts::new(text, recipe, &Prompt::Pieces(pieces.to_vec()));
        let token = |name: &str| {
            let id = text.token_id(name).map(|id| id as i32);
            id.ok_or_else(|| {
                Error::unsupported(format!("its tokenizer has no token {}", quote(name)))
            })
        };
        Ok(Lists {
            text: text.clone(),
            head: part(&prompt.head)?,
            document: part(&prompt.document)?,
            tail: part(&prompt.tail)?,
            read_document: token(&prompt.read_document)?,
            read_query: token(&prompt.read_query)?,
            prompt: prompt.clone(),
        })
    }

    /// The first block of some items that have one query; without documents where all of them are bad.
    pub fn block(&mut self, context: ListContext, items: Range<usize>) -> Result<Block> {
        let ListContext {
            inputs,
            limit,
            options,
        } = context;
        let query = inputs.first(items.start)?;
        let query = self.cut(query, self.prompt.max_query_tokens, options.truncate)?;
        let most = self.prompt.max_documents.min(items.len());
        let (head, tail) = self.around(&query.text, most)?;
        let mut room = limit.saturating_sub(head.len() + tail.len());
        // The published code leaves the tokens of a longest document free, of 131,072.
        let mut left = limit.saturating_sub(2 * query.tokens);
        let free = self.prompt.max_document_tokens.min(limit / 16);

        let mut block = Block {
            next: items.start,
            ..Block::default()
        };
        let mut documents = Vec::new();
        while block.next < items.end
            && block.documents.len() < most
            && (left > free || documents.is_empty())
        {
            let item = block.next;
            match self.document(context, item, &query.text, block.documents.len(), room) {
                Ok(None) => break,
                Ok(Some((tokens, text))) => {
                    room -= tokens.len();
                    left = left.saturating_sub(text.tokens);
                    documents.extend(tokens);
                    let was_cut = text.was_cut || query.was_cut;
                    block.documents.push(Listed { item, was_cut });
                }
                Err(error) => block.bad.push((item, error)),
            }
            block.next += 1;
        }
        let (head, tail) = self.around(&query.text, block.documents.len())?;
        block.tokens = [head, documents, tail].concat();
        block.positions = self.positions(&block)?;
        Ok(block)
    }

    /// Where a block is read.
    fn positions(&self, block: &Block) -> Result<Vec<usize>> {
        let at = |id: i32| {
            let all = block.tokens.iter().enumerate();
            all.filter(move |(_, token)| **token == id)
                .map(|(at, _)| at)
        };
        let positions: Vec<usize> = at(self.read_document).chain(at(self.read_query)).collect();
        if positions.len() != block.documents.len() + 1 || !positions.is_sorted() {
            return Err(Error::format(
                "read_document must stand once in the recipe's document, and read_query once, behind all of them",
            ));
        }
        Ok(positions)
    }

    /// Head and tail for so many documents.
    fn around(&mut self, query: &str, count: usize) -> Result<(Vec<i32>, Vec<i32>)> {
        let fields = Fields {
            query,
            count,
            ..Fields::default()
        };
        let head = whole(&mut self.head, &fields)?;
        Ok((head, whole(&mut self.tail, &fields)?))
    }

    /// The tokens of a document, and its text; None where it does not fit behind others.
    fn document<'a>(
        &mut self,
        context: ListContext<'a>,
        item: usize,
        query: &str,
        index: usize,
        room: usize,
    ) -> Result<Option<(Vec<i32>, Cut<'a>)>> {
        let truncate = context.options.truncate;
        let [_, text] = context.inputs.texts(item)?;
        let mut most = self.prompt.max_document_tokens;
        loop {
            let cut = self.cut(text, most, truncate)?;
            let fields = Fields {
                query,
                document: &cut.text,
                index,
                ..Fields::default()
            };
            let tokens = whole(&mut self.document, &fields)?;
            if tokens.len() <= room {
                return Ok(Some((tokens, cut)));
            }
            if index > 0 {
                return Ok(None);
            }
            let over = tokens.len() - room;
            if truncate == Truncate::Off || cut.tokens == 0 {
                return Err(Error::new(
                    Code::PromptTooLong,
                    format!(
                        "the document has {} tokens in its prompt; there is room for {room}, the \
                         prompt's limit is {}",
                        tokens.len(),
                        context.limit
                    ),
                ));
            }
            most = cut.tokens.saturating_sub(over);
        }
    }

    /// A text of at most `most` tokens.
    fn cut<'a>(&self, text: &'a str, most: usize, truncate: Truncate) -> Result<Cut<'a>> {
        let options = EncodeOptions {
            literal: true,
            ..EncodeOptions::default()
        };
        let offsets = self.text.encode_offsets(text, options)?.offsets;
        let tokens = offsets.len();
        if tokens <= most {
            let was_cut = false;
            return Ok(Cut {
                text: Cow::Borrowed(text),
                tokens,
                was_cut,
            });
        }
        // A character may be several tokens. As published, what is left of one at the end becomes U+FFFD.
        let (kept, rest) = match truncate {
            Truncate::Off => {
                return Err(Error::new(
                    Code::PromptTooLong,
                    format!("a text has {tokens} tokens; the limit is {most}, and cutting is off"),
                ))
            }
            _ if most == 0 => ("", ""),
            Truncate::Left => {
                let cut = offsets[tokens - most - 1].1;
                (&text[cut.max(offsets[tokens - most].0)..], "")
            }
            Truncate::Right => {
                let (end, next) = (offsets[most - 1].1, offsets[most].0);
                (
                    &text[..end.min(next)],
                    if next < end { "\u{fffd}" } else { "" },
                )
            }
        };
        Ok(Cut {
            text: Cow::Borrowed(kept) + rest,
            tokens: most,
            was_cut: true,
        })
    }
}

fn whole(prompts: &mut Prompts, fields: &Fields) -> Result<Vec<i32>> {
    Ok(prompts.build(fields, usize::MAX, Truncate::Off)?.tokens)
}

/// The scores of a list. `blocks`: of each the vectors of its documents and, last, of its query.
pub fn scores(blocks: &[&[Vec<f64>]]) -> Vec<Vec<f32>> {
    let ends: Vec<_> = blocks.iter().filter_map(|b| b.split_last()).collect();
    let nearest = |documents: &[Vec<f64>], query: &[f64]| {
        let all = documents.iter().map(|d| cosine(d, query));
        all.fold(-1.0, f64::max)
    };
    let width = ends.first().map_or(0, |(query, _)| query.len());
    let mut query = vec![0.0; width];
    match ends[..] {
        [(only, _)] => query.copy_from_slice(only),
        _ => {
            for (own, documents) in &ends {
                let weight = (1.0 + nearest(documents, own)) / 2.0;
                for (sum, value) in query.iter_mut().zip(own.iter()) {
                    *sum += weight * value;
                }
            }
        }
    }
    let of_block = |documents: &[Vec<f64>]| -> Vec<f32> {
        let all = documents.iter();
        all.map(|document| cosine(document, &query) as f32)
            .collect()
    };
    ends.iter()
        .map(|(_, documents)| of_block(documents))
        .collect()
}

/// 0 where one of them is 0.
fn cosine(a: &[f64], b: &[f64]) -> f64 {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
    match (dot(a, a) * dot(b, b)).sqrt() {
        0.0 => 0.0,
        lengths => dot(a, b) / lengths,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_block_is_scored_by_its_own_query() {
        let block = [
            vec![2.0, 0.0],
            vec![0.0, -1.0],
            vec![0.0, 0.0],
            vec![3.0, 0.0],
        ];
        assert_eq!(scores(&[&block]), [[1.0, 0.0, 0.0]]);
        let against = [vec![-1.0, 0.0], vec![1.0, 0.0]];
        assert_eq!(scores(&[&against]), [[-1.0]]);
    }

    #[test]
    fn queries_of_blocks_are_weighted_by_their_best_document() {
        // The nearest document of the first has cosine 1, that of the second 0: weights 1 and 1/2.
        let first = [vec![0.0, 5.0], vec![7.0, 0.0], vec![1.0, 0.0]];
        let second = [vec![1.0, 0.0], vec![0.0, -1.0], vec![0.0, 2.0]];
        let length = (1.0f64 + 1.0).sqrt();
        let near = (1.0 / length) as f32;
        assert_eq!(scores(&[&first, &second]), [[near, near], [near, -near]]);
    }
}
