//! The texts of a job while they are written: pieces for those who stream, and an early end where a
//! stop text has come.

use crate::engine::Job;
use crate::error::Result;
use crate::memory;
use crate::prefix_h::prefix_event;
use crate::tasks::scored::{Following, Scored};
use crate::tasks::setup::Setup;
use crate::tasks::stops::Stops;
use crate::tasks::written::Written;

pub struct Texts {
    /// Of each request of the job.
    texts: Vec<Written>,
    /// The same for their tokens, where these are told.
    tokens: Option<Vec<Following>>,
    /// How many of the likeliest ones are told with each token before the text is done.
    likeliest: usize,
}

/// What of a text has become sure.
pub struct Piece {
    pub text: String,
    pub scored: Vec<Scored>,
}

impl Texts {
    /// None where nobody wants to see tokens before all of them are there.
    pub fn new(setup: &Setup, requests: usize) -> Result<Option<Texts>> {
        let options = &setup.options;
        let is_scored = setup.likeliest.is_some();
        let is_wanted = options.stream || is_scored || !options.stops.texts().is_empty();
        let begin = match is_scored {
            true => Written::with_places,
            false => Written::new,
        };
        let begin = || begin(&setup.text, &options.stops, options.keeps_space());
        if !setup.method.writes_text() || !is_wanted {
            return Ok(None);
        }
        let tokens = is_scored.then(|| memory::list_of(requests, Following::default));
        Ok(Some(Texts {
            texts: memory::list_of(requests, begin)?,
            tokens: tokens.transpose()?,
            likeliest: setup.likeliest.filter(|_| options.stream).unwrap_or(0),
        }))
    }

    /// Takes the token of an event of a request; whether its text is over now, by a stop text.
    pub fn push(
        &mut self,
        index: usize,
        event: &prefix_event,
        job: &Job,
        stops: &Stops,
    ) -> Result<bool> {
        memory::check()?;
        let text = &mut self.texts[index];
        if text.is_closed() {
            return Ok(false);
        }
        if let Some(tokens) = &mut self.tokens {
            let tokens = &mut tokens[index];
            tokens.push(Scored {
                token: event.token,
                logprob: event.logprob,
                offset: 0, // not known yet
                top: job.top(index, tokens.len(), self.likeliest)?,
            });
        }
        text.push(event.token, stops)?;
        Ok(text.is_over)
    }

    /// What of a text has become sure; often nothing.
    pub fn piece(&mut self, index: usize, stops: &Stops) -> Piece {
        let written = &mut self.texts[index];
        let text = written.piece(stops);
        let scored = match &mut self.tokens {
            Some(tokens) if !text.is_empty() => tokens[index].give(written),
            _ => Vec::new(),
        };
        Piece { text, scored }
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

    /// The log-probs of the tokens of a text, as far as they were seen: the engine has no others of a request that was
    /// ended early.
    pub fn logprobs(&self, index: usize) -> Vec<f32> {
        let tokens = self.tokens.as_ref();
        tokens.map_or(Vec::new(), |tokens| tokens[index].logprobs())
    }
}
