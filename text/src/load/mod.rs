//! Finds and loads a tokenizer: a `.gguf` file, a Hugging Face directory, or a tokenizer.json.

mod added;
mod files;
mod gguf;
mod hf;
mod source;
mod split;

use crate::error::{quote_path, Code, Error, Result};
use std::path::Path;

pub use hf::from_texts;
pub use source::Source;

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
    } else if files::is_gguf(path)? {
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
