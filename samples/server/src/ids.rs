//! Names and times of answers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

/// A name that this process gives once, and no other is likely to give.
pub fn next(kind: &str) -> String {
    static START: OnceLock<u64> = OnceLock::new();
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let start = START.get_or_init(|| {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.map_or(0, |since| since.as_nanos() as u64) ^ u64::from(std::process::id()) << 40
    });
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{kind}-{start:016x}{number:08x}")
}

/// The name of a call of a tool: nine letters and digits for templates that take no others.
pub fn call(is_short: bool) -> String {
    let name = next("call");
    let Some((_, number)) = name.split_once('-').filter(|_| is_short) else {
        return name.replacen('-', "_", 1);
    };
    // Those that count, from behind: different for 2^36 calls of a process.
    number[number.len() - 9..].to_string()
}

/// Seconds since 1970.
pub fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
