//! Reads the engine's events and publishes them in batches.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prefix::{CacheEvent, CacheEventKind, CacheEvents, Engine};
use serde::Deserialize;
use tokio::sync::{mpsc, oneshot};
use tokio::time::MissedTickBehavior;

use super::history::{Batch, History};
use super::message::{encode, join, Event, Stored};
use crate::say::say;

/// How often it looks for events: a router that learns of a block so much later loses nothing.
const PERIOD: Duration = Duration::from_millis(20);
/// Events of a batch at most.
const BATCH: usize = 256;

pub type Snapshot = Batch;
/// Who wants a snapshot.
pub type Asked = oneshot::Sender<Arc<Snapshot>>;

#[derive(Debug)]
pub struct Feed {
    engine: Engine,
    events: CacheEvents,
    history: Arc<History>,
    names: Names,
    asked: mpsc::Receiver<Asked>,
    snapshot: Option<Arc<Snapshot>>,
}

/// Names of blocks as others see them.
#[derive(Debug, Default)]
struct Names(RandomState);

impl Names {
    fn of(&self, block: u64) -> u64 {
        (self.0.hash_one(block) & i64::MAX as u64).max(1)
    }

    fn event(&self, event: CacheEvent) -> Option<Event> {
        match event.kind {
            CacheEventKind::Stored { parent, tokens } => {
                Some(self.stored(event.block, parent, event.namespace, tokens))
            }
            CacheEventKind::Removed => Some(Event::Removed(vec![self.of(event.block)])),
            CacheEventKind::Cleared => Some(Event::Cleared),
            _ => None,
        }
    }

    fn stored(
        &self,
        block: u64,
        parent: Option<u64>,
        namespace: i32,
        tokens: Vec<prefix::Token>,
    ) -> Event {
        Event::Stored(Stored {
            blocks: vec![self.of(block)],
            parent: parent.map(|parent| self.of(parent)),
            tokens: tokens.into_iter().map(|id| id.unsigned_abs()).collect(),
            tenant: (namespace != 0).then_some(namespace),
        })
    }
}

/// A line of the engine's dump.
#[derive(Debug, Deserialize)]
struct Line {
    block: u64,
    parent: u64,
    namespace: i32,
    tokens: Vec<prefix::Token>,
}

impl Feed {
    pub fn new(engine: Engine, history: Arc<History>) -> (Feed, mpsc::Sender<Asked>) {
        let (ask, asked) = mpsc::channel(16);
        let feed = Feed {
            events: engine.cache_events(0),
            engine,
            history,
            names: Names::default(),
            asked,
            snapshot: None,
        };
        (feed, ask)
    }

    /// Begins with what is there already. Ends with the engine.
    pub async fn run(mut self) {
        let mut ticks = tokio::time::interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut started = false;
        loop {
            let asked = tokio::select! {
                _ = ticks.tick() => None,
                asked = self.asked.recv() => asked,
            };
            // Where it does not hold up requests: a dump of a large cache takes its time.
            let worked = tokio::task::spawn_blocking(move || {
                let done = self.work(started, asked);
                (self, done)
            });
            match worked.await {
                Ok((feed, Ok(()))) => self = feed,
                Ok((_, Err(why))) => return say(format_args!("no more cache events: {why}")),
                Err(why) => return say(format_args!("no more cache events: {why}")),
            }
            started = true;
        }
    }

    fn work(&mut self, started: bool, asked: Option<Asked>) -> prefix::Result<()> {
        match started {
            true => self.pass_on_until(u64::MAX)?,
            false => self.begin()?,
        }
        if let Some(asked) = asked {
            let _ = asked.send(self.take_snapshot()?); // who asked may have gone
        }
        Ok(())
    }

    /// Everything anew: nothing is there, then all that is.
    fn begin(&mut self) -> prefix::Result<()> {
        let events = self.dump()?;
        self.publish(events);
        Ok(())
    }

    /// Publishes what has happened, up to but without the event of this number.
    fn pass_on_until(&mut self, end: u64) -> prefix::Result<()> {
        let mut events = Vec::new();
        loop {
            let expected = self.events.next_sequence();
            if expected >= end {
                break;
            }
            let Some(event) = self.events.next() else {
                break;
            };
            let event = event?;
            if event.sequence != expected {
                // Some were gone before they were read; they may have told of blocks in `events`, too.
                return self.begin();
            }
            events.extend(self.names.event(event));
            if events.len() == BATCH {
                self.publish(std::mem::take(&mut events));
            }
        }
        if !events.is_empty() {
            self.publish(events);
        }
        Ok(())
    }

    /// All that is there, under the number of the newest batch; the same as long as nothing is published.
    fn take_snapshot(&mut self) -> prefix::Result<Arc<Snapshot>> {
        if let Some(snapshot) = &self.snapshot {
            if self.history.newest() == Some(snapshot.number) {
                return Ok(snapshot.clone());
            }
        }
        let events = loop {
            let mut ahead = self.events.clone();
            let events = self.dump()?;
            std::mem::swap(&mut self.events, &mut ahead);
            self.pass_on_until(ahead.next_sequence())?;
            // Otherwise it had to begin anew, and has published more than was dumped.
            if self.events.next_sequence() == ahead.next_sequence() {
                break events;
            }
        };
        let snapshot = Arc::new(Batch {
            number: self.history.newest().unwrap_or(0),
            payload: self.encoded(events),
        });
        self.snapshot = Some(snapshot.clone());
        Ok(snapshot)
    }

    /// The events that lead from nothing to what is there; reading goes on behind them.
    fn dump(&mut self) -> prefix::Result<Vec<Event>> {
        let dump = self.engine.cache_dump()?;
        self.events = self.engine.cache_events(dump.next);
        let lines = dump.json_lines.lines();
        // The last line is not one of a block.
        let blocks = lines.filter_map(|line| serde_json::from_str::<Line>(line).ok());
        let stored = blocks.map(|line| {
            let parent = (line.parent != 0).then_some(line.parent);
            self.names
                .stored(line.block, parent, line.namespace, line.tokens)
        });
        Ok(std::iter::once(Event::Cleared).chain(stored).collect())
    }

    fn publish(&self, events: Vec<Event>) {
        self.history.publish(self.encoded(events));
    }

    fn encoded(&self, events: Vec<Event>) -> Vec<u8> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let time = since.map_or(0.0, |since| since.as_secs_f64());
        let dialect = self.history.dialect;
        encode(time, &join(events, dialect), dialect)
    }
}
