//! Finds and loads a tokenizer: a `.gguf` file, a Hugging Face directory, or a tokenizer.json.

mod added;
mod gguf;
mod hf;
mod split;

use crate::error::{quote_path, Code, Error, Result};
use crate::pipeline::Tokenizer;
use crate::roles::Roles;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

pub use hf::from_texts;
pub use split::byte_level;

/// No tokenizer.json comes near; reading more than this into memory is refused.
const MAX_FILE: u64 = 128 << 20;
/// Largest settings beside it. They list the added tokens once more.
const MAX_SETTINGS: u64 = 64 << 20;
/// Largest file of a chat template. What is rendered has a lower limit.
const MAX_TEMPLATE: u64 = 1 << 20;

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
    // In the words of libprefix, whichever of the two is asked first.
    let about = std::fs::metadata(path).map_err(|e| match e.raw_os_error() {
        // A name that no file can have is that of none.
        Some(libc::ENOENT | libc::ENOTDIR | libc::ENAMETOOLONG) => {
            Error::not_found(format!("no model at {}", quote_path(path)))
        }
        _ => Error::io(path, &e),
    })?;
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
        _ => e.within(&quote_path(path)),
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

/// A whole text file of at most `most` bytes.
fn read_text(path: &Path, most: u64) -> Result<String> {
    let mut file = File::open(path)
        .map_err(|e| Error::io(path, &e))?
        .take(most + 1);
    let mut bytes = Vec::new();
    loop {
        if bytes.try_reserve((bytes.len() / 2).max(1 << 16)).is_err() {
            return Err(Error::new(
                Code::OutOfMemory,
                format!(
                    "there is no memory for {}, of which {} bytes are read",
                    quote_path(path),
                    bytes.len()
                ),
            ));
        }
        let room = bytes.capacity() - bytes.len();
        let got = file
            .by_ref()
            .take(room as u64)
            .read_to_end(&mut bytes)
            .map_err(|e| Error::io(path, &e))?;
        if got < room {
            break;
        }
    }
    if bytes.len() as u64 > most {
        return Err(Error::format(format!(
            "{} is larger than {most} bytes",
            quote_path(path)
        )));
    }
    String::from_utf8(bytes)
        .map_err(|_| Error::format(format!("{} is not UTF-8", quote_path(path))))
}

/// The same, or None when there is no such file. A link that leads nowhere is there.
fn read_text_if_there(path: &Path, most: u64) -> Result<Option<String>> {
    match read_text(path, most) {
        Ok(text) => Ok(Some(text)),
        Err(e) if e.code == Code::NotFound && path.symlink_metadata().is_err() => Ok(None),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_as_libprefix_names_it() {
        let here = env!("CARGO_MANIFEST_DIR");
        let deep = format!("{here}/{}", "x/".repeat(100));
        let long = format!("{here}/{}", "x".repeat(256));
        for path in [
            &format!("{here}/nowhere"),
            &format!("{here}/Cargo.toml/x"),
            &deep,
            &long,
        ] {
            let error = open(Path::new(path)).err().unwrap();
            assert_eq!(error.code, Code::NotFound);
            assert_eq!(error.message, format!("no model at \"{path}\""));
        }
    }
}
