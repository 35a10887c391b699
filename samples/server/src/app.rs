//! What all requests share, and what one request has while it is answered.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::HeaderMap;
use prefix::{Engine, Job, Options, Task, TaskBuilder, TaskKind, Tokenizer};
use serde::Deserialize;

use crate::body;
use crate::config::Config;
use crate::failure::{Failure, Kind, Result};
use crate::fields::Fields;
use crate::gate::{Gate, Ticket};
use crate::metrics::Metrics;
use crate::model::Model;
use crate::places::Places;
use crate::tenants::{Tenant, Tenants};
use crate::tools::style::Style;

/// The time that a request gives itself, if less than the service would.
const DEADLINE_HEADER: &str = "prefix-deadline-ms";

#[derive(Debug)]
pub struct App {
    pub engine: Engine,
    pub tokenizer: Tokenizer,
    pub model: Model,
    pub dtype: String,
    /// How the model writes calls of tools.
    pub calls: Style,
    pub config: Config,
    pub gate: Gate,
    pub places: Arc<Places>,
    pub tenants: Tenants,
    pub metrics: Metrics,
}

pub type Shared = Arc<App>;

/// A request that was taken in.
#[derive(Debug)]
pub struct Call {
    pub app: Shared,
    tenant: Option<Arc<Tenant>>,
    ticket: Ticket,
}

/// The field that every body may have: requests with another salt share nothing with this, as vLLM has it.
#[derive(Deserialize)]
struct Salted {
    cache_salt: Option<String>,
}

/// A recipe that is not there, or does not fit the model, is said here once and not to every client.
fn check_recipes(engine: &Engine, tokenizer: &Tokenizer, config: &Config) -> Result<()> {
    for (flag, kind, recipe) in [
        ("--rerank-recipe", TaskKind::Rerank, &config.rerank_recipe),
        ("--embed-recipe", TaskKind::Embed, &config.embed_recipe),
    ] {
        let Some(recipe) = recipe else { continue };
        let options = Options::new()?.set("recipe", recipe)?;
        let made = Task::builder(engine, tokenizer, kind, Some(&options));
        let wrong = |why| Failure::new(Kind::Invalid, format!("{flag} {recipe}: {why}"));
        drop(made.map_err(wrong)?);
    }
    Ok(())
}

impl App {
    pub fn new(engine: Engine, tokenizer: Tokenizer, config: Config) -> Result<Shared> {
        check_recipes(&engine, &tokenizer, &config)?;
        let (model, dtype) = Model::of(&engine)?;
        let calls = Style::of(&tokenizer, config.calls);
        Ok(Arc::new(App {
            gate: Gate::new(config.max_requests),
            places: Places::new(config.max_connections, config.body),
            tenants: Tenants::new(config.keys.clone(), config.max_tenants),
            metrics: Metrics::default(),
            engine,
            tokenizer,
            model,
            dtype,
            calls,
            config,
        }))
    }

    /// Clients name a model; there is one.
    pub fn check_model(&self, model: Option<&str>) -> Result<()> {
        let name = &self.config.name;
        match model {
            Some(model) if model != name => {
                let message = format!("the model \"{model}\" is not here, only \"{name}\"");
                Err(Failure {
                    field: Some("model".into()),
                    ..Failure::new(Kind::NotFound, message)
                })
            }
            _ => Ok(()),
        }
    }

    /// A list of texts that the service takes.
    pub fn check_count(&self, field: &'static str, count: usize) -> Result<()> {
        let limit = self.config.max_items;
        if count == 0 {
            return Err(Failure::field(field, "is empty"));
        }
        if count > limit {
            let message = format!("has {count} texts, the limit is {limit}");
            return Err(Failure {
                field: Some(field.into()),
                ..Failure::new(Kind::TooLarge, message)
            });
        }
        Ok(())
    }
}

impl Call {
    /// Reads a request and takes it in: the key first, then the bytes, and a place when all of them are there.
    pub async fn begin(app: &Shared, headers: &HeaderMap, body: Body) -> Result<(Call, Fields)> {
        let (key, deadline) = match Call::admit(app, headers) {
            Ok(admitted) => admitted,
            Err(failure) => {
                body::pass_over(headers, body, app.config.body).await;
                return Err(failure);
            }
        };
        let fields = body::read(headers, body, app.config.body).await?;
        let ticket = app.gate.enter(deadline)?;
        let salt = fields.read::<Salted>()?.cache_salt;
        let tenants = &app.tenants;
        let tenant = tenants.namespace(&app.engine, key.as_deref(), salt.as_deref())?;
        let call = Call {
            app: app.clone(),
            tenant,
            ticket,
        };
        Ok((call, fields))
    }

    /// The key of a request, and when its time is over; a refusal if it would be refused as a whole.
    fn admit(app: &App, headers: &HeaderMap) -> Result<(Option<String>, Instant)> {
        let key = app.tenants.key(headers)?;
        let own = headers
            .get(DEADLINE_HEADER)
            .map(|value| {
                let number = value.to_str().ok().and_then(|text| text.parse().ok());
                number.ok_or_else(|| {
                    Failure::field(DEADLINE_HEADER, "is not a number of milliseconds")
                })
            })
            .transpose()?
            .map(Duration::from_millis);
        let time = own.map_or(app.config.deadline, |own| own.min(app.config.deadline));
        app.gate.check()?;
        Ok((key, Instant::now() + time))
    }

    /// Options with the namespace and the deadline of this request.
    pub fn options(&self) -> Result<Options> {
        let left = i64::try_from(self.ticket.left().as_millis()).unwrap_or(i64::MAX);
        let mut options = Options::new()?.set("deadline_ms", left)?;
        if let Some(tenant) = &self.tenant {
            options.put("namespace_id", tenant.namespace)?;
        }
        Ok(options)
    }

    /// Submits a task, which is cancelled when it is dropped.
    pub async fn start_task(
        &self,
        kind: TaskKind,
        options: Options,
        fill: impl FnOnce(&mut TaskBuilder) -> prefix::Result<()> + Send + 'static,
    ) -> Result<Task> {
        let (engine, tokenizer) = (self.app.engine.clone(), self.app.tokenizer.clone());
        blocking(&self.app.gate, move || {
            let mut builder = Task::builder(&engine, &tokenizer, kind, Some(&options))?;
            fill(&mut builder)?;
            Ok(builder.submit()?)
        })
        .await
    }

    /// Runs a task to its end. It is cancelled when the caller is dropped, as when the client goes away.
    pub async fn run_task(
        &self,
        kind: TaskKind,
        options: Options,
        fill: impl FnOnce(&mut TaskBuilder) -> prefix::Result<()> + Send + 'static,
    ) -> Result<Task> {
        let task = self.start_task(kind, options, fill).await?;
        tokio::select! {
            done = task.finished() => done?,
            () = self.app.gate.over() => return Err(Failure::stopping()),
        }
        match task.first_failure()? {
            Some((item, error)) => Err(at(item, task.len(), error)),
            None => Ok(task),
        }
    }

    /// The same for a job.
    pub async fn run_job(
        &self,
        submit: impl FnOnce(&Engine, &Tokenizer) -> Result<Job> + Send + 'static,
    ) -> Result<Job> {
        let (engine, tokenizer) = (self.app.engine.clone(), self.app.tokenizer.clone());
        let job = blocking(&self.app.gate, move || submit(&engine, &tokenizer)).await?;
        tokio::select! {
            done = job.finished() => done?,
            () = self.app.gate.over() => return Err(Failure::stopping()),
        }
        match job.first_failure()? {
            Some((item, error)) => Err(at(item, job.len(), error)),
            None => Ok(job),
        }
    }
}

/// Work for a processor, such as encoding texts, where it does not hold up other requests. It cannot be given up, but
/// nobody waits for it beyond the end of the service.
pub async fn blocking<T: Send + 'static>(
    gate: &Gate,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let done = tokio::select! {
        done = tokio::task::spawn_blocking(work) => done,
        () = gate.over() => return Err(Failure::stopping()),
    };
    done.unwrap_or_else(|why| Err(Failure::internal(why)))
}

/// The failure of one text of some.
pub fn at(item: usize, of: usize, error: prefix::Error) -> Failure {
    let mut failure = Failure::from(error);
    if of > 1 {
        failure.message = format!("text {item}: {}", failure.message);
    }
    failure
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nobody_waits_for_work_when_the_service_is_over() {
        let gate = Gate::new(1);
        assert_eq!(blocking(&gate, || Ok(1)).await.unwrap(), 1);
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let work = blocking(&gate, move || Ok(ended.recv().is_ok()));
        gate.end();
        assert_eq!(work.await.unwrap_err().kind, Kind::Stopping);
        drop(end);
    }
}
