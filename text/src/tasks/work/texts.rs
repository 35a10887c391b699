//! The texts of a job while they are written: pieces for those who stream, and an early end where a
//! stop text has come.

use crate::error::Result;
use crate::tasks::setup::Setup;
use crate::tasks::stops::Stops;
use crate::tasks::written::Written;

pub struct Texts {
    /// Of each request of the job.
    texts: Vec<Written>,
}

impl Texts {
    /// None where nobody wants to see tokens before all of them are there.
    pub fn new(setup: &Setup, requests: usize) -> Option<Texts> {
        let is_wanted = setup.options.stream || !setup.options.stops.texts().is_empty();
        let (stops, keep_space) = (&setup.options.stops, setup.options.keeps_space());
        let begin = || Written::new(&setup.text, stops, keep_space);
        (setup.method.writes_text() && is_wanted).then(|| Texts {
            texts: (0..requests).map(|_| begin()).collect(),
        })
    }

    /// Takes a token of a request; whether its text is over now, by a stop text.
    pub fn push(&mut self, index: usize, token: i32, stops: &Stops) -> Result<bool> {
        let text = &mut self.texts[index];
        let was_over = text.is_over;
        text.push(token, stops)?;
        Ok(text.is_over && !was_over)
    }

    /// What of a text has become sure; often nothing.
    pub fn piece(&mut self, index: usize, stops: &Stops) -> String {
        self.texts[index].piece(stops)
    }

    /// Tokens were lost, of whatever request.
    pub fn lose(&mut self) {
        self.texts.iter_mut().for_each(Written::lose);
    }

    /// Whether a stop text has ended a request.
    pub fn was_ended(&self, index: usize) -> bool {
        self.texts[index].is_over
    }

    /// What of the whole text was not given out yet.
    pub fn rest(&self, index: usize, whole: &str) -> String {
        self.texts[index].rest(whole)
    }
}
