//! Calls among the text of a model that may write them.

use super::body::{calls, opening, own_marker, Scan};
use super::part::{Asked, Part, Said};
use super::scan::Step;

/// Calls among text.
#[derive(Debug)]
pub struct Found {
    asked: Asked,
    /// What was not told yet. Where a call may have begun it has all of it, with the white space before it.
    held: String,
    state: State,
    calls: usize,
    said: Said,
}

#[derive(Debug)]
enum State {
    /// `is_fresh`: nothing has come since the beginning, or since a call.
    Outside {
        is_fresh: bool,
    },
    Inside(Inside),
}

#[derive(Debug)]
struct Inside {
    /// Where its body begins in `held`, and how far it was looked at.
    begin: usize,
    at: usize,
    scan: Scan,
    is_whole: bool,
}

impl Found {
    pub fn new(asked: &Asked) -> Found {
        Found {
            asked: asked.clone(),
            held: String::new(),
            state: State::Outside { is_fresh: true },
            calls: 0,
            said: Said::default(),
        }
    }

    pub fn push(&mut self, piece: &str, is_end: bool) -> Vec<Part> {
        self.held += piece;
        while match self.state {
            State::Outside { is_fresh } => self.outside(is_fresh, is_end),
            State::Inside(_) => self.inside(is_end),
        } {}
        std::mem::take(&mut self.said.parts)
    }

    /// Whether there is more to be looked at.
    fn outside(&mut self, is_fresh: bool, is_end: bool) -> bool {
        let marker = self.asked.format.marker;
        if !self.asked.format.is_marked {
            return match is_fresh {
                true => self.front(marker, is_end),
                false => self.tell(self.held.len(), is_end),
            };
        }
        let own = own_marker(self.asked.format);
        let marked = self.held.find(marker).map(|at| (at, marker.len()));
        let opened = own.and_then(|own| self.held.find(own)).map(|at| (at, 0));
        match marked.into_iter().chain(opened).min() {
            Some((at, bytes)) => {
                self.tell(at, false);
                let lead = self.held.len() - self.held.trim_start().len();
                self.begin(lead + bytes);
                true
            }
            None if is_end => self.tell(self.held.len(), true),
            None => {
                // The end of the text may be the beginning of a marker.
                let markers = [Some(marker), own].into_iter().flatten();
                let begun = markers.flat_map(|marker| (1..marker.len()).map(|n| &marker[..n]));
                let begun = begun.filter(|begun| self.held.ends_with(begun));
                let kept = begun.map(str::len).max().unwrap_or(0);
                self.tell(self.held.len() - kept, false)
            }
        }
    }

    /// A call without a marker stands in front of all text.
    fn front(&mut self, marker: &str, is_end: bool) -> bool {
        let between = |c: char| c.is_whitespace() || c == ';' && self.calls > 0;
        let rest = self.held.trim_start_matches(between);
        let unmarked = rest.strip_prefix(marker).unwrap_or(rest).trim_start();
        // Of both `[` and its marker.
        let may_be_marker = marker.starts_with(unmarked);
        if !is_end && may_be_marker {
            return false;
        }
        match unmarked.starts_with(opening(self.asked.format)) {
            true => self.begin(self.held.len() - unmarked.len()),
            false => self.state = State::Outside { is_fresh: false },
        }
        true
    }

    fn begin(&mut self, begin: usize) {
        self.state = State::Inside(Inside {
            begin,
            at: begin,
            scan: Scan::of(self.asked.format),
            is_whole: false,
        });
    }

    /// Tells so many bytes as text, but for white space at their end, which may be that before a call.
    fn tell(&mut self, bytes: usize, is_end: bool) -> bool {
        let told = self.held[..bytes].trim_end().len();
        self.said.text(&self.held[..told]);
        self.held.drain(..told);
        if is_end {
            self.held.clear();
        }
        false
    }

    fn inside(&mut self, is_end: bool) -> bool {
        let State::Inside(inside) = &mut self.state else {
            return false;
        };
        let bytes = self.held.as_bytes();
        while !inside.is_whole {
            let step = match bytes.get(inside.at) {
                Some(byte) => inside.scan.push(*byte),
                None if is_end => Step::Wrong,
                None => return false,
            };
            match step {
                Step::More => {}
                Step::End => inside.is_whole = true,
                Step::Wrong => return self.give_up(),
            }
            inside.at += 1;
        }
        let (end, after) = (self.asked.format.end, &self.held[inside.at..]);
        let rest = after.trim_start();
        let used = match rest.strip_prefix(end) {
            Some(_) if end.is_empty() => inside.at,
            Some(rest) => self.held.len() - rest.len(),
            // Some models end their answer in its place.
            None if is_end && end.starts_with(rest) => self.held.len(),
            None if end.starts_with(rest) => return false,
            // Another call, or a model that leaves out the end.
            None if self.asked.format.repeats() => inside.at,
            None => return self.give_up(),
        };
        let is_open = used == inside.at && self.asked.format.repeats() && !rest.is_empty();
        let value = self.held[inside.begin..inside.at].trim_start();
        let Some(calls) = calls(value, &self.asked) else {
            return self.give_up();
        };
        for call in calls {
            if self.calls < self.asked.most {
                self.said.call(self.calls, &call.name);
                self.said.arguments(self.calls, &call.arguments);
                self.calls += 1;
            }
        }
        self.held.drain(..used);
        self.said.here = false;
        self.state = State::Outside { is_fresh: true };
        if is_open {
            self.begin(0);
        }
        true
    }

    /// It was no call. There may be one behind its marker.
    fn give_up(&mut self) -> bool {
        if let State::Inside(inside) = &self.state {
            let own = own_marker(self.asked.format);
            let own = own.filter(|own| self.held[inside.begin..].starts_with(own));
            let looked_at = inside.scan.settled().max(own.map_or(0, str::len));
            let settled = inside.begin + looked_at;
            self.said.text(&self.held[..settled]);
            self.held.drain(..settled);
        }
        self.state = State::Outside { is_fresh: false };
        true
    }
}
