//! The build script finds the library, or says what to do.

#[allow(dead_code)]
#[path = "../build.rs"]
mod build;

use std::path::{Path, PathBuf};

/// One test, because it changes the environment of its program.
#[test]
fn finds_the_library_or_says_what_to_do() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));

    std::env::set_var("PREFIX_LIB_DIR", &folder);
    let found = build::find(&["prefix"]).unwrap();
    assert_eq!(found.folder, folder.canonicalize().unwrap());
    std::env::set_var("PREFIX_LIB_DIR", "/nowhere");
    let why = build::find(&["prefix"]).err().unwrap();
    assert!(why.starts_with("PREFIX_LIB_DIR=/nowhere: "), "{why}");

    std::env::set_var("PREFIX_LIB_DIR", ""); // as good as not set
    std::env::set_var("PKG_CONFIG", "/nowhere/pkg-config");
    let why = build::find(&["prefix"]).err().unwrap();
    for way in [
        "PREFIX_LIB_DIR",
        "pkg-config",
        "`bundled`",
        "`dynamic`",
        "/nowhere/pkg-config",
    ] {
        assert!(why.contains(way), "{way} is not named: {why}");
    }

    let fake = folder.join("pkg-config");
    std::fs::write(
        &fake,
        "#!/bin/sh\nprintf '%s\\n' '/some\\ \\\\folder/lib'\n",
    )
    .unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&fake, executable).unwrap();
    std::env::set_var("PKG_CONFIG", &fake);
    assert_eq!(
        build::find(&["prefix"]).unwrap().folder,
        Path::new("/some \\folder/lib")
    );

    std::env::set_var("CARGO_FEATURE_BUNDLED", "1");
    std::env::set_var("PREFIX_SOURCE_DIR", "/nowhere");
    let why = build::find(&["prefix"]).err().unwrap();
    assert!(why.contains("/nowhere is not the source tree"), "{why}");
}
