//! What the tests share. Not every test program uses all of it.
#![allow(dead_code)]

pub mod capi;
pub mod gguf;
pub mod memory;
pub mod runner;
pub mod strings;
pub mod twins;

use sha2::{Digest, Sha256};
use std::path::PathBuf;

/// A file of the repository.
pub fn file(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .join(path)
}

pub fn read(path: &str) -> String {
    let path = file(path);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// A tokenizer of our own; tools/golden/text_fixtures.py makes them.
pub fn fixture(name: &str) -> String {
    read(&format!("text/tests/fixtures/{name}.json"))
}

pub const SMOLLM2: &str = "build/models/SmolLM2-135M-Instruct.Q4_1.gguf";
pub const QWEN3: &str = "build/models/qwen3-tokenizer";

/// The first 16 hex digits of the SHA-256, as the golden files have them.
pub fn short_hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes)[..8]
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect()
}

/// A folder for the files of one test, removed at the end.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("prefix-text-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_string()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
