//! The texts of a job while they are written: pieces for those who stream, and an early end where a
//! stop text has come.

use crate::engine::prefix_h::{PREFIX_EVENT_LOST, PREFIX_EVENT_TOKEN};
use crate::engine::Job;
use crate::error::Result;
use crate::tasks::setup::Setup;
use crate::tasks::written::Written;
use std::collections::BTreeSet;

pub(super) struct Texts {
    /// Of each request of the job.
    texts: Vec<Written>,
}

impl Texts {
    /// None where nobody wants to see tokens before all of them are there.
    pub(super) fn new(setup: &Setup, requests: usize) -> Option<Texts> {
        let is_wanted = setup.options.stream || !setup.options.stops.is_empty();
        (setup.method().writes_text() && is_wanted).then(|| Texts {
            texts: (0..requests).map(|_| Written::new(&setup.text)).collect(),
        })
    }

    /// Takes the tokens that have come; the pieces of text that have become sure, by request.
    pub(super) fn follow(&mut self, setup: &Setup, job: &Job) -> Result<Vec<(usize, String)>> {
        let stops = &setup.options.stops;
        let mut touched = BTreeSet::new();
        while let Some(event) = job.next_event()? {
            let index = event.request as usize;
            match event.kind {
                PREFIX_EVENT_LOST => self.texts.iter_mut().for_each(Written::lose),
                PREFIX_EVENT_TOKEN => {
                    let text = &mut self.texts[index];
                    let was_over = text.is_over;
                    text.push(event.token, stops)?;
                    if text.is_over && !was_over {
                        job.cancel_request(index)?;
                    }
                    touched.insert(index);
                }
                _ => {}
            }
        }
        let pieces = touched
            .into_iter()
            .map(|index| (index, self.texts[index].piece(stops)));
        Ok(pieces.filter(|(_, piece)| !piece.is_empty()).collect())
    }

    /// Whether a stop text has ended a request.
    pub(super) fn was_ended(&self, index: usize) -> bool {
        self.texts[index].is_over
    }

    /// What of the whole text was not given out yet.
    pub(super) fn rest(&self, index: usize, whole: &str) -> String {
        self.texts[index].rest(whole)
    }
}
