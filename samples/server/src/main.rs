//! The program: reads the command line, loads the model, serves until SIGTERM or SIGINT.

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use prefix::log::{self, Level};
use prefix::{Engine, Options, Tokenizer};
use prefix_server::app::{App, Shared};
use prefix_server::config::{Command, Config, HELP};
use prefix_server::say::{said, say, tell};
use prefix_server::{events, router, serve};
use serde_json::Value;
use tokio::signal::unix::{signal, Signal, SignalKind};
use tokio::sync::oneshot;

fn main() -> ExitCode {
    let code = program();
    said();
    code
}

fn program() -> ExitCode {
    let arguments: Result<Vec<String>, OsString> = std::env::args_os()
        .skip(1)
        .map(OsString::into_string)
        .collect();
    let command = arguments
        .map_err(|given| format!("the argument {given:?} is not UTF-8"))
        .and_then(|arguments| Config::parse(arguments.into_iter()));
    let config = match command {
        Ok(Command::Serve(config)) => *config,
        Ok(Command::Help) => return answer(HELP),
        Ok(Command::Version) => return answer(&version()),
        Err(why) => {
            say(why);
            return ExitCode::from(2);
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let done = runtime.map_err(|why| why.to_string()).and_then(|runtime| {
        let done = runtime.block_on(run(config));
        serve::leave(runtime);
        done
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            say(why);
            ExitCode::FAILURE
        }
    }
}

/// What was asked for instead of a service.
fn answer(text: &str) -> ExitCode {
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            say(format_args!("standard output: {why}"));
            ExitCode::FAILURE
        }
    }
}

/// Of the library that it finds, too, which may be of another day.
fn version() -> String {
    let own = env!("CARGO_PKG_VERSION");
    let library = prefix::build_info().map_or_else(|why| why.to_string(), str::to_string);
    format!("prefix-server {own}\n{library}\n")
}

async fn run(config: Config) -> Result<(), String> {
    let text = |why: &dyn std::fmt::Display| why.to_string();
    // The port first: whether it is free is known at once. It opens when there is somebody to answer.
    let listen = config.listen;
    let of_port = |why: std::io::Error| format!("{listen}: {why}");
    let socket = serve::bind(listen).map_err(of_port)?;
    let mut signals = Signals::new().map_err(|why| text(&why))?;
    let logged = show_log().map_err(|why| text(&why))?;
    let app = tokio::select! {
        app = load(config) => app?,
        _ = signals.next() => {
            say("stopped before the model was there");
            return Ok(());
        }
    };
    show_warnings(&app.engine, &logged).map_err(|why| text(&why))?;
    let ports = events::start(app.engine.clone(), &app.config.events).await;
    let ports = ports.map_err(|why| format!("cache events: {why}"))?;
    let listener = serve::listen(socket).map_err(of_port)?;
    let address = listener.local_addr().map_err(of_port)?;
    tell(format_args!("{} at http://{address}", app.config.name));
    if let Some(ports) = ports {
        tell(format_args!("cache events at tcp://{}", ports.publish));
        if let Some(replay) = ports.replay {
            tell(format_args!("cache events again at tcp://{replay}"));
        }
    }
    let stop = async move {
        signals.next().await;
        say("stopping; another signal ends it at once");
        tokio::spawn(end_at_once(signals));
    };
    serve::serve(listener, router::router(app.clone()), app, stop).await;
    Ok(())
}

/// Signals in this time after the first are the same one: `timeout` sends it to the program and to its group, and what
/// starts the program in a terminal may hand on what came from the keyboard.
const ECHO: Duration = Duration::from_millis(200);

/// Those that ask the program to end.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) -> SignalKind {
        tokio::select! {
            _ = self.terminate.recv() => SignalKind::terminate(),
            _ = self.interrupt.recv() => SignalKind::interrupt(),
        }
    }
}

/// A second signal asks for the end without what still runs. The code is the one that shells give a program that a signal
/// ended.
async fn end_at_once(mut signals: Signals) {
    tokio::time::sleep(ECHO).await;
    while signals.next().now_or_never().is_some() {}
    let number = signals.next().await.as_raw_value();
    say(format_args!(
        "ended by signal {number}, without what was still to be answered"
    ));
    said();
    std::process::exit(128 + number);
}

async fn load(config: Config) -> Result<Shared, String> {
    let mut options = Options::new().map_err(|why| why.to_string())?;
    options
        .put("name", &config.name) // of the numbers at /metrics
        .map_err(|why| format!("--name {}: {why}", config.name))?;
    for (key, value) in &config.options {
        options
            .put(key, value)
            .map_err(|why| format!("--option {key}={value}: {why}"))?;
    }
    let chosen = config.options.iter().any(|(key, _)| key == "cache_events");
    if config.events.publish.is_some() && !chosen {
        options
            .put("cache_events", events::KEPT)
            .map_err(|why| why.to_string())?;
    }
    let failed = |why: prefix::Error| format!("{}: {why}", config.model.display());
    let tokenizer = open_tokenizer(&config.model).await?.map_err(failed)?;
    let loading = Engine::load(&config.model, Some(&options)).map_err(failed)?;
    let engine = loading.await.map_err(failed)?;
    App::new(engine, tokenizer, config).map_err(|why| why.message)
}

/// What the log told until the warnings of the options were shown, some of which are in it, too.
type Logged = Arc<Mutex<Option<Vec<String>>>>;

/// The library never prints: what it warns of goes to standard error, as what the program says itself. This is of the
/// options; what it finds in the files of the model, and later, is in the log.
fn show_warnings(engine: &Engine, logged: &Logged) -> prefix::Result<()> {
    let info: Value = serde_json::from_str(&engine.info_json()?).unwrap_or_default();
    let logged = logged.lock().unwrap_or_else(PoisonError::into_inner).take();
    for warning in info["warnings"].as_array().into_iter().flatten() {
        let text = warning.as_str().unwrap_or_default();
        if !logged.iter().flatten().any(|told| told == text) {
            say(format_args!("warning: {text}"));
        }
    }
    Ok(())
}

fn show_log() -> prefix::Result<Logged> {
    let logged = Logged::new(Mutex::new(Some(Vec::new())));
    let own = logged.clone();
    log::set_sink(move |level, text| {
        if let Some(told) = &mut *own.lock().unwrap_or_else(PoisonError::into_inner) {
            told.push(text.to_string());
        }
        let kind = if level < Level::Error {
            "warning"
        } else {
            "error"
        };
        say(format_args!("{kind}: {text}"));
    })?;
    Ok(logged)
}

/// In a thread of its own, which the end of the program does not wait for: files may be on a slow disk.
async fn open_tokenizer(model: &Path) -> Result<prefix::Result<Tokenizer>, String> {
    let (tell, told) = oneshot::channel();
    let model = model.to_path_buf();
    std::thread::Builder::new()
        .name("tokenizer".into())
        .spawn(move || tell.send(Tokenizer::open(model)))
        .map_err(|why| format!("no thread to open the tokenizer: {why}"))?;
    told.await.map_err(|why| why.to_string())
}
