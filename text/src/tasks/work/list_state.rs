//! How far the lists of a task are.

use crate::prefix_h::prefix_result_info;
use crate::tasks::listwise::{Listed, Lists};
use std::collections::BTreeMap;
use std::ops::Range;

/// The lists of a task.
pub struct ListWork {
    pub prompts: Lists,
    /// The items of the list that is being encoded.
    pub open: Range<usize>,
    /// Lists without scores yet, by their first item.
    pub unscored: BTreeMap<usize, Unscored>,
}

#[derive(Default)]
pub struct Unscored {
    pub end: usize,
    /// Blocks that the engine has, or will have.
    pub running: usize,
    pub is_encoded: bool,
    pub blocks: Vec<ReadBlock>,
}

pub struct ReadBlock {
    pub documents: Vec<Listed>,
    pub info: prefix_result_info,
    pub vectors: Vec<Vec<f64>>,
}

/// What a request asks of a list.
pub struct SentBlock {
    pub list: usize,
    pub documents: Vec<Listed>,
}

impl ListWork {
    pub fn new(prompts: Lists) -> ListWork {
        ListWork {
            prompts,
            open: 0..0,
            unscored: BTreeMap::new(),
        }
    }

    /// All items of lists without scores, which will have none.
    pub fn drain(&mut self) -> Vec<usize> {
        let lists = std::mem::take(&mut self.unscored);
        lists
            .into_iter()
            .flat_map(|(first, list)| first..list.end)
            .collect()
    }

    /// The items of a list that cannot be scored.
    pub fn lose(&mut self, block: &SentBlock) -> Range<usize> {
        let list = self.unscored.remove(&block.list);
        list.map_or(0..0, |list| block.list..list.end)
    }
}
