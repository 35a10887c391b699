//! What the operator is told. A disk that is full, or a pipe that nobody reads, does not end the service.

use std::fmt::Display;
use std::io::Write;

/// On standard error.
pub fn say(text: impl Display) {
    let _ = writeln!(std::io::stderr(), "prefix-server: {text}");
}

/// On standard output: what scripts wait for.
pub fn tell(text: impl Display) {
    let _ = writeln!(std::io::stdout(), "prefix-server: {text}");
}
