//! A linked library that is older than the one a program was built with.
#![cfg(all(not(feature = "dynamic"), feature = "text"))]

use std::path::Path;
use std::process::Command;

const SOURCE: &str = "int prefix_abi_version(void) { return 0; }
int prefix_text_abi_version(void) { return 0; }
";

/// This program once more, with versions of an older library before those of the right one.
#[test]
fn an_older_library_is_refused() {
    if std::env::var_os("PREFIX_TEST_OLDER").is_some() {
        let error = prefix::Options::new().unwrap_err().to_string();
        assert!(
            error.contains("libprefix has ABI 0, at least 1 is needed"),
            "{error}"
        );
        let error = prefix::Tokenizer::open("/nowhere")
            .err()
            .unwrap()
            .to_string();
        assert!(
            error.contains("libprefix_text has ABI 0, at least 1 is needed"),
            "{error}"
        );
        return;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (file, older) = (folder.join("older.c"), folder.join("older.so"));
    std::fs::write(&file, SOURCE).unwrap();
    let mut compile = Command::new("cc");
    compile
        .args(["-shared", "-fPIC", "-o"])
        .arg(&older)
        .arg(&file);
    assert!(compile.status().unwrap().success());

    let done = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "an_older_library_is_refused"])
        .env("LD_PRELOAD", &older)
        .env("PREFIX_TEST_OLDER", "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{said}");
    assert!(said.contains("1 passed"), "{said}");
}
