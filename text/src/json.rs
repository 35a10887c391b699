//! JSON texts of callers and of files.

use serde_json::Value;

/// The value, or what is wrong with the text. A byte order mark is not JSON; to skip it here would
/// only move the surprise to the next reader.
pub fn parse(text: &str) -> Result<Value, String> {
    if text.starts_with('\u{feff}') {
        return Err("it starts with a byte order mark".to_string());
    }
    serde_json::from_str(text).map_err(|e| e.to_string())
}
