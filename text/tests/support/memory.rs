//! Memory of this process, from /proc.

fn kilobytes(key: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with(key)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Bytes that are in memory now.
pub fn resident() -> usize {
    kilobytes("VmRSS:") << 10
}

/// The most bytes that have been in memory since the last reset.
pub fn peak() -> usize {
    kilobytes("VmHWM:") << 10
}

/// Lets the peak begin anew.
pub fn reset_peak() {
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
}
