//! What is known of the model of a task: what its files declare (prefix_engine_info_json) and its
//! tokenizer, as facts that recipes are chosen by.
//!
//! ```text
//!   files ── engine ── declared ──┐                            match of a recipe
//!                                 ├──> facts: name, head, ... ──> any of its lines? all of a line?
//!   files ── tokenizer, template ─┘
//! ```

use crate::error::{quote, Error, Result};
use crate::text::Text;
use serde_json::Value;
use std::collections::BTreeMap;

/// What a line of a recipe's match may ask for.
pub const FACTS: &[&str] = &[
    "name",
    "architecture",
    "model_type",
    "format",
    "attention",
    "pooling",
    "module",
    "prompt",
    "label",
    "head",
    "template",
    "yes",
    "no",
];

/// Classes of modules.json that make a text a vector as the engine does, or that recipes read.
const MODULES: &[&str] = &[
    "Transformer",
    "Pooling",
    "Dense",
    "Dropout",
    "Normalize",
    "LogitScore",
    "CausalScoreHead",
];

/// Facts and patterns of which all must hold.
pub type Line = Vec<(String, String)>;

pub struct Model {
    /// For messages.
    pub name: String,
    /// What its files say about how a vector comes out of a text; "" for nothing.
    pub pooling: String,
    /// What stands before a text, by name.
    pub prompts: BTreeMap<String, String>,
    pub default_prompt: String,
    /// Of its classification head, for each output.
    pub labels: Vec<String>,
    /// What its files call the problem that this head was trained for; "" for nothing.
    pub problem_type: String,
    /// Values of a pooled vector, as the Dense layers behind it give it.
    pub vector: usize,
    /// Whether its Dense layers are made for the vectors of single tokens.
    pub has_dense_of_tokens: bool,
    /// Whether its files have Dense layers that are not run: elsewhere than right behind the pooling.
    pub has_other_dense: bool,
    /// Whether its pooling leaves out what stands before a text.
    pub pools_without_prompt: bool,
    /// Most tokens of a text with what stands around it; 0 = its files do not say.
    pub max_tokens: usize,
    /// Whether a text is made small letters before it is encoded.
    pub has_lower_case: bool,
    /// What it takes, "text" or "message"; empty where its files do not say.
    pub modalities: Vec<String>,
    /// One of its modules that is not run.
    pub other_module: Option<String>,
    /// Whether it gives logits of what follows a text.
    pub has_logits: bool,
    /// Whether its tokens see those behind them.
    pub is_bidirectional: bool,
    /// prefix_recipe.json, or "".
    pub recipe: String,
    facts: BTreeMap<&'static str, Vec<String>>,
}

fn texts(value: &Value) -> Vec<String> {
    let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
    let texts = list.iter().filter_map(Value::as_str);
    texts.map(str::to_string).collect()
}

fn given(text: &str) -> Vec<String> {
    let text = Some(text).filter(|text| !text.is_empty());
    text.map(str::to_string).into_iter().collect()
}

impl Model {
    /// `info`: what prefix_engine_info_json tells.
    pub fn new(info: &str, text: &Text) -> Result<Model> {
        let info: Value = serde_json::from_str(info)
            .map_err(|e| Error::argument(format!("prefix_engine_info_json: {e}")))?;
        let model = &info["model"];
        let declared = &model["declared"];
        let number = |key: &str| model[key].as_u64().unwrap_or(0) as usize;
        let said = |key: &str| declared[key].as_str().unwrap_or("").to_string();
        let token = |key: &str| -> Vec<String> {
            let id = declared[key].as_i64().and_then(|id| i32::try_from(id).ok());
            let bytes = id.and_then(|id| text.token_bytes(id).ok());
            let spelt = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
            spelt.into_iter().collect()
        };
        let attention = model["attention"].as_str().unwrap_or("causal");
        let names = texts(&declared["names"]);
        let architectures = texts(&declared["architectures"]);
        let modules = texts(&declared["modules"]);
        let prompts: BTreeMap<String, String> = declared["prompts"]
            .as_object()
            .into_iter()
            .flatten()
            .filter_map(|(name, text)| Some((name.clone(), text.as_str()?.to_string())))
            .collect();
        let has_prompt = prompts.values().any(|prompt| !prompt.is_empty());
        let pools_without_prompt = has_prompt && declared["include_prompt"] == false;
        let head = number("labels");
        let mut labels = texts(&declared["labels"]);
        // As transformers calls those without a name.
        let unnamed = labels.len()..head.max(labels.len());
        labels.extend(unnamed.map(|i| format!("LABEL_{i}")));
        labels.truncate(head);
        let facts = BTreeMap::from([
            ("name", names.iter().map(|name| dashed(name)).collect()),
            ("architecture", architectures.clone()),
            ("model_type", given(&said("model_type"))),
            ("format", given(&said("format"))),
            ("attention", given(attention)),
            ("pooling", given(&said("pooling"))),
            ("module", modules.clone()),
            ("prompt", prompts.values().cloned().collect()),
            ("label", labels.clone()),
            (
                "head",
                (head > 0).then(|| head.to_string()).into_iter().collect(),
            ),
            (
                "template",
                text.templates.sources().map(str::to_string).collect(),
            ),
            ("yes", token("true_token")),
            ("no", token("false_token")),
        ]);
        Ok(Model {
            name: names
                .into_iter()
                .chain(architectures)
                .next()
                .unwrap_or_default(),
            pooling: said("pooling"),
            prompts,
            default_prompt: said("default_prompt"),
            labels,
            problem_type: said("problem_type"),
            vector: match number("dense_width") {
                0 => number("hidden"),
                width => width,
            },
            has_dense_of_tokens: model["dense_of_tokens"].as_bool().unwrap_or(false),
            pools_without_prompt,
            max_tokens: declared["max_tokens"].as_u64().unwrap_or(0) as usize,
            has_lower_case: declared["lower_case"] == true,
            modalities: texts(&declared["modalities"]),
            other_module: modules
                .iter()
                .find(|m| !MODULES.contains(&m.as_str()))
                .cloned(),
            has_other_dense: modules.iter().filter(|m| *m == "Dense").count()
                > number("dense_layers"),
            has_logits: model["logits"].as_bool().unwrap_or(true),
            is_bidirectional: attention == "bidirectional",
            recipe: said("recipe"),
            facts,
        })
    }

    /// An error where it does not say what follows a text.
    pub fn need_logits(&self) -> Result<()> {
        match (self.has_logits, self.is_bidirectional) {
            (true, _) => Ok(()),
            (false, true) => Err(Error::unsupported(
                "its attention is bidirectional, so there are no logits",
            )),
            (false, false) => Err(Error::unsupported(
                "its files have no output matrix, so there are no logits",
            )),
        }
    }

    /// The first line that holds, as a sentence.
    pub fn reason(&self, lines: &[Line]) -> Option<String> {
        lines.iter().find_map(|line| {
            let found = line.iter().map(|(fact, pattern)| self.holds(fact, pattern));
            let found: Option<Vec<String>> = found.collect();
            found.map(|found| format!("the model's files have {}", found.join(" and ")))
        })
    }

    /// A pattern without characters asks for a fact that is not there.
    fn holds(&self, fact: &str, pattern: &str) -> Option<String> {
        let values = self.facts.get(fact)?;
        if pattern.is_empty() {
            return values.is_empty().then(|| format!("no {fact}"));
        }
        let found = values.iter().find(|value| is_like(value, pattern))?;
        Some(match found.chars().count() > 60 {
            true => format!("a {fact} like {}", quote(pattern)),
            false => format!("{fact} {}", quote(found)),
        })
    }
}

/// GGUF writes "Qwen3 Reranker 0.6B" where others have "Qwen3-Reranker-0.6B".
fn dashed(name: &str) -> String {
    name.replace([' ', '_'], "-")
}

/// Whether a text is like a pattern: "*" stands for any characters, "?" for one; capitals count as
/// small letters.
fn is_like(text: &str, pattern: &str) -> bool {
    let lower = |text: &str| -> Vec<char> { text.to_lowercase().chars().collect() };
    let (text, pattern) = (lower(text), lower(pattern));
    let (mut at, mut next) = (0, 0);
    let mut star: Option<(usize, usize)> = None; // behind a "*", and what it has taken up to
    while at < text.len() {
        match pattern.get(next) {
            Some('*') => {
                next += 1;
                star = Some((next, at));
            }
            Some(c) if *c == '?' || *c == text[at] => {
                at += 1;
                next += 1;
            }
            _ => match &mut star {
                Some((behind, taken)) => {
                    *taken += 1;
                    (at, next) = (*taken, *behind);
                }
                None => return false,
            },
        }
    }
    pattern[next..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        let like = [
            ("Qwen3-Reranker-0.6B", "*qwen3-reranker*"),
            ("abc", "a?c"),
            ("abc", "*"),
            ("abab", "*ab"),
            ("a*c", "a*c"),
            ("", "*"),
        ];
        for (text, pattern) in like {
            assert!(is_like(text, pattern), "{text} {pattern}");
        }
        for (text, pattern) in [("abc", "ab"), ("abc", "?b"), ("", "?"), ("abba", "a*b")] {
            assert!(!is_like(text, pattern), "{text} {pattern}");
        }
    }
}
