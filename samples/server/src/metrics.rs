//! What the service counts itself, in Prometheus text format; the engine's own numbers go in front of it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

#[derive(Debug, Default)]
pub struct Metrics {
    pub connections: AtomicU64,
    pub connections_total: AtomicU64,
    /// Requests whose client went away before the answer, or before its end.
    pub disconnects: AtomicU64,
    /// Connections that were closed since nobody read.
    pub stalled: AtomicU64,
    /// Requests whose head was no HTTP, or too long: they get no further, and are not among the answers.
    pub broken_heads: AtomicU64,
    answers: Mutex<Answers>,
}

/// Answers of a path with a code, and the time that they took together.
#[derive(Debug)]
pub struct Answered {
    pub path: String,
    pub code: u16,
    pub count: u64,
    pub time: Duration,
}

#[derive(Debug, Default)]
struct Answers {
    by_path: BTreeMap<(String, u16), (u64, Duration)>,
}

impl Metrics {
    pub fn answered(&self, path: &str, code: u16, time: Duration) {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = answers.by_path.entry((path.to_string(), code)).or_default();
        entry.0 += 1;
        entry.1 += time;
    }

    pub fn answers(&self) -> Vec<Answered> {
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = answers.by_path.iter();
        lines
            .map(|((path, code), &(count, time))| Answered {
                path: path.clone(),
                code: *code,
                count,
                time,
            })
            .collect()
    }

    pub fn text(&self, in_flight: usize, tenants: usize, closed: u64) -> String {
        let mut out = String::new();
        let load = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let mut single = |name: &str, kind: &str, help: &str, value: u64| {
            let _ = writeln!(
                out,
                "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}"
            );
        };
        single(
            "prefix_server_in_flight",
            "gauge",
            "Requests that came as a whole and are not answered yet.",
            in_flight as u64,
        );
        single(
            "prefix_server_tenants",
            "gauge",
            "Namespaces of keys and salts that are open.",
            tenants as u64,
        );
        single(
            "prefix_server_connections",
            "gauge",
            "Connections that are open.",
            load(&self.connections),
        );
        single(
            "prefix_server_connections_total",
            "counter",
            "Connections that were taken.",
            load(&self.connections_total),
        );
        single(
            "prefix_server_disconnects_total",
            "counter",
            "Requests whose client went away before the end of the answer.",
            load(&self.disconnects),
        );
        single(
            "prefix_server_stalled_total",
            "counter",
            "Connections that were closed since their client did not read.",
            load(&self.stalled),
        );
        single(
            "prefix_server_broken_heads_total",
            "counter",
            "Requests whose head was not HTTP/1, or too long.",
            load(&self.broken_heads),
        );
        single(
            "prefix_server_made_room_total",
            "counter",
            "Connections that had nothing under way, did not read or sent a body slowly, and were closed since others waited for a place.",
            closed,
        );
        let answers = self.answers();
        let name = "prefix_server_answers_total";
        let _ = writeln!(out, "# HELP {name} Answers by path and status code.");
        let _ = writeln!(out, "# TYPE {name} counter");
        for answer in &answers {
            let (path, code, count) = (&answer.path, answer.code, answer.count);
            let _ = writeln!(out, "{name}{{path=\"{path}\",code=\"{code}\"}} {count}");
        }
        let name = "prefix_server_answer_seconds_total";
        let _ = writeln!(
            out,
            "# HELP {name} Time until the head of the answer by path and status code."
        );
        let _ = writeln!(out, "# TYPE {name} counter");
        for answer in &answers {
            let (path, code, seconds) = (&answer.path, answer.code, answer.time.as_secs_f64());
            let _ = writeln!(out, "{name}{{path=\"{path}\",code=\"{code}\"}} {seconds}");
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// README.md has a line for each of them, with its type, and for no other.
    #[test]
    fn the_page_names_them_all() {
        let page = include_str!("../README.md");
        let named = page
            .lines()
            .filter(|line| line.starts_with("| `prefix_server_"));
        let named: BTreeSet<Vec<&str>> = named
            .map(|line| line.split(['|', '`', ' ']).filter(|word| !word.is_empty()))
            .map(|words| words.take(2).collect())
            .collect();
        let text = Metrics::default().text(0, 0, 0);
        let said = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        assert_eq!(named, said.map(|line| line.split(' ').collect()).collect());
    }
}
