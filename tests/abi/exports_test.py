"""The binary interface as the linker sees it, against what prefix.h and the golden files promise.

golden_layout.txt holds what abi_layout prints, golden_functions.txt the declarations of prefix.h. Both only
grow: a line that changes or goes is a new ABI. `exports_test.py ... --write` writes them anew.
"""

import argparse
import re
import subprocess
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
HEADER = HERE.parent.parent / "include" / "prefix.h"
# What any C++ program on this system has loaded anyway; anything else would be a new dependency.
SYSTEM = {"libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
ARGUMENTS = argparse.Namespace()


def output(*command) -> str:
    return subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True).stdout


def promised() -> list:
    return re.findall(r"\bX\((prefix_\w+)\)", HEADER.read_text())


def code() -> str:
    return re.sub(r"/\*.*?\*/", " ", HEADER.read_text(), flags=re.S)


def declarations() -> list:
    found = re.findall(r"^PREFIX_API (.*?);", code(), flags=re.S | re.M)
    return [" ".join(text.split()) for text in found]


def callbacks() -> list:
    return [" ".join(text.split()) for text in re.findall(r"^typedef [^;{]*\(\*[^;]*;", code(), flags=re.S | re.M)]


def golden_functions() -> str:
    return "".join(f"{line}\n" for line in [*callbacks(), *declarations()])


def layout() -> str:
    return output(ARGUMENTS.layout)


class Exports(unittest.TestCase):
    maxDiff = None

    def test_symbols_are_the_functions_of_the_header(self) -> None:
        symbols = [line.split()[-1] for line in output("nm", "-D", "--defined-only", ARGUMENTS.library).splitlines()]
        node = f"PREFIX_{ARGUMENTS.abi}"
        expected = sorted([*(f"{name}@@{node}" for name in promised()), f"{node}@@{node}"])
        plain = [s if "@" in s else f"{s}@@{node}" for s in symbols]  # nm may leave the node's own version out
        self.assertEqual(sorted(plain), expected)

    def test_every_declaration_is_in_the_list(self) -> None:
        names = [re.search(r"(\w+)\(", text).group(1) for text in declarations()]
        self.assertEqual(names, promised())
        self.assertEqual(len(names), len(set(names)))

    def dynamic(self, tag: str) -> list:
        return re.findall(rf"\({tag}\).*\[(.*)\]", output("readelf", "-dW", ARGUMENTS.library))

    def test_soname(self) -> None:
        self.assertEqual(self.dynamic("SONAME"), [f"libprefix.so.{ARGUMENTS.abi}"])

    def test_needs_only_the_system(self) -> None:
        if ARGUMENTS.sanitized:
            self.skipTest("a sanitized library needs the sanitizers' own")
        self.assertEqual(set(self.dynamic("NEEDED")) - SYSTEM, set())
        self.assertEqual(self.dynamic("RUNPATH") + self.dynamic("RPATH"), [])

    def test_no_executable_stack_and_no_text_relocations(self) -> None:
        self.assertRegex(output("readelf", "-lW", ARGUMENTS.library), r"GNU_STACK.* RW ")
        self.assertNotIn("TEXTREL", output("readelf", "-dW", ARGUMENTS.library))


class Golden(unittest.TestCase):
    maxDiff = None

    def test_layout(self) -> None:
        self.assertEqual(layout(), (HERE / "golden_layout.txt").read_text())

    def test_declarations(self) -> None:
        self.assertEqual(golden_functions(), (HERE / "golden_functions.txt").read_text())

    def test_layout_tells_of_every_constant(self) -> None:
        named = set(re.findall(r"^\s*(PREFIX_[A-Z0-9_]+) = -?\d+", code(), re.M))
        named |= set(re.findall(r"[{,]\s*(PREFIX_[A-Z0-9_]+) = -?\d+", code()))
        self.assertGreater(len(named), 40)
        self.assertEqual(named - set(re.findall(r"^(PREFIX_\w+) ", layout(), re.M)), set())

    def test_layout_tells_of_every_field(self) -> None:
        known = layout()
        structs = re.findall(r"typedef struct (prefix_\w+) \{(.*?)\}", code(), re.S)
        self.assertGreater(len(structs), 7)
        for name, body in structs:
            self.assertIn(f"{name} size ", known)
            fields = []
            for declaration in body.split(";")[:-1]:
                names = re.sub(r"^\s*(const )?\w+[\s*]+", "", declaration)
                fields += [re.sub(r"\[.*\]", "", field).strip() for field in names.split(",")]
            self.assertEqual(fields, re.findall(rf"^{name}\.(\w+) ", known, re.M))

    def test_structs_that_are_filled_begin_with_their_size(self) -> None:
        for name, field in re.findall(r"^(prefix_\w+)\.(\w+) offset 0 ", layout(), re.M):
            self.assertEqual(field, "struct_size", name)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True)
    parser.add_argument("--layout", required=True)
    parser.add_argument("--abi", required=True)
    parser.add_argument("--sanitized", action="store_true")
    parser.add_argument("--write", action="store_true")
    rest = parser.parse_known_args(namespace=ARGUMENTS)[1]
    if ARGUMENTS.write:
        (HERE / "golden_layout.txt").write_text(layout())
        (HERE / "golden_functions.txt").write_text(golden_functions())
        sys.exit(0)
    unittest.main(argv=[sys.argv[0], *rest])
