//! What the tests share: the tiny model, the golden file, and how the library is found at run time.
#![allow(dead_code)] // each test program uses a part

pub mod json;

use std::path::PathBuf;

use prefix::{Engine, Options};

/// The source tree.
pub fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../.."))
}

/// A folder of build/golden-models.
pub fn model(name: &str) -> PathBuf {
    let path = root().join("build/golden-models").join(name);
    assert!(
        path.exists(),
        "{} is missing: run tools/run_tests models",
        path.display()
    );
    path
}

/// With the feature `dynamic`, the library that the other tests link.
pub fn load_library() {
    #[cfg(feature = "dynamic")]
    {
        let folder = match std::env::var_os("PREFIX_LIB_DIR") {
            Some(folder) => PathBuf::from(folder),
            None => root().join("build/lib"),
        };
        prefix::library::load(folder.join("libprefix.so.1")).unwrap();
        #[cfg(feature = "text")]
        prefix::library::load_text(folder.join("libprefix_text.so.1")).unwrap();
    }
}

pub fn options() -> Options {
    load_library();
    Options::new().unwrap()
}

/// The tiny model on one thread.
pub fn engine() -> Engine {
    engine_with(1)
}

pub fn engine_with(threads: usize) -> Engine {
    Engine::open_with(
        model("llama-base"),
        &options().set("threads", threads).unwrap(),
    )
    .unwrap()
}

pub fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Resident bytes of this process.
pub fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}
