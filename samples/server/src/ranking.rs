//! Documents in the order of how well they fit a query; what all rerank APIs share.

use prefix::{Options, Task, TaskKind, Tokenizer};
use serde::Deserialize;

use crate::app::{App, Call};
use crate::body::Limits;
use crate::failure::{Failure, Kind, Result};

/// How many times as large as a body queries may be, counted once for each document.
const BODIES: usize = 16;

/// What to do with texts that are too long for the model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Cut {
    /// They are refused.
    Off,
    #[default]
    Right,
    Left,
}

impl Cut {
    /// The value of the option `truncate`.
    pub fn option(self) -> &'static str {
        match self {
            Cut::Off => "off",
            Cut::Right => "right",
            Cut::Left => "left",
        }
    }
}

#[derive(Debug)]
pub struct Query {
    pub query: String,
    pub documents: Vec<String>,
    /// What the caller calls them.
    pub field: &'static str,
    pub top_n: Option<usize>,
    /// Scores as the model has them, not between 0 and 1.
    pub raw: bool,
    pub cut: Cut,
    /// Documents are cut to so many tokens first.
    pub document_tokens: Option<usize>,
}

#[derive(Debug)]
pub struct Ranking {
    /// From best to worst.
    pub places: Vec<prefix::Ranked>,
    /// The texts, for those who want them back.
    pub documents: Vec<String>,
    pub totals: prefix::JobTotals,
}

#[derive(Deserialize)]
struct TaskInfo {
    method: String,
}

pub async fn rank(call: &Call, query: Query) -> Result<Ranking> {
    let app = &call.app;
    if query.query.is_empty() {
        return Err(Failure::field("query", "is empty"));
    }
    app.check_count(query.field, query.documents.len())?;
    check_bytes(query.query.len(), query.documents.len(), app.config.body)?;
    let mut options = call.options()?.set("truncate", query.cut.option())?;
    if let Some(recipe) = &app.config.rerank_recipe {
        options.put("recipe", recipe)?;
    }
    if let Some(n) = query.top_n {
        // 0 stands for all of them.
        options.put("top_n", n.max(1))?;
    }
    // A recipe may leave the one logit of a head as it is; here it becomes a score.
    let of_head = app.model.head_labels().len() == 1 && method(app, &options)? == "head";
    if query.raw || of_head {
        options.put("raw", true)?;
    }
    let (asked, limit) = (query.query, query.document_tokens);
    let documents = std::sync::Arc::new(query.documents);
    let (texts, tokenizer) = (documents.clone(), app.tokenizer.clone());
    let task = call
        .run_task(TaskKind::Rerank, options, move |builder| {
            let firsts = [asked.as_str()];
            match limit {
                Some(limit) => {
                    let texts = cut(&tokenizer, &texts, limit)?;
                    builder.add_product(&firsts, &texts).map(drop)
                }
                None => builder.add_product(&firsts, &texts).map(drop),
            }
        })
        .await?;
    let mut places = task.ranking(0..task.len())?;
    // What the clients of these APIs expect lies between 0 and 1; a mean log-probability becomes a probability.
    let method = method_of(&task.info_json()?)?;
    for place in places.iter_mut().filter(|_| !query.raw) {
        match method.as_str() {
            "likelihood" => place.score = place.score.exp(),
            "head" if of_head => place.score = sigmoid(place.score),
            _ => {}
        }
    }
    Ok(Ranking {
        places,
        totals: task.totals()?,
        documents: std::sync::Arc::try_unwrap(documents).unwrap_or_else(|shared| (*shared).clone()),
    })
}

/// A query is part of the prompt of each document, so that a body may ask for many times its size. It is refused before
/// a processor has read all of that.
fn check_bytes(query: usize, documents: usize, body: Limits) -> Result<()> {
    let limit = body.bytes.saturating_mul(BODIES);
    let all = query.saturating_mul(documents);
    match all > limit {
        true => Err(Failure {
            field: Some("query".into()),
            ..Failure::new(
                Kind::TooLarge,
                format!(
                    "has {query} bytes, with {documents} documents {all}; the limit is {limit}"
                ),
            )
        }),
        false => Ok(()),
    }
}

/// How a task with these options reads a score, which its recipe says.
fn method(app: &App, options: &Options) -> Result<String> {
    let (engine, tokenizer) = (&app.engine, &app.tokenizer);
    let builder = Task::builder(engine, tokenizer, TaskKind::Rerank, Some(options))?;
    method_of(&builder.info_json()?)
}

fn method_of(info: &str) -> Result<String> {
    let info: TaskInfo = serde_json::from_str(info).map_err(Failure::internal)?;
    Ok(info.method)
}

fn sigmoid(logit: f32) -> f32 {
    (1.0 / (1.0 + (-f64::from(logit)).exp())) as f32
}

/// The beginnings of texts that are so many tokens long.
fn cut<'t>(
    tokenizer: &Tokenizer,
    texts: &'t [String],
    limit: usize,
) -> prefix::Result<Vec<&'t str>> {
    let shorten = |text: &'t String| -> prefix::Result<&'t str> {
        // A token has at least one byte.
        if text.len() <= limit {
            return Ok(text);
        }
        let encoding = tokenizer.encode_ranges(text, prefix::text::Special::Literal)?;
        let end = encoding
            .ranges
            .get(limit)
            .map_or(text.len(), |range| range.start);
        Ok(text.get(..end).unwrap_or(text))
    };
    texts.iter().map(shorten).collect()
}
