"""The crates: packed with their libraries, unpacked as a registry gives them, and used by a program of one dependency."""

import re
import shutil
import tarfile
import tempfile
import unittest
from pathlib import Path

from packed import BUILD, DOCUMENTS, MODEL, QUERY, ROOT, expected_ranking, folders_named, needs, run

MANIFEST = """[package]
name = "stranger"
version = "0.1.0"
edition = "2021"
[dependencies]
libprefix = "0.1"
libprefix-sys = "0.1" # tells build.rs where the libraries are
"""
CONFIG = """[source.crates-io]
replace-with = "unpacked"
[source.unpacked]
directory = "unpacked"
"""
BUILD_RS = """fn main() {
    println!("cargo:rustc-link-arg=-Wl,-rpath,{}", std::env::var("DEP_PREFIX_LIB_DIR").unwrap());
}
"""
PROGRAM = """fn main() -> prefix::Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let (engine, tokenizer) = (prefix::Engine::open(&arguments[1])?, prefix::Tokenizer::open(&arguments[1])?);
    let documents: Vec<&str> = arguments[3..].iter().map(String::as_str).collect();
    for place in prefix::rerank(&engine, &tokenizer, &arguments[2], &documents, None)?.ranked {
        println!("{} {}", place.index, place.score);
    }
    Ok(())
}
"""


class Crates(unittest.TestCase):
    def test_rerank_by_what_was_packed(self):
        needs(self, "cargo", "strip", "cc")
        found = re.search(r"1\.(\d+)", run("cargo", "--version"))
        if int(found[1]) < 90:
            self.skipTest(f"cargo is 1.{found[1]}; 1.90 or newer packs crates that need each other")
        folder = Path(tempfile.mkdtemp(prefix="prefix-crates-"))
        self.addCleanup(shutil.rmtree, folder)
        run(ROOT / "bindings/rust/package", BUILD / "lib", folder / "out")
        crates = sorted((folder / "out").glob("*.crate"))
        self.assertEqual([re.sub(r"-\d.*", "", crate.name) for crate in crates], ["libprefix", "libprefix-sys"])
        program = folder / "stranger"
        for name, text in {"Cargo.toml": MANIFEST, ".cargo/config.toml": CONFIG, "build.rs": BUILD_RS, "src/main.rs": PROGRAM}.items():
            (program / name).parent.mkdir(parents=True, exist_ok=True)
            (program / name).write_text(text)
        for crate in crates:
            self.assertLess(crate.stat().st_size, 10 << 20, "the limit of crates.io")
            with tarfile.open(crate) as archive:
                names = archive.getnames()
                archive.extractall(program / "unpacked")
            self.assertLessEqual({f"{crate.stem}/LICENSE", f"{crate.stem}/THIRD-PARTY-NOTICES"}, set(names))
            (program / "unpacked" / crate.stem / ".cargo-checksum.json").write_text('{"files":{}}')
        shutil.rmtree(folder / "out")
        self.assertEqual(folders_named((program / "unpacked").rglob("*")), [])
        # No pkg-config: an installed library would do, too.
        run("cargo", "build", "--quiet", "--offline", cwd=program, environment={"PKG_CONFIG": "/nowhere/pkg-config"})
        lines = run(program / "target/debug/stranger", MODEL, QUERY, *DOCUMENTS, cwd="/").splitlines()
        self.assertEqual([line.split()[0] for line in lines], [str(entry["index"]) for entry in expected_ranking()])
        for line, entry in zip(lines, expected_ranking()):
            self.assertAlmostEqual(float(line.split()[1]), entry["score"], places=6)
