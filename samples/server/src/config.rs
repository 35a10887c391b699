//! The command line.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::body::Limits;
use crate::events::Events;
use crate::tools::format::FORMATS;
use crate::tools::style::Chosen;

/// As many as the library's option draft_tokens takes.
const DRAFT_TOKENS: u64 = 32;

pub const HELP: &str = "\
prefix-server - rerank, embed, complete and chat over HTTP, with the library libprefix

usage: prefix-server --model PATH [options]
       prefix-server --version | --help

  --model PATH              a .gguf file or a Hugging Face directory
  --name NAME               what clients and /metrics call it; default: the last part of the path without .gguf
  --listen ADDRESS          default 127.0.0.1:8080; port 0 takes a free one, which is printed
  --option KEY=VALUE        an option of the engine, as threads=4 or cache_bytes=2G; may be repeated
  --rerank-recipe RECIPE    instead of the one that the model brings (docs/recipes.md)
  --embed-recipe RECIPE     the same for vectors
  --draft-tokens N          most tokens of a text that are guessed and checked in one step, 0 to 32, for requests that do
                            not say; default 0
  --tool-calls FORMAT       how the model writes calls of tools: hermes, phi4_mini, nemotron_json, mistral, llama3_json,
                            json, qwen3_coder, olmo3, pythonic, none, or template (default), which is what its chat
                            template does
  --thoughts apart|content  where what stands between <think> and </think> in front of an answer goes: apart (default) is
                            reasoning_content
  --labels A,B,...          classes for /predict when the model has no classification head
  --api-keys FILE           one key a line; requests without one of them are refused, but for /health, /metrics and
                            the files of the page
  --page on|off             a page at / that shows the cache and the requests; default on
  --cors ORIGIN             lets scripts of this site ask from a browser, as https://example.org, or * those of all; may
                            be repeated; default: none
  --log-requests on|off     a line on standard error for each request; default off

cache events over ZeroMQ, for routers:
  --kv-events ADDRESS       where they are published, as 127.0.0.1:5557; default: nowhere
  --kv-events-replay ADDR   where a router asks for those that it has missed
  --kv-events-dialect NAME  vllm (default), sglang, vllm-array or sglang-array
  --kv-events-topic TEXT    as kv@POD@MODEL; default: none
  --kv-events-kept N        batches that can be asked for again; default 10000

limits:
  --max-requests N          requests that came as a whole at a time, 429 beyond; default 256
  --max-connections N       connections at a time, others wait; default 1024
  --max-items N             texts of a request; default 1024
  --max-body BYTES          default 4194304
  --max-tenants N           namespaces of keys that are kept open; default 1024
  --chat-tokens N           most tokens of a chat that names no limit; default 512
  --deadline SECONDS        longest time for an answer; default 300
  --read-seconds N          longest time for a body or a head to come; default 30
  --write-seconds N         longest time that a client reads nothing, or less than 1 KiB a second; default 30
  --drain-seconds N         after SIGTERM or SIGINT, time for what runs; default 30; a second signal ends it at once
";

/// What the command line asks for.
#[derive(Debug)]
pub enum Command {
    Serve(Box<Config>),
    Help,
    Version,
}

#[derive(Debug, Clone)]
pub struct Config {
    pub model: PathBuf,
    pub name: String,
    pub listen: SocketAddr,
    pub options: Vec<(String, String)>,
    pub rerank_recipe: Option<String>,
    pub embed_recipe: Option<String>,
    pub draft_tokens: usize,
    pub calls: Chosen,
    /// Whether what a model thinks is told apart from its answer.
    pub thoughts: bool,
    pub labels: Vec<String>,
    pub keys: Option<HashSet<String>>,
    pub page: bool,
    /// Whose scripts may ask from a browser; `*` stands for everybody's.
    pub cors: Vec<String>,
    pub log_requests: bool,
    pub events: Events,
    pub max_requests: u32,
    pub max_connections: usize,
    pub max_items: usize,
    pub max_tenants: usize,
    pub chat_tokens: usize,
    pub body: Limits,
    pub deadline: Duration,
    pub write: Duration,
    pub drain: Duration,
}

impl Config {
    /// The defaults for a model.
    pub fn new(model: impl Into<PathBuf>) -> Config {
        let model = model.into();
        // Of a file without its ending; points in names of folders are versions, as in Qwen2.5-0.5B.
        let name = model.file_name().unwrap_or(model.as_os_str());
        let name = name.to_string_lossy();
        Config {
            name: name.strip_suffix(".gguf").unwrap_or(&name).to_string(),
            model,
            listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
            options: Vec::new(),
            rerank_recipe: None,
            embed_recipe: None,
            draft_tokens: 0,
            calls: Chosen::Template,
            thoughts: true,
            labels: Vec::new(),
            keys: None,
            page: true,
            cors: Vec::new(),
            log_requests: false,
            events: Events::default(),
            max_requests: 256,
            max_connections: 1024,
            max_items: 1024,
            max_tenants: 1024,
            chat_tokens: 512,
            body: Limits {
                bytes: 4 << 20,
                time: Duration::from_secs(30),
            },
            deadline: Duration::from_secs(300),
            write: Duration::from_secs(30),
            drain: Duration::from_secs(30),
        }
    }

    pub fn parse(arguments: impl Iterator<Item = String>) -> Result<Command, String> {
        let mut pairs = Vec::new();
        let mut arguments = arguments;
        while let Some(word) = arguments.next() {
            match word.as_str() {
                "-h" | "--help" => return Ok(Command::Help),
                "--version" => return Ok(Command::Version),
                _ => {}
            }
            // --name=value and --name value are the same.
            let pair = match word.split_once('=') {
                Some((flag, value)) if flag.starts_with("--") => (flag.into(), value.into()),
                _ => {
                    let value = arguments.next().ok_or(format!("{word} needs a value"))?;
                    (word, value)
                }
            };
            pairs.push(pair);
        }
        // The last one of each, as containers want it whose entry has some already.
        let model = pairs.iter().rfind(|(flag, _)| flag == "--model");
        let (_, model) = model.ok_or("--model is needed")?;
        let mut config = Config::new(model);
        for (flag, value) in pairs {
            config.set(&flag, value)?;
        }
        if config.events.replay.is_some() && config.events.publish.is_none() {
            return Err("--kv-events-replay needs --kv-events".into());
        }
        Ok(Command::Serve(Box::new(config)))
    }

    fn set(&mut self, flag: &str, value: String) -> Result<(), String> {
        match flag {
            "--model" => {}
            "--name" => self.name = value,
            "--listen" => self.listen = address(flag, &value)?,
            "--option" => {
                let pair = value.split_once('=');
                let (key, value) = pair.ok_or(format!("--option {value} is not KEY=VALUE"))?;
                match key {
                    "name" => self.name = value.into(), // one name everywhere
                    _ => self.options.push((key.into(), value.into())),
                }
            }
            "--rerank-recipe" => self.rerank_recipe = Some(value),
            "--embed-recipe" => self.embed_recipe = Some(value),
            "--draft-tokens" => self.draft_tokens = from_to(0, DRAFT_TOKENS, flag, &value)?,
            "--tool-calls" => self.calls = calls(flag, &value)?,
            "--thoughts" => self.thoughts = are_apart(flag, &value)?,
            "--labels" => self.labels = labels(&value)?,
            "--api-keys" => self.keys = Some(keys(&value)?),
            "--page" => self.page = is_on(flag, &value)?,
            "--cors" => self.cors.push(origin(value)?),
            "--log-requests" => self.log_requests = is_on(flag, &value)?,
            "--kv-events" => self.events.publish = Some(address(flag, &value)?),
            "--kv-events-replay" => self.events.replay = Some(address(flag, &value)?),
            "--kv-events-dialect" => self.events.dialect = number(flag, &value)?,
            "--kv-events-topic" => self.events.topic = value,
            "--kv-events-kept" => self.events.kept = at_least_1(flag, &value)?,
            "--max-requests" => self.max_requests = at_least_1(flag, &value)?,
            "--max-connections" => {
                self.max_connections = from_1_to(Semaphore::MAX_PERMITS as u64, flag, &value)?;
            }
            "--max-items" => self.max_items = at_least_1(flag, &value)?,
            "--max-body" => self.body.bytes = at_least_1(flag, &value)?,
            "--max-tenants" => self.max_tenants = at_least_1(flag, &value)?,
            "--chat-tokens" => self.chat_tokens = at_least_1(flag, &value)?,
            "--deadline" => self.deadline = seconds(flag, &value)?,
            "--read-seconds" => self.body.time = seconds(flag, &value)?,
            "--write-seconds" => self.write = seconds(flag, &value)?,
            "--drain-seconds" => self.drain = seconds(flag, &value)?,
            _ => return Err(format!("no option {flag}; --help lists them")),
        }
        Ok(())
    }
}

fn number<T: FromStr>(flag: &str, value: &str) -> Result<T, String> {
    let wrong = |_| format!("{flag} does not take \"{value}\"");
    value.parse().map_err(wrong)
}

fn address(flag: &str, value: &str) -> Result<SocketAddr, String> {
    let wrong =
        |_| format!("{flag} {value} is not an IP address and a port, as 127.0.0.1:8080 or [::]:80");
    value.parse().map_err(wrong)
}

fn is_on(flag: &str, value: &str) -> Result<bool, String> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!("{flag} {value} is neither on nor off")),
    }
}

/// As browsers write it: one with a path, in other letters, or with the usual port, would never be that of a request.
fn origin(value: String) -> Result<String, String> {
    let host = value
        .strip_prefix("https://")
        .or_else(|| value.strip_prefix("http://"));
    let is_host = |host: &str| {
        let is_part =
            |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || ".-_:[]".contains(c);
        !host.is_empty() && host.chars().all(is_part)
    };
    let usual = if value.starts_with("https") {
        ":443"
    } else {
        ":80"
    };
    let is_usual = host.is_some_and(|host| host.ends_with(usual));
    match value == "*" || host.is_some_and(is_host) && !is_usual {
        true => Ok(value),
        false => Err(format!(
            "--cors {value} is not an origin, as https://example.org or http://localhost:3000, or *"
        )),
    }
}

fn at_least_1<T: TryFrom<u64>>(flag: &str, value: &str) -> Result<T, String> {
    from_1_to(u64::MAX >> (64 - 8 * size_of::<T>()), flag, value)
}

fn from_1_to<T: TryFrom<u64>>(most: u64, flag: &str, value: &str) -> Result<T, String> {
    from_to(1, most, flag, value)
}

fn from_to<T: TryFrom<u64>>(least: u64, most: u64, flag: &str, value: &str) -> Result<T, String> {
    let number = value.parse().ok().filter(|n| (least..=most).contains(n));
    let number = number.and_then(|n| T::try_from(n).ok());
    number.ok_or_else(|| format!("{flag} {value} is not a whole number from {least} to {most}"))
}

fn calls(flag: &str, value: &str) -> Result<Chosen, String> {
    let formats = FORMATS.each_ref().map(|format| format.name).join(", ");
    let wrong = |()| format!("{flag} {value} is none of template, {formats}, none");
    value.parse().map_err(wrong)
}

fn are_apart(flag: &str, value: &str) -> Result<bool, String> {
    match value {
        "apart" => Ok(true),
        "content" => Ok(false),
        _ => Err(format!("{flag} {value} is neither apart nor content")),
    }
}

fn seconds(flag: &str, value: &str) -> Result<Duration, String> {
    let seconds: f64 = number(flag, value)?;
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) if !time.is_zero() && seconds <= 1e6 => Ok(time),
        _ => Err(format!("{flag} {value} is not above 0 and at most 1000000")),
    }
}

fn labels(value: &str) -> Result<Vec<String>, String> {
    let labels = value.split(',').map(|label| label.trim().to_string());
    let labels: Vec<String> = labels.collect();
    match labels.iter().any(String::is_empty) {
        true => Err(format!("--labels \"{value}\" has a label without a name")),
        false => Ok(labels),
    }
}

fn keys(path: &str) -> Result<HashSet<String>, String> {
    let text = std::fs::read_to_string(path).map_err(|why| format!("--api-keys {path}: {why}"))?;
    let lines = text.lines().map(str::trim);
    let keys: HashSet<String> = lines
        .filter(|line| !line.is_empty())
        .map(str::to_string)
        .collect();
    match keys.is_empty() {
        true => Err(format!("--api-keys {path}: the file has no key")),
        false => Ok(keys),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(command: Command) -> Option<Config> {
        match command {
            Command::Serve(config) => Some(*config),
            _ => None,
        }
    }

    fn parse(line: &str) -> Result<Option<Config>, String> {
        Config::parse(line.split(' ').map(str::to_string)).map(config)
    }

    #[test]
    fn the_name_is_the_last_part_of_the_path() {
        let config = parse("--model /models/tiny.gguf --option threads=2")
            .unwrap()
            .unwrap();
        assert_eq!(config.name, "tiny");
        assert_eq!(config.options, [("threads".into(), "2".into())]);
        for (line, name) in [
            (
                "--model /models/Qwen2.5-0.5B-Instruct",
                "Qwen2.5-0.5B-Instruct",
            ),
            ("--model /models/SmolLM2.Q4_1.gguf", "SmolLM2.Q4_1"),
            ("--model a.gguf --option name=b", "b"),
            ("--model a.gguf --option name=b --name c", "c"),
        ] {
            assert_eq!(parse(line).unwrap().unwrap().name, name, "{line}");
        }
    }

    #[test]
    fn limits_take_what_their_types_hold() {
        for (line, most) in [("--model a", 0), ("--model a --draft-tokens 32", 32)] {
            assert_eq!(parse(line).unwrap().unwrap().draft_tokens, most);
        }
        let config =
            parse("--model a --max-requests 4294967295 --max-items 1 --option a=1 --option b=2");
        let config = config.unwrap().unwrap();
        assert_eq!((config.max_requests, config.max_items), (u32::MAX, 1));
        assert_eq!(config.options.len(), 2);
    }

    #[test]
    fn labels_may_have_blanks_between_them() {
        let line = ["--model", "a", "--labels", "food, old town ,city"];
        let command = Config::parse(line.map(str::to_string).into_iter());
        let labels = config(command.unwrap()).unwrap().labels;
        assert_eq!(labels, ["food", "old town", "city"]);
    }

    #[test]
    fn the_last_of_two_holds() {
        let config = parse("--model a --listen 1.2.3.4:5 --model b --listen 1.2.3.4:6");
        let config = config.unwrap().unwrap();
        assert_eq!((config.name.as_str(), config.listen.port()), ("b", 6));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (line, word) in [
            ("--listen 1.2.3.4:5", "--model"),
            ("--model a --listen here", "here"),
            ("--model a --max-requests 0", "0 is not"),
            ("--model a --max-requests -1", "-1 is not"),
            (
                "--model a --draft-tokens 33",
                "33 is not a whole number from 0 to 32",
            ),
            ("--model a --draft-tokens -1", "from 0 to 32"),
            ("--model a --max-requests nan", "nan is not"),
            ("--model a --max-requests 4294967296", "1 to 4294967295"),
            (
                "--model a --max-connections 9223372036854775807",
                "1 to 2305843009213693951",
            ),
            (
                "--model a --max-items 18446744073709551616",
                "551616 is not",
            ),
            (
                "--model a --tool-calls xml",
                "xml is none of template, hermes, phi4_mini, nemotron_json, mistral, llama3_json, json, qwen3_coder, \
                 olmo3, pythonic, none",
            ),
            ("--model a --labels food,,city", "food,,city"),
            ("--model a --labels ", "\"\" has a label"),
            ("--model a --deadline -1", "--deadline"),
            ("--model a --drain-seconds 0", "0 is not above 0"),
            ("--model a --deadline nan", "--deadline"),
            ("--model a --option threads", "KEY=VALUE"),
            ("--model a --api-keys /nowhere/keys", "/nowhere/keys"),
            ("--model a --page yes", "--page yes"),
            ("--model a --thoughts off", "neither apart nor content"),
            ("--model a --log-requests 1", "--log-requests 1"),
            (
                "--model a --cors https://example.org/",
                "example.org/ is not",
            ),
            ("--model a --cors example.org", "--cors example.org"),
            (
                "--model a --cors https://Example.org",
                "https://Example.org",
            ),
            ("--model a --kv-events tcp://*:5557", "tcp://*:5557"),
            ("--model a --kv-events-dialect dynamo", "dynamo"),
            ("--model a --kv-events-replay 127.0.0.1:5558", "--kv-events"),
            ("--model a --colour red", "--colour"),
            ("--model", "needs a value"),
        ] {
            let why = parse(line).unwrap_err();
            assert!(why.contains(word), "{line}: {why}");
        }
    }

    #[test]
    fn help_and_the_version_need_no_model() {
        let command = |line: &str| Config::parse(line.split(' ').map(str::to_string)).unwrap();
        for line in ["--help", "-h", "--listen nonsense --help"] {
            assert!(matches!(command(line), Command::Help), "{line}");
        }
        assert!(matches!(command("--version"), Command::Version));
    }

    #[test]
    fn a_value_may_stand_behind_an_equals_sign() {
        let config = parse("--model=a=b.gguf --option threads=2 --option=cache_bytes=1G --cors=*");
        let config = config.unwrap().unwrap();
        assert_eq!(config.name, "a=b");
        let options = [("threads", "2"), ("cache_bytes", "1G")];
        assert_eq!(config.options, options.map(|(a, b)| (a.into(), b.into())));
        assert_eq!(config.cors, ["*"]);
    }

    #[test]
    fn origins_are_those_that_browsers_send() {
        let line = "--model a --cors https://example.org --cors http://localhost:3000 --cors http://[::1]:8080";
        assert_eq!(parse(line).unwrap().unwrap().cors.len(), 3);
    }

    #[test]
    fn help_and_the_readme_name_every_option() {
        let readme = include_str!("../README.md");
        let source = include_str!("config.rs");
        let flags = source
            .lines()
            .filter_map(|line| line.trim().strip_prefix("\"--")?.split_once("\" =>"));
        let mut count = 0;
        for (flag, _) in flags {
            let flag = format!("--{flag}");
            assert!(HELP.contains(&format!("{flag} ")), "{flag}");
            let mut named = readme.split(&flag).skip(1);
            assert!(named.any(|rest| rest.starts_with([' ', '`'])), "{flag}");
            count += 1;
        }
        assert!(count > 25, "{count}");
    }
}
