//! What a caller of completions and of chats may set. What this service cannot do is refused, not passed over.

use std::collections::BTreeMap;

use serde::de::IgnoredAny;
use serde::Deserialize;

use super::api::Api;
use crate::app::Call;
use crate::failure::{Failure, Result};
use crate::fields::Fields;

#[derive(Debug, Default, Deserialize)]
pub struct Asked {
    pub model: Option<String>,
    pub max_tokens: Option<usize>,
    pub max_completion_tokens: Option<usize>,
    temperature: Option<f64>,
    top_p: Option<f64>,
    top_k: Option<i64>,
    min_p: Option<f64>,
    repetition_penalty: Option<f64>,
    presence_penalty: Option<f64>,
    frequency_penalty: Option<f64>,
    logit_bias: Option<BTreeMap<String, f64>>,
    allowed_token_ids: Option<Vec<i32>>,
    min_tokens: Option<usize>,
    draft_tokens: Option<i64>,
    seed: Option<i64>,
    stop: Option<Stop>,
    ignore_eos: Option<bool>,
    n: Option<usize>,
    best_of: Option<usize>,
    modalities: Option<Vec<String>>,
    /// An empty object asks for a search, too.
    web_search_options: Option<IgnoredAny>,
    pub stream: Option<bool>,
    pub stream_options: Option<StreamOptions>,
}

/// Fields of this API, of vLLM's and of llama.cpp's that would change the answer.
const NOT_SERVED: [&str; 17] = [
    "bad_words",
    "function_call",
    "functions",
    "grammar",
    "include_stop_str_in_output",
    "json_schema",
    "length_penalty",
    "logits_processors",
    "moderation",
    "reasoning_effort",
    "return_token_ids",
    "return_tokens_as_token_ids",
    "stop_token_ids",
    "thinking_token_budget",
    "truncate_prompt_tokens",
    "use_beam_search",
    "verbosity",
];

/// The same of those that are on unless they are false.
const NOT_OFF: [&str; 2] = ["skip_special_tokens", "spaces_between_special_tokens"];

/// Bytes of all stop texts together. An automaton is made of them, for each request.
const STOPS: usize = 16 << 10;

/// How many seeds the library has, from 0.
const SEEDS: i64 = 9_000_000_000_000_001;

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "stop is a text or a list of texts")]
enum Stop {
    One(String),
    Many(Vec<String>),
}

impl Stop {
    fn texts(&self) -> Result<Vec<&str>> {
        let texts = match self {
            Stop::One(text) => std::slice::from_ref(text),
            Stop::Many(texts) => texts,
        };
        let bytes: usize = texts.iter().map(String::len).sum();
        if bytes > STOPS {
            let message = format!("has {bytes} bytes, the limit is {STOPS}");
            return Err(Failure::field("stop", message));
        }
        if let Some(at) = texts.iter().position(String::is_empty) {
            let place = match self {
                Stop::One(_) => String::new(),
                Stop::Many(_) => format!("[{at}] "),
            };
            let message = format!("{place}is empty; a stop text has at least 1 byte");
            return Err(Failure::field("stop", message));
        }
        Ok(texts.iter().map(String::as_str).collect())
    }
}

#[derive(Debug, Deserialize)]
#[serde(expecting = "an object")]
pub struct StreamOptions {
    pub include_usage: Option<bool>,
}

/// An option that a field of the body sets: what is wrong with it is wrong with the field.
fn put<'v>(
    options: &mut prefix::Options,
    field: &'static str,
    option: &str,
    value: impl Into<prefix::Value<'v>>,
) -> Result<()> {
    options.put(option, value).map_err(|wrong| Failure {
        field: Some(field.into()),
        ..wrong.into()
    })
}

impl Asked {
    pub fn check(&self, fields: &Fields) -> Result<()> {
        let none = |field, is_set: bool| match is_set {
            false => Ok(()),
            true => Err(Failure::field(field, "is not served")),
        };
        fields.refuse(&NOT_SERVED)?;
        fields.refuse_off(&NOT_OFF)?;
        let others = self.modalities.iter().flatten();
        none("modalities", others.into_iter().any(|one| one != "text"))?;
        none("web_search_options", self.web_search_options.is_some())
    }

    /// Texts of each of so many prompts. None is chosen among more of them: all that are written are told.
    pub fn samples(&self, call: &Call, prompts: usize) -> Result<usize> {
        let samples = match self.n {
            Some(0) => return Err(Failure::field("n", "is 0, the least is 1")),
            n => n.unwrap_or(1),
        };
        match self.best_of {
            Some(best) if best != 1 && best != samples => {
                let message = format!("is {best}; served are 1 and n, which is {samples}");
                return Err(Failure::field("best_of", message));
            }
            _ => {}
        }
        if samples > 1 {
            let texts = samples.saturating_mul(prompts);
            call.app.check_count("n", texts)?;
        }
        Ok(samples)
    }

    pub fn options(&self, call: &Call, api: Api) -> Result<prefix::Options> {
        let mut options = call.options()?.set("truncate", "off")?;
        if let Api::Completions = api {
            // Clients bring prompts with the markup of chats, and other servers read it.
            options.put("recipe", "completion-markup")?;
        }
        options.put("stream", self.stream == Some(true))?;
        // The API's default; the library's is 0.
        let temperature = self.temperature.unwrap_or(1.0);
        put(&mut options, "temperature", "temperature", temperature)?;
        for (key, value) in [
            // The API takes 0, too: the likeliest token alone.
            ("top_p", self.top_p.map(|p| if p == 0.0 { 1e-9 } else { p })),
            ("min_p", self.min_p),
            ("repetition_penalty", self.repetition_penalty),
            ("presence_penalty", self.presence_penalty),
            ("frequency_penalty", self.frequency_penalty),
        ] {
            if let Some(value) = value {
                put(&mut options, key, key, value)?;
            }
        }
        if let Some(k) = self.top_k {
            put(&mut options, "top_k", "top_k", k.max(0))?; // -1 stands for all
        }
        if let Some(seed) = self.seed {
            // The API's are any numbers of 64 bits; -1 stands for a new one, as vLLM has it.
            let seed = if seed == -1 {
                -1
            } else {
                seed.rem_euclid(SEEDS)
            };
            options.put("seed", seed)?;
        }
        if let Some(biases) = &self.logit_bias {
            let is_token = |token: &&String| token.bytes().all(|b| b.is_ascii_digit());
            if let Some(token) = biases.keys().find(|token| !is_token(token)) {
                let message = format!("has {token:?}, which is no token");
                return Err(Failure::field("logit_bias", message));
            }
            let biases = biases.iter().map(|(token, bias)| format!("{token}:{bias}"));
            let biases = biases.collect::<Vec<_>>().join(",");
            put(&mut options, "logit_bias", "logit_bias", &*biases)?;
        }
        if let Some(tokens) = &self.allowed_token_ids {
            put(
                &mut options,
                "allowed_token_ids",
                "allowed_tokens",
                &tokens[..],
            )?;
        }
        if let Some(on) = self.ignore_eos {
            options.put("ignore_eos", on)?;
        }
        if let Some(stop) = &self.stop {
            options.put("stop", &stop.texts()?[..])?;
        }
        match self.draft_tokens {
            Some(most) => put(&mut options, "draft_tokens", "draft_tokens", most)?,
            None => options.put("draft_tokens", call.app.config.draft_tokens)?,
        }
        Ok(options)
    }

    /// Several texts of each prompt.
    pub fn put_samples(&self, options: &mut prefix::Options, samples: usize) -> Result<()> {
        put(options, "n", "samples", samples)
    }

    /// What goes with the length of the answer.
    pub fn put_lengths(&self, options: &mut prefix::Options, most: usize) -> Result<()> {
        options.put("max_tokens", most)?;
        match self.min_tokens {
            Some(least) => put(options, "min_tokens", "min_tokens", least),
            None => Ok(()),
        }
    }
}

/// What the library finds wrong with an option, when it knows the model and the other options, or with messages and what
/// goes with them, is wrong with the field.
pub fn name(failure: Failure) -> Failure {
    let message = &failure.message;
    // All texts of a chat have the same messages.
    let message = message.strip_prefix("text 0: ").unwrap_or(message);
    let message = message.strip_prefix("option ").unwrap_or(message);
    for (field, option) in [
        ("logit_bias", "logit_bias"),
        ("allowed_token_ids", "allowed_tokens"),
        ("min_tokens", "min_tokens"),
        ("messages", "messages"),
        ("tools", "tools"),
        ("documents", "documents"),
        ("add_generation_prompt", "add_generation_prompt"),
        ("continue_final_message", "continue_final_message"),
    ] {
        let said = message.strip_prefix(option);
        let is_of_it = |said: &&str| {
            [" is ", " has ", "[", ": "]
                .iter()
                .any(|how| said.starts_with(how))
        };
        if let Some(said) = said.filter(is_of_it) {
            return Failure {
                field: Some(field.into()),
                message: said.trim_start_matches([' ', ':']).to_string(),
                ..failure
            };
        }
    }
    failure
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Kind;

    #[test]
    fn what_the_library_says_of_a_field_has_its_name() {
        for (said, field, message) in [
            (
                "allowed_tokens[1] is 5 again",
                "allowed_token_ids",
                "[1] is 5 again",
            ),
            ("option tools is not an array", "tools", "is not an array"),
            (
                "text 0: messages[0] is not an object",
                "messages",
                "[0] is not an object",
            ),
            (
                "continue_final_message: it has no text",
                "continue_final_message",
                "it has no text",
            ),
        ] {
            let named = name(Failure::new(Kind::Invalid, said));
            assert_eq!(
                (named.field.as_deref(), &*named.message),
                (Some(field), message)
            );
        }
        for said in [
            "messages of others",
            "the messages have 5 tokens",
            "text 0: it is over",
        ] {
            let failure = Failure::new(Kind::Invalid, said);
            assert_eq!(name(failure.clone()), failure);
        }
    }
}
