"""tools/install_deps installs Rust and Go where they are missing or too old, and says what it cannot do."""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HELPERS = ["awk", "bash", "dirname", "env", "mktemp", "rm", "sed", "tail"]


class InstallDepsTest(unittest.TestCase):
    """The script in a folder of its own, with a PATH of helpers and of programs that write down how they were called."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.bin = self.root / "bin"
        self.calls = self.root / "calls"
        self.calls.touch()
        for name in ("bin", "tools", "bindings/go"):
            (self.root / name).mkdir(parents=True)
        shutil.copy(ROOT / "tools" / "install_deps", self.root / "tools")
        for name in HELPERS:
            (self.bin / name).symlink_to(shutil.which(name))
        for name in ("g++", "cmake", "ninja", "git", "clang-format-19", "javac", "mvn", "pkg-config", "python3"):
            self.program("bin/" + name, "true")
        self.program("bin/id", "echo 0")
        self.program("bin/apt-cache", "echo ' rustc-web | 1.96.0'")
        self.rust("1.90")
        self.program("bindings/go/env", "echo go1.27.3")

    def program(self, path: str, script: str) -> None:
        target = self.root / path
        target.write_text(f'#!{self.bin}/bash\necho "{target.name} $*" >>{self.calls}\n{script}\n')
        target.chmod(0o755)

    def rust(self, cargo: str, rustc: str = "") -> None:
        self.program("bin/cargo", f"echo 'cargo {cargo}.0 (abc 2026-01-01)'")
        self.program("bin/rustc", f"echo 'rustc {rustc or cargo}.0 (abc 2026-01-01)'")

    def no_rust(self) -> None:
        (self.bin / "cargo").unlink()
        (self.bin / "rustc").unlink()

    def apt(self, rust: str = "") -> None:
        """An apt-get whose "install" brings Rust of that version."""
        body = "".join(f"echo 'echo {name} {rust}.0 x' >{self.bin}/{name}; PATH=/bin:/usr/bin chmod +x {self.bin}/{name}\n"
                       for name in ("cargo", "rustc")) if rust else ""
        self.program("bin/apt-get", f"[[ $* != *' install '* ]] && exit 0\n{body}true")

    def install(self, *groups: str):
        done = subprocess.run([self.root / "tools" / "install_deps", *groups], env={"PATH": str(self.bin)},
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)
        calls = self.calls.read_text().splitlines()
        return done, [call.split(" install ", 1)[1] for call in calls if call.startswith("apt-get") and " install " in call]

    def test_nothing_is_installed_where_all_is_there(self) -> None:
        self.rust("1.87")
        done, _ = self.install("build")
        self.assertNotIn("ust", done.stdout + done.stderr)

    def test_rust_that_is_missing_comes_from_debian(self) -> None:
        self.no_rust()
        self.apt("1.96")
        done, installed = self.install("build")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, "Installing .*Rust")
        self.assertTrue(installed[0].endswith("rustc-web cargo-web"), installed)

    def test_rust_that_is_too_old_is_replaced(self) -> None:
        for times, (cargo, rustc) in enumerate((("1.63", "1.63"), ("1.90", "1.86"), ("1.86", "1.90")), 1):
            self.rust(cargo, rustc)
            self.apt("1.96")
            done, installed = self.install("build")
            self.assertEqual((done.returncode, len(installed)), (0, times), done.stderr)
            self.assertTrue(installed[-1].endswith("rustc-web cargo-web"), installed)

    def test_a_debian_without_rustc_web(self) -> None:
        self.no_rust()
        self.apt("1.87")
        self.program("bin/apt-cache", "true")
        done, installed = self.install("build")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(installed[0].endswith("rustc cargo"), installed)

    def test_rust_that_stays_too_old_is_named(self) -> None:
        self.rust("1.70")
        self.apt()  # what it installs comes later on the PATH
        done, _ = self.install("build")
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"Rust 1.87 or newer is needed, and {self.bin}/cargo is 1.70", done.stderr)

    def test_without_root_it_says_what_to_install(self) -> None:
        self.no_rust()
        self.apt("1.96")
        self.program("bin/id", "echo 1000")
        done, installed = self.install("build")
        self.assertEqual((done.returncode, installed), (1, []))
        self.assertRegex(done.stderr, "please run as root: apt-get install .*rustc-web cargo-web")

    def test_without_root_but_with_sudo(self) -> None:
        self.no_rust()
        self.apt("1.96")
        self.program("bin/id", "echo 1000")
        self.program("bin/sudo", 'if [[ $1 == -n ]]; then shift; fi; "$@"')
        done, installed = self.install("build")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("rustc-web cargo-web", installed[0])
        self.assertIn("sudo env DEBIAN_FRONTEND=noninteractive apt-get", self.calls.read_text())

    def test_what_only_some_tests_need_is_installed_where_that_can_be(self) -> None:
        self.apt()
        _, installed = self.install("test")
        self.assertIn("abigail-tools", installed[0])
        self.program("bin/id", "echo 1000")
        done, installed = self.install("test")
        self.assertEqual(len(installed), 1, "without root nothing is")
        self.assertIn("some tests will be skipped without abigail-tools", done.stderr)
        self.assertNotRegex(done.stderr, "please run as root.*abigail-tools")
        self.program("bin/abidiff", "true")
        self.assertNotIn("abigail-tools", self.install("test")[0].stderr)

    def test_go_that_is_missing_or_too_old_goes_into_the_build_folder(self) -> None:
        self.apt()
        for version in ("", "go1.19.8"):
            self.program("bindings/go/env", f"echo {version}")
            self.program("tools/python_env", f"echo 'echo go1.27.3' >{self.root}/bindings/go/env; echo /some/python")
            done, _ = self.install("test")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn("Installing Go", done.stdout)
            self.assertIn(f"python_env go {self.root}/bindings/go/requirements.txt", self.calls.read_text())

    def test_go_that_cannot_be_installed_ends_nothing(self) -> None:
        self.apt()
        self.program("bindings/go/env", "exit 127")
        self.program("tools/python_env", "exit 1")
        done, _ = self.install("test")
        self.assertEqual(done.returncode, 0)
        self.assertIn("bindings/go will not be tested", done.stderr)


if __name__ == "__main__":
    unittest.main()
