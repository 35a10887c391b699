"""tools/cargo: which flags reach rustc."""

import os
import subprocess
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class Cargo(unittest.TestCase):
    def flags(self, **environment: str) -> list[str]:
        """Those that a cargo is given, here a program that prints them."""
        known = {name: value for name, value in os.environ.items() if name not in ("CARGO_HOME", "CARGO_TARGET_DIR", "RUSTFLAGS")}
        done = subprocess.run([ROOT / "tools" / "cargo", "CARGO_ENCODED_RUSTFLAGS"], capture_output=True, text=True,
                              env={**known, "CARGO": "printenv", **environment})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.removesuffix("\n").split("\x1f")

    def test_folders_of_this_machine_are_left_out(self) -> None:
        first, second, third = self.flags()
        self.assertEqual(first, f"--remap-path-prefix={ROOT}=.")
        self.assertEqual(second, f"--remap-path-prefix={Path.home()}/.cargo=cargo")
        self.assertRegex(third, r"^--remap-path-prefix=/.*/lib/rustlib/src/rust=/rustc$")
        # rustc takes the last that fits: a home or a target folder inside of the sources is not one of theirs.
        flags = self.flags(CARGO_HOME=f"{ROOT}/a home", CARGO_TARGET_DIR=f"{ROOT}/b")
        self.assertEqual(flags, [first, f"--remap-path-prefix={ROOT}/a home=cargo", third, f"--remap-path-prefix={ROOT}/b=target"])

    def test_flags_are_added(self) -> None:
        self.assertEqual(self.flags(RUSTFLAGS="-Cdebug-assertions=on  -Ccodegen-units=16")[3:],
                         ["-Cdebug-assertions=on", "-Ccodegen-units=16"])


if __name__ == "__main__":
    unittest.main()
