"""The interface of include/ against the frozen ones, the libraries against their headers, Rust against prefix_text.h.

A failure says what broke and for whom, and what to do when the change is meant (tools/abi_baseline).
"""

import argparse
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import abi_interface as abi  # noqa: E402

ARGUMENTS = argparse.Namespace()
# Types of Rust as C has them. u8: the crate takes texts as bytes.
RUST = {"u8": "char", "c_char": "char", "i32": "int32_t", "i64": "int64_t", "usize": "size_t", "f32": "float", "f64": "double"}
DEFINITION = re.compile(r'#\[no_mangle\]\s+pub (?:unsafe )?extern "C" fn (\w+)\(([^)]*)\)(?: -> ([^{]+?))? \{')


def from_rust(kind: str) -> str:
    pointers = re.findall(r"\*(const|mut) ", kind)
    base = kind.split()[-1].split("::")[-1]
    base = RUST.get(base) or re.sub(r"(?<!^)([A-Z])", r"_\1", base).lower()
    for inner, pointer in enumerate(reversed(pointers)):
        if pointer == "const":
            base = f"{base} const" if inner else f"const {base}"
        base += "*"
    return base


class Baseline(unittest.TestCase):
    def check(self, *arguments) -> None:
        done = subprocess.run([ROOT / "tools/abi_baseline", "check", *arguments], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, f"\n{done.stdout}{done.stderr}")

    def test_interface_is_the_frozen_one(self) -> None:
        self.check("--library", ARGUMENTS.library)

    def test_text_library_exports_its_header(self) -> None:
        if not ARGUMENTS.text_library:
            self.skipTest("libprefix_text is not built")
        self.check("--text-library", ARGUMENTS.text_library)

    def test_abidiff_takes_part(self) -> None:
        if not shutil.which("abidiff"):
            self.skipTest("abidiff is not installed (Debian package abigail-tools): types were compared by their words alone")


class TextSignatures(unittest.TestCase):
    """The functions of libprefix_text are defined in Rust, which does not read prefix_text.h."""

    maxDiff = None

    def test_are_those_of_the_header(self) -> None:
        headers = abi.headers_in(ROOT / "include")
        aliases = {name: kind for header in headers.values() for name, kind in header.aliases.items()}

        def plain(kind: str) -> str:
            return re.sub(r"\w+", lambda word: aliases.get(word[0], word[0]), kind)

        declared = {name: f"{plain(result)}({', '.join(plain(kind) for kind, _ in parameters)})"
                    for result, name, parameters in headers["prefix_text.h"].functions}
        defined = {}
        for source in sorted((ROOT / "text/src/ffi").glob("*.rs")):
            for name, parameters, result in DEFINITION.findall(source.read_text()):
                kinds = [part.split(":", 1)[1].strip() for part in parameters.split(",") if part.strip()]
                defined[name] = f"{from_rust(result) if result else 'void'}({', '.join(map(from_rust, kinds))})"
        self.assertEqual({name: text for name, text in defined.items() if name in declared}, declared)

    def test_constants_are_those_of_the_header(self) -> None:
        known = {name: int(value) for header in abi.headers_in(ROOT / "include").values()
                 for name, value in [*header.constants, *header.versions.items()]}
        found = {}
        for source in sorted((ROOT / "text/src").rglob("*.rs")):
            found.update(re.findall(r"^pub const (PREFIX_\w+): i32 = (\d+);", source.read_text(), re.M))
        self.assertIn("PREFIX_TEXT_ABI_VERSION", found)
        self.assertEqual({name: int(value) for name, value in found.items()}, {name: known[name] for name in found})


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True)
    parser.add_argument("--text-library", default="")
    rest = parser.parse_known_args(namespace=ARGUMENTS)[1]
    unittest.main(argv=[sys.argv[0], *rest])
