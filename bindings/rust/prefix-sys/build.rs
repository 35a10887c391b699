//! Finds libprefix: PREFIX_LIB_DIR, then the feature `bundled`, then the libraries that a packed crate has in
//! native/, then pkg-config. The standard library is all it needs.
//!
//! The libraries that were found are linked into OUT_DIR by name, because Cargo lets programs that it
//! starts itself (`cargo test`, `cargo run`, doctests) find shared libraries there. What is installed
//! elsewhere gets no rpath from here.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{exit, Command};

#[derive(Debug)]
pub struct Found {
    pub folder: PathBuf,
    how: String,
}

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for name in [
        "PREFIX_LIB_DIR",
        "PREFIX_SOURCE_DIR",
        "PKG_CONFIG",
        "PKG_CONFIG_PATH",
        "DOCS_RS",
    ] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    // Documentation is made without the library; with `dynamic` it is found at run time.
    if env::var_os("DOCS_RS").is_some() || has_feature("DYNAMIC") {
        return;
    }
    let mut libraries = vec!["prefix"];
    if has_feature("TEXT") {
        libraries.push("prefix_text");
    }
    let found = find(&libraries).unwrap_or_else(|why| {
        eprintln!("libprefix-sys: {why}");
        exit(1);
    });
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    println!("cargo:rustc-link-search=native={}", out.display());
    for library in libraries {
        let file = format!("lib{library}.so");
        let names = [found.folder.join(&file), found.folder.join(file + ".1")];
        let Some(file) = names.iter().find(|name| name.exists()) else {
            eprintln!(
                "libprefix-sys: {} has no lib{library}.so ({})",
                found.folder.display(),
                found.how
            );
            exit(1);
        };
        println!("cargo:rerun-if-changed={}", file.display());
        println!("cargo:rustc-link-lib=dylib={library}");
        link_names(&found.folder, &format!("lib{library}.so"), &out);
        // The name that linkers ask for, where there is only the one that programs ask for.
        if *file == names[1] {
            link(&names[1], &out.join(format!("lib{library}.so")));
        }
    }
    // For crates that depend on this one directly: DEP_PREFIX_LIB_DIR.
    println!("cargo:lib_dir={}", found.folder.display());
}

fn has_feature(name: &str) -> bool {
    env::var_os(format!("CARGO_FEATURE_{name}")).is_some()
}

pub fn find(libraries: &[&str]) -> Result<Found, String> {
    if let Some(folder) = env::var_os("PREFIX_LIB_DIR").filter(|folder| !folder.is_empty()) {
        // Relative paths would depend on where Cargo happens to start this program.
        let folder = fs::canonicalize(&folder)
            .map_err(|why| format!("PREFIX_LIB_DIR={}: {why}", Path::new(&folder).display()))?;
        return Ok(Found {
            folder,
            how: "from PREFIX_LIB_DIR".into(),
        });
    }
    if has_feature("BUNDLED") {
        return build(libraries.contains(&"prefix_text"));
    }
    let packed = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("native")
        .join(env::var("TARGET").unwrap_or_default());
    if packed.exists() {
        return Ok(Found {
            folder: packed,
            how: "packed with the crate".into(),
        });
    }
    pkg_config().map_err(|why| {
        format!(
            "libprefix was not found. Either set PREFIX_LIB_DIR to the folder that holds libprefix.so, \
             or install libprefix so that pkg-config finds prefix.pc ({why}), or build it with the \
             feature `bundled`. The feature `dynamic` looks for it at run time instead."
        )
    })
}

fn pkg_config() -> Result<Found, String> {
    let program = env::var_os("PKG_CONFIG").unwrap_or_else(|| "pkg-config".into());
    let output = Command::new(&program)
        .args(["--print-errors", "--variable=libdir", "prefix"])
        .output()
        .map_err(|why| format!("{}: {why}", Path::new(&program).display()))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().replace('\n', " ");
    let folder = unescaped(&text(&output.stdout));
    if !output.status.success() || folder.is_empty() {
        return Err(text(&output.stderr));
    }
    Ok(Found {
        folder: folder.into(),
        how: "from pkg-config".into(),
    })
}

/// pkg-config answers for a shell: with a backslash before each space of a folder.
fn unescaped(text: &str) -> String {
    let mut characters = text.chars();
    let mut plain = String::new();
    while let Some(character) = characters.next() {
        plain.extend(match character {
            '\\' => characters.next(),
            other => Some(other),
        });
    }
    plain
}

/// Runs cmake on the source tree.
fn build(with_text: bool) -> Result<Found, String> {
    let source = match env::var_os("PREFIX_SOURCE_DIR") {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.."),
    };
    if !source.join("include/prefix.h").exists() {
        return Err(format!(
            "feature `bundled`: {} is not the source tree of libprefix; set PREFIX_SOURCE_DIR",
            source.display()
        ));
    }
    for part in [
        "CMakeLists.txt",
        "include",
        "src",
        "text/Cargo.lock",
        "text/src",
    ] {
        println!("cargo:rerun-if-changed={}", source.join(part).display());
    }
    let folder = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("native");
    let switch =
        |name: &str, on: bool| format!("-DPREFIX_BUILD_{name}={}", if on { "ON" } else { "OFF" });
    let mut configure = Command::new("cmake");
    configure
        .arg("-S")
        .arg(&source)
        .arg("-B")
        .arg(&folder)
        .args([
            "-DCMAKE_BUILD_TYPE=Release".to_string(),
            switch("TEXT", with_text),
            switch("TESTS", false),
            switch("BENCH", false),
            switch("CLI", false),
            switch("SAMPLES", false),
        ]);
    run(&mut configure)?;
    let jobs = env::var("NUM_JOBS").unwrap_or_else(|_| "1".into());
    run(Command::new("cmake")
        .arg("--build")
        .arg(&folder)
        .args(["--parallel", &jobs]))?;
    Ok(Found {
        folder: folder.join("lib"),
        how: "built by the feature `bundled`".into(),
    })
}

fn run(command: &mut Command) -> Result<(), String> {
    // Settings that Cargo made for this build are wrong for the one that cmake starts (text/).
    for name in [
        "CARGO_ENCODED_RUSTFLAGS",
        "CARGO_TARGET_DIR",
        "TARGET",
        "RUSTC",
        "RUSTDOC",
    ] {
        command.env_remove(name);
    }
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("feature `bundled`: cmake: {status}")),
        Err(why) => Err(format!("feature `bundled`: cmake: {why}")),
    }
}

/// libprefix.so, libprefix.so.1, ... of `from` as symbolic links in `to`.
fn link_names(from: &Path, stem: &str, to: &Path) {
    let entries = fs::read_dir(from).into_iter().flatten().flatten();
    for name in entries.map(|entry| entry.file_name()) {
        let text = name.to_string_lossy();
        if text == stem || text.starts_with(&format!("{stem}.")) {
            link(&from.join(&name), &to.join(&name));
        }
    }
}

fn link(from: &Path, to: &Path) {
    let _ = fs::remove_file(to);
    if let Err(why) = std::os::unix::fs::symlink(from, to) {
        println!("cargo:warning={}: {why}", to.display());
    }
}
