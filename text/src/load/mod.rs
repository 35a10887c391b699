//! Finds and loads a tokenizer: a `.gguf` file, a Hugging Face directory, or a tokenizer.json.

mod gguf;
mod hf;
mod split;

use crate::error::{quote, Code, Error, Result};
use crate::pipeline::Tokenizer;
use crate::roles::Roles;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

pub use hf::from_texts;
pub use split::byte_level;

/// No tokenizer.json comes near; reading more than this into memory is refused.
const MAX_FILE: u64 = 256 << 20;

/// What a file or directory gave.
pub struct Source {
    /// "gguf", "directory" or "json".
    pub kind: &'static str,
    pub tokenizer: Tokenizer,
    /// End-of-generation ids that the model's own settings list.
    pub end_ids: Vec<u32>,
    pub roles: Roles,
    /// Special tokens without a role, for templates.
    pub extra_special: Vec<String>,
    /// Chat templates by name; the usual one is "default".
    pub templates: BTreeMap<String, String>,
}

pub fn open(path: &Path) -> Result<Source> {
    let about = std::fs::metadata(path).map_err(|e| Error::io(path, &e))?;
    let source = if about.is_dir() {
        hf::load_directory(path)
    } else if is_gguf(path)? {
        gguf::load(path)
    } else {
        hf::load_file(path)
    };
    source.map_err(|e| match e.code {
        // These name their path already.
        Code::Io | Code::NotFound if e.message.starts_with('"') => e,
        _ => e.within(&quote(&path.to_string_lossy())),
    })
}

fn is_gguf(path: &Path) -> Result<bool> {
    let mut magic = [0; 4];
    let mut file = File::open(path).map_err(|e| Error::io(path, &e))?;
    match file.read_exact(&mut magic) {
        Ok(()) => Ok(magic == *b"GGUF"),
        Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => Ok(false),
        Err(e) => Err(Error::io(path, &e)),
    }
}

/// A whole text file, within MAX_FILE.
fn read_text(path: &Path) -> Result<String> {
    let file = File::open(path).map_err(|e| Error::io(path, &e))?;
    let mut bytes = Vec::new();
    file.take(MAX_FILE + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| Error::io(path, &e))?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(Error::format(format!(
            "{} is larger than {MAX_FILE} bytes",
            quote(&path.to_string_lossy())
        )));
    }
    String::from_utf8(bytes)
        .map_err(|_| Error::format(format!("{} is not UTF-8", quote(&path.to_string_lossy()))))
}

/// The same, or None when there is no such file.
fn read_text_if_there(path: &Path) -> Result<Option<String>> {
    match read_text(path) {
        Ok(text) => Ok(Some(text)),
        Err(e) if e.code == Code::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}
