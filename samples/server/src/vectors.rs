//! A vector for each text; what all embedding APIs share.

use std::sync::Arc;

use prefix::{JobTotals, Request, TaskKind, Token, Values};
use serde::Deserialize;

use crate::app::Call;
use crate::failure::{Failure, Result};
use crate::ranking::Cut;

/// One text or many, as text or as token ids of the model.
#[derive(Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "the input is a text, a list of texts, token ids, or a list of lists of them"
)]
pub enum Input {
    Text(String),
    Ids(Vec<Token>),
    Texts(Vec<String>),
    ManyIds(Vec<Vec<Token>>),
}

#[derive(Debug)]
pub struct Asked {
    pub field: &'static str,
    pub input: Input,
    pub dimensions: Option<usize>,
    pub normalize: Option<bool>,
    pub cut: Cut,
    /// One of the recipe's prompts.
    pub prompt: Option<String>,
}

#[derive(Debug)]
pub struct Vectors {
    pub values: Values,
    pub totals: JobTotals,
}

pub async fn embed(call: &Call, asked: Asked) -> Result<Vectors> {
    let mut options = call.options()?;
    if let Some(n) = asked.dimensions {
        if n == 0 {
            return Err(Failure::field("dimensions", "is 0, the least is 1"));
        }
        options.put("dimensions", n)?;
    }
    if let Some(on) = asked.normalize {
        options.put("normalize", on)?;
    }
    match asked.input {
        Input::Text(text) => {
            texts(
                call,
                asked.field,
                vec![text],
                options,
                asked.cut,
                asked.prompt,
            )
            .await
        }
        Input::Texts(list) => {
            texts(call, asked.field, list, options, asked.cut, asked.prompt).await
        }
        Input::Ids(ids) if ids.is_empty() => Err(Failure::field(asked.field, "is empty")),
        Input::Ids(ids) => tokens(call, asked.field, vec![ids], options).await,
        Input::ManyIds(lists) => tokens(call, asked.field, lists, options).await,
    }
}

async fn texts(
    call: &Call,
    field: &'static str,
    texts: Vec<String>,
    mut options: prefix::Options,
    cut: Cut,
    prompt: Option<String>,
) -> Result<Vectors> {
    call.app.check_count(field, texts.len())?;
    options.put("truncate", cut.option())?;
    if let Some(recipe) = &call.app.config.embed_recipe {
        options.put("recipe", recipe)?;
    }
    if let Some(name) = &prompt {
        options.put("prompt", name)?;
    }
    let task = call
        .run_task(TaskKind::Embed, options, move |builder| {
            builder.add(&texts).map(drop)
        })
        .await?;
    Ok(Vectors {
        values: task.all_values()?,
        totals: task.totals()?,
    })
}

async fn tokens(
    call: &Call,
    field: &'static str,
    lists: Vec<Vec<Token>>,
    mut options: prefix::Options,
) -> Result<Vectors> {
    call.app.check_count(field, lists.len())?;
    options.put("pooling", call.app.model.pooling())?;
    let options = Arc::new(options);
    let job = call
        .run_job(move |engine, _| {
            let mut batch = engine.batch()?;
            for ids in &lists {
                batch.add(Request::embedding(ids).options(&options))?;
            }
            Ok(engine.submit(&batch)?)
        })
        .await?;
    Ok(Vectors {
        values: job.all_values()?,
        totals: job.totals()?,
    })
}
