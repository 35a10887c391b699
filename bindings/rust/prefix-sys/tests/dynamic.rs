//! The library at run time: every way in which it can be the wrong one, then the right one. One test, because
//! a library that is loaded stays.
#![cfg(feature = "dynamic")]

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use prefix_sys::dynamic::{is_loaded, load, LoadError};

/// A shared library of one C function.
fn library(name: &str, source: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (file, library) = (
        folder.join(format!("{name}.c")),
        folder.join(format!("{name}.so")),
    );
    std::fs::write(&file, source).unwrap();
    let status = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(&file)
        .status();
    assert!(status.unwrap().success());
    library
}

fn real_library() -> PathBuf {
    let folder = std::env::var_os("PREFIX_LIB_DIR").map(PathBuf::from);
    let built = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../build/lib");
    folder.unwrap_or_else(built).join("libprefix.so.1")
}

#[test]
fn wrong_libraries_are_refused_and_the_right_one_loads() {
    let missing = load(Some(OsStr::new("/nowhere/libprefix.so.1"))).unwrap_err();
    assert!(matches!(missing, LoadError::Open { .. }));
    let message = missing.to_string();
    assert!(
        message.starts_with("cannot load /nowhere/libprefix.so.1: "),
        "{message}"
    );

    let old = library("old", "int prefix_abi_version(void) { return 0; }");
    let error = load(Some(old.as_os_str())).unwrap_err();
    assert!(
        matches!(
            error,
            LoadError::TooOld {
                found: 0,
                needed: 1,
                ..
            }
        ),
        "{error}"
    );
    assert!(
        error
            .to_string()
            .ends_with("old.so has ABI 0, at least 1 is needed"),
        "{error}"
    );

    let other = library("other", "int other(void) { return 0; }");
    let error = load(Some(other.as_os_str())).unwrap_err();
    assert!(
        matches!(
            error,
            LoadError::Missing {
                symbol: "prefix_abi_version",
                ..
            }
        ),
        "{error}"
    );

    let partial = library("partial", "int prefix_abi_version(void) { return 1; }");
    let error = load(Some(partial.as_os_str())).unwrap_err();
    assert!(
        matches!(
            error,
            LoadError::Missing {
                symbol: "prefix_version",
                ..
            }
        ),
        "{error}"
    );

    assert!(!is_loaded());
    let panic = std::panic::catch_unwind(|| unsafe { prefix_sys::prefix_version() }).unwrap_err();
    assert!(panic
        .downcast::<String>()
        .unwrap()
        .contains("prefix_version was called before"));

    let real = real_library();
    load(Some(real.as_os_str())).unwrap();
    assert!(is_loaded());
    // Safety: no precondition.
    assert!(unsafe { prefix_sys::prefix_abi_version() } >= prefix_sys::PREFIX_ABI_VERSION);
    load(Some(OsStr::new("/nowhere"))).expect("it is there already");

    #[cfg(feature = "text")]
    {
        use prefix_sys::dynamic::{is_text_loaded, load_text};
        assert!(load_text(Some(partial.as_os_str())).is_err());
        assert!(!is_text_loaded());
        let text = real.with_file_name("libprefix_text.so.1");
        load_text(Some(text.as_os_str())).unwrap();
        assert!(is_text_loaded());
    }
}
