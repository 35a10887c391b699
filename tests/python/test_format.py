"""tools/format, in a tree that has one crate at a time."""

import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MANIFEST = '[package]\nname = "one"\nversion = "0.1.0"\nedition = "2021"\n[workspace]\n'


def is_installed(*command: str) -> bool:
    return shutil.which(command[0]) is not None and subprocess.run(command, capture_output=True).returncode == 0


@unittest.skipUnless(is_installed("clang-format-19", "--version") and is_installed("cargo", "fmt", "--version"),
                     "clang-format-19 or rustfmt is not installed")
class Crates(unittest.TestCase):
    def check(self, crate: str, source: str) -> subprocess.CompletedProcess:
        with tempfile.TemporaryDirectory() as folder:
            home = Path(folder)
            for part in ("tools", "src", f"{crate}/src"):
                (home / part).mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / "tools" / "format", home / "tools")
            (home / crate / "Cargo.toml").write_text(MANIFEST)
            (home / crate / "src" / "lib.rs").write_text(source)
            return subprocess.run([home / "tools" / "format", "--check"], capture_output=True, text=True)

    def test_each_crate_is_looked_at(self) -> None:
        for crate in ("text", "bindings/rust", "samples/server"):
            with self.subTest(crate):
                self.assertEqual(self.check(crate, "pub fn one() {}\n").returncode, 0)
                wrong = self.check(crate, "pub fn one( ){}\n")
                self.assertEqual(wrong.returncode, 1)
                self.assertIn("lib.rs", wrong.stdout)


if __name__ == "__main__":
    unittest.main()
