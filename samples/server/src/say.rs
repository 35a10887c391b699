//! What the operator is told. A disk that is full, or a pipe that nobody reads, neither ends the service nor holds it up.

use std::fmt::Display;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

/// Lines that wait to be written; further ones are lost, and counted.
const ROOM: usize = 1024;
/// How long said() waits.
const LAST: Duration = Duration::from_secs(1);

static LOST: AtomicU64 = AtomicU64::new(0);

enum Line {
    Text(String),
    /// What came before is written.
    Mark(SyncSender<()>),
}

/// On standard error, by a thread of its own: who says something does not wait.
pub fn say(text: impl Display) {
    let line = Line::Text(text.to_string());
    if lines().is_none_or(|lines| lines.try_send(line).is_err()) {
        LOST.fetch_add(1, Ordering::Relaxed);
    }
}

/// Before the program ends: what was said is written, unless that takes longer than a moment.
pub fn said() {
    let (done, wait) = sync_channel(1);
    if lines().is_some_and(|lines| lines.try_send(Line::Mark(done)).is_ok()) {
        let _ = wait.recv_timeout(LAST);
    }
}

/// On standard output: what scripts wait for.
pub fn tell(text: impl Display) {
    let _ = writeln!(std::io::stdout(), "prefix-server: {text}");
}

/// None where the system has no thread for it.
fn lines() -> Option<&'static SyncSender<Line>> {
    static LINES: OnceLock<Option<SyncSender<Line>>> = OnceLock::new();
    let begin = || {
        let (lines, written) = sync_channel(ROOM);
        let thread = thread::Builder::new().name("prefix-says".into());
        thread.spawn(move || write(&written)).ok().map(|_| lines)
    };
    LINES.get_or_init(begin).as_ref()
}

fn write(lines: &Receiver<Line>) {
    while let Ok(line) = lines.recv() {
        match line {
            Line::Text(text) => {
                let lost = LOST.swap(0, Ordering::Relaxed);
                if lost > 0 {
                    put(format_args!(
                        "{lost} lines were lost: nobody read them in time"
                    ));
                }
                put(text);
            }
            Line::Mark(done) => drop(done.send(())),
        }
    }
}

fn put(text: impl Display) {
    let _ = writeln!(std::io::stderr(), "prefix-server: {text}");
}
