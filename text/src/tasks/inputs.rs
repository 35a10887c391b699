//! What a caller gives to a task.

use super::task::Kind;
use crate::error::{Code, Error, Result};

/// Texts of the caller; bytes that are no UTF-8 fail alone, so they are kept as they came.
#[derive(Default)]
pub struct Texts {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Texts {
    /// `cuts`: where each text begins, and the end of the last.
    pub fn new(bytes: &[u8], cuts: &[i64]) -> Texts {
        Texts {
            bytes: bytes.to_vec(),
            ends: cuts.iter().map(|at| *at as usize).collect(),
        }
    }

    pub fn one(bytes: &[u8]) -> Texts {
        Self::new(bytes, &[0, bytes.len() as i64])
    }

    pub fn len(&self) -> usize {
        self.ends.len().saturating_sub(1)
    }

    pub fn get(&self, index: usize, what: &str) -> Result<&str> {
        let bytes = &self.bytes[self.ends[index]..self.ends[index + 1]];
        std::str::from_utf8(bytes).map_err(|e| {
            Error::new(
                Code::InvalidUtf8,
                format!(
                    "{what} {index} is not UTF-8 from byte {} on",
                    e.valid_up_to()
                ),
            )
        })
    }
}

pub struct Inputs {
    pub kind: &'static Kind,
    /// Queries, questions; empty for embed and classify.
    pub queries: Texts,
    /// Documents, texts; the context.
    pub documents: Texts,
    /// Of classify.
    pub labels: Texts,
}
