"""bindings/go/env tells Go where the library is, also when the folder's name has spaces or quotes."""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def words(flags: str) -> list[str]:
    """As Go reads such a variable (cmd/internal/quoted): quotes hold a word together, and nothing is escaped in them."""
    found, rest = [], flags.strip()
    while rest:
        quote = rest[0] if rest[0] in "'\"" else None
        word, _, rest = rest[1:].partition(quote) if quote else rest.partition(" ")
        found.append(word)
        rest = rest.lstrip()
    return found


class GoEnvTest(unittest.TestCase):
    def told(self, name: str, **environment: str) -> dict:
        """What it tells a command in a checkout with this name, and that command's arguments."""
        with tempfile.TemporaryDirectory() as folder:
            self.root = Path(folder).resolve() / name
            (self.root / "bindings/go").mkdir(parents=True)
            shutil.copy(ROOT / "bindings/go/env", self.root / "bindings/go")
            clean = {key: value for key, value in os.environ.items()
                     if key not in ("GOFLAGS", "CGO_CFLAGS", "CGO_LDFLAGS", "PREFIX_BUILD")}
            done = subprocess.run([self.root / "bindings/go/env", "env", "-0", "ASKED=a b"], env={**clean, **environment},
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd="/")
            self.assertEqual(done.returncode, 0, done.stderr)
            return dict(line.split("=", 1) for line in done.stdout.split("\0") if line)

    def test_a_folder_is_one_word(self) -> None:
        for name in ("plain", "with spaces  in it", "it's", 'a "quoted" one', "$HOME and `date`"):
            with self.subTest(name):
                told = self.told(name)
                lib = f"{self.root}/build/lib"
                self.assertEqual(words(told["CGO_CFLAGS"]), ["-O2", f"-I{self.root}/include"])
                self.assertEqual(words(told["CGO_LDFLAGS"]), [f"-L{lib}", f"-Wl,-rpath,{lib}"])
                self.assertEqual(told["ASKED"], "a b")

    def test_the_callers_own_flags_come_last(self) -> None:
        told = self.told("plain", PREFIX_BUILD="/other build", GOFLAGS="-mod=mod", CGO_CFLAGS="-g '-Ia b'", CGO_LDFLAGS="-lm")
        self.assertEqual(words(told["CGO_CFLAGS"])[2:], ["-g", "-Ia b"])
        self.assertEqual(words(told["CGO_LDFLAGS"]), ["-L/other build/lib", "-Wl,-rpath,/other build/lib", "-lm"])
        self.assertEqual(told["GOFLAGS"].split(), ["-mod=mod", "-tags=prefix_flags"])


if __name__ == "__main__":
    unittest.main()
