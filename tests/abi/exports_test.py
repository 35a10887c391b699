"""Both libraries as the linker sees them: name, symbol versions, what they need.

Which functions they export and with what types is the matter of baseline_test.py.
"""

import argparse
import re
import subprocess
import sys
import unittest
from pathlib import Path

# What any C++ program on this system has loaded anyway; anything else would be a new dependency.
SYSTEM = {"libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
# The text library "needs nothing but libc": no C++. libgcc_s comes with the compiler of every C program.
TEXT_SYSTEM = SYSTEM - {"libstdc++.so.6"}
ARGUMENTS = argparse.Namespace()


def output(*command) -> str:
    return subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True).stdout


class Core(unittest.TestCase):
    name, system = "libprefix.so", SYSTEM

    @property
    def library(self) -> str:
        return ARGUMENTS.library

    def dynamic(self, tag: str) -> list:
        return re.findall(rf"\({tag}\).*\[(.*)\]", output("readelf", "-dW", self.library))

    def test_soname(self) -> None:
        self.assertEqual(self.dynamic("SONAME"), [f"{self.name}.{ARGUMENTS.abi}"])

    def test_needs_only_the_system(self) -> None:
        if ARGUMENTS.sanitized:
            self.skipTest("a sanitized library needs the sanitizers' own")
        self.assertEqual(set(self.dynamic("NEEDED")) - self.system, set())
        self.assertEqual(self.dynamic("RUNPATH") + self.dynamic("RPATH"), [])

    def test_no_executable_stack_and_no_text_relocations(self) -> None:
        self.assertRegex(output("readelf", "-lW", self.library), r"GNU_STACK.* RW ")
        self.assertNotIn("TEXTREL", output("readelf", "-dW", self.library))


class Versions(unittest.TestCase):
    def test_every_symbol_has_the_version_of_the_soname(self) -> None:
        symbols = [line.split()[-1] for line in output("nm", "-D", "--defined-only", ARGUMENTS.library).splitlines()]
        node = f"PREFIX_{ARGUMENTS.abi}"
        self.assertEqual([s for s in symbols if not s.endswith(f"@@{node}") and s != node], [])
        self.assertGreater(len(symbols), 1)


class Threads(unittest.TestCase):
    def test_no_thread_needs_memory_for_what_it_must_destroy(self) -> None:
        """A thread_local with a destructor takes memory at its first use, and without any the process ends."""
        symbols = output("nm", "-D", "--undefined-only", ARGUMENTS.library)
        self.assertNotIn("__cxa_thread_atexit", symbols)


class Text(Core):
    name, system = "libprefix_text.so", TEXT_SYSTEM

    @property
    def library(self) -> str:
        return ARGUMENTS.text_library

    def setUp(self) -> None:
        if not self.library:
            self.skipTest("libprefix_text is not built")

    def test_hands_on_no_functions_of_its_crates(self) -> None:
        symbols = [line.split()[-1] for line in output("nm", "-D", "--defined-only", self.library).splitlines()]
        self.assertEqual([symbol for symbol in symbols if not symbol.startswith("prefix_")], [])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True)
    parser.add_argument("--text-library", default="")
    parser.add_argument("--abi", required=True)
    parser.add_argument("--sanitized", action="store_true")
    rest = parser.parse_known_args(namespace=ARGUMENTS)[1]
    unittest.main(argv=[sys.argv[0], *rest])
