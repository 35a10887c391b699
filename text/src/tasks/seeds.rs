//! The seeds that the texts of one prompt are drawn with.
//!
//! ```text
//!   seed 7, three samples:   item   0 1 2 | 3 4 5 | ...     each is the text of a task with that seed alone
//!                            seed   7 8 9 | 7 8 9 | ...
//! ```

use crate::engine::{self, Engine};
use crate::error::{Error, Result};
use serde_json::Value;

/// The library's last one; the first is 0.
const LAST: i64 = 9_000_000_000_000_000;

pub struct Seeds {
    first: i64,
    /// Those of the task, with the seed of one request after the other.
    options: engine::Options,
}

impl Seeds {
    /// None where all requests have the same options: of one text for each prompt, or of texts with new seeds.
    pub fn new(
        engine: &Engine,
        request: &engine::Options,
        samples: usize,
    ) -> Result<Option<Seeds>> {
        if samples == 1 {
            return Ok(None);
        }
        let json = request.json()?;
        let value: Value = serde_json::from_str(&json)
            .map_err(|e| Error::argument(format!("prefix_options_json: {e}")))?;
        match value["seed"].as_i64().filter(|seed| *seed >= 0) {
            Some(first) => Ok(Some(Seeds {
                first,
                options: engine.options(&json)?,
            })),
            None => Ok(None),
        }
    }

    /// Those of a sample.
    pub fn options(&mut self, sample: usize) -> Result<&engine::Options> {
        self.options.set_int("seed", behind(self.first, sample))?;
        Ok(&self.options)
    }
}

/// The seed so many behind another; the first is behind the last.
fn behind(seed: i64, sample: usize) -> i64 {
    (seed + sample as i64) % (LAST + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_follow_each_other_round() {
        assert_eq!([0, 1, 9].map(|k| behind(7, k)), [7, 8, 16]);
        assert_eq!([0, 1, 2].map(|k| behind(LAST - 1, k)), [LAST - 1, LAST, 0]);
    }
}
