//! From a result of the engine to that of an item.

use super::state::{Running, Sent, Work};
use crate::error::{printable, Code, Error, Result};
use crate::memory;
use crate::prefix_h::{PREFIX_FINISH_STOP, PREFIX_RESULT_CUT};
use crate::tasks::method::Answer;
use crate::tasks::results::{finish_of, Item};
use crate::tasks::scored::{offsets, Scored};
use crate::tasks::written::{finished, is_silent};

impl Work {
    /// With its values.
    pub(super) fn read_item(
        &self,
        running: &Running,
        index: usize,
        sent: &Sent,
        over: &Option<Error>,
        values: &mut [f32],
    ) -> Result<Item> {
        memory::check()?;
        let item = self.item_of(running, index, sent, over)?;
        if item.info.status == 0 {
            let answer = Answer {
                job: &running.job,
                index,
                lengths: &sent.lengths,
                options: &self.setup.options,
                model: &self.setup.model,
                places: &self.inputs.places,
            };
            self.setup.method.read(&answer, values)?;
        }
        Ok(item)
    }

    pub(super) fn item_of(
        &self,
        running: &Running,
        index: usize,
        sent: &Sent,
        over: &Option<Error>,
    ) -> Result<Item> {
        let (job, setup) = (&running.job, &self.setup);
        let mut item = Item {
            info: job.info(index)?,
            message: String::new(),
            text: String::new(),
            scored: Vec::new(),
        };
        let is_whole = item.info.status == 0;
        let info = &mut item.info;
        info.flags = i32::from(sent.was_cut) * PREFIX_RESULT_CUT;
        for time in [&mut info.queue_us, &mut info.first_us, &mut info.total_us] {
            *time += running.submitted_us;
        }
        let ended_here = running.texts.as_ref().is_some_and(|t| t.was_ended(index));
        if info.status == Code::Cancelled as i32 && ended_here {
            info.status = 0;
        }
        if setup.method.writes_text() && (info.status == 0 || info.generated_tokens > 0) {
            let tokens = job.tokens(index)?;
            let stops = &setup.options.stops;
            let keep_space = setup.options.keeps_space();
            let (text, is_stopped) = finished(&setup.text, stops, keep_space, &tokens)?;
            if setup.likeliest.is_some() {
                let ends = info.finish == PREFIX_FINISH_STOP && !is_stopped;
                let tokens = match ends && is_silent(&setup.text, &tokens)? {
                    true => &tokens[..tokens.len() - 1],
                    false => &tokens,
                };
                item.scored = self.scored(running, index, is_whole, tokens, &text)?;
            }
            item.text = text;
            if is_stopped && info.status == 0 {
                info.finish = PREFIX_FINISH_STOP;
            }
        }
        if info.status != 0 {
            item.message = printable(&job.message(index)?);
            // The engine knows that rules ended the text, and not why.
            let by_rules = item.message.starts_with("the constraint's ");
            if let (Some(told), true) = (&sent.told, by_rules) {
                item.message += &format!(" ({})", printable(&told.reason()));
            }
            if let (Some(over), true) = (over, info.status == Code::Cancelled as i32) {
                info.status = over.code as i32;
                info.finish = finish_of(over.code);
                item.message = printable(&over.message);
            }
        }
        Ok(item)
    }

    /// The tokens that a text is made of, of those that were generated. `is_whole`: the engine tells of all of them;
    /// otherwise what was seen while they came.
    fn scored(
        &self,
        running: &Running,
        index: usize,
        is_whole: bool,
        tokens: &[i32],
        text: &str,
    ) -> Result<Vec<Scored>> {
        let (job, setup) = (&running.job, &self.setup);
        let keep_space = setup.options.keeps_space();
        let offsets = offsets(&setup.text, &setup.options.stops, keep_space, tokens)?;
        let logprobs = match (is_whole, &running.texts) {
            (false, Some(texts)) => texts.logprobs(index),
            _ => job.logprobs(index)?,
        };
        let likeliest = setup.likeliest.unwrap_or(0);
        let known = tokens.iter().zip(logprobs).zip(offsets).enumerate();
        known
            .map(|(place, ((token, logprob), offset))| {
                memory::check()?;
                Ok(Scored {
                    token: *token,
                    logprob,
                    offset: offset.min(text.len()),
                    top: job.top(index, place, likeliest)?,
                })
            })
            .collect()
    }
}
