"""The public headers as a stranger's compiler sees them: each alone, in every language they promise.

Also compiles the example at the top of prefix.h, word for word, and runs it without its model.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
INCLUDE = HERE.parent.parent / "include"
LANGUAGES = ["c90", "c99", "c11", "c17", "c++98", "c++11", "c++17", "c++20"]
COMPILERS = {"gcc": ["gcc-12", "gcc"], "clang": ["clang-19", "clang"]}
STRICT = ["-pedantic-errors", "-Wall", "-Wextra", "-Wshadow", "-Wundef", "-Werror"]
ARGUMENTS = argparse.Namespace()


def find(names: list) -> "str | None":
    return next(filter(None, map(shutil.which, names)), None)


def check(compiler: str, language: str, source: Path) -> subprocess.CompletedProcess:
    flags = [*STRICT, f"-std={language}", "-x", "c++" if "++" in language else "c"]
    if language in ("c90", "c++98"):
        flags.append("-Wno-long-long")  # int64_t of the system's own headers
    if "++" not in language:
        flags += ["-Wstrict-prototypes", "-Wmissing-prototypes"]
    return subprocess.run([compiler, *flags, "-I", str(INCLUDE), "-fsyntax-only", str(source)],
                          capture_output=True, text=True)


class Header(unittest.TestCase):
    """test_NAME_COMPILER_LANGUAGE are added below."""


def add_test(source: Path, name: str, language: str) -> None:
    def test(self: unittest.TestCase) -> None:
        compiler = find(COMPILERS[name])
        if not compiler:
            self.skipTest(f"{name} is not installed")
        result = check(compiler, language, source)
        self.assertEqual(result.returncode, 0, result.stderr)

    setattr(Header, f"test_{source.stem}_{name}_{language.replace('+', 'p')}", test)


for each in ("core_alone.c", "text_alone.c"):
    for compiler_name in COMPILERS:
        for standard in LANGUAGES:
            add_test(HERE / "header" / each, compiler_name, standard)


def example_of(header: str) -> str:
    """The program in the first comment of a header, without the stars in front of its lines."""
    comment = (INCLUDE / header).read_text().split("*/", 1)[0]
    lines = re.findall(r"^ \*   (.*)$|^ \*()$", comment, re.M)
    text = "\n".join(line or empty for line, empty in lines)
    return text[text.index("#include"):text.index("\n}\n") + 3]


class Example(unittest.TestCase):
    def test_of_prefix_h_compiles_and_runs(self) -> None:
        text = example_of("prefix.h")
        compiler = find(COMPILERS["gcc"])
        if not compiler:
            self.skipTest("gcc is not installed")
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "example.c"
            source.write_text(text)
            result = check(compiler, "c99", source)
            self.assertEqual(result.returncode, 0, result.stderr)
            if ARGUMENTS.sanitized:
                self.skipTest("compiled; a sanitized library does not run in a plain program")
            library = Path(ARGUMENTS.library)
            subprocess.run([compiler, "-std=c99", "-I", INCLUDE, source, library,
                            f"-Wl,-rpath,{library.parent}", "-o", f"{folder}/example"], check=True)
            run = subprocess.run([f"{folder}/example"], cwd=folder, capture_output=True, text=True)
            self.assertEqual(run.returncode, 1, "the model is not there: it must say so")
            self.assertIn("model.gguf", run.stderr)

    def test_of_prefix_text_h_compiles(self) -> None:
        compiler = find(COMPILERS["gcc"])
        if not compiler:
            self.skipTest("gcc is not installed")
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "example.c"
            source.write_text(example_of("prefix_text.h"))
            result = check(compiler, "c99", source)
            self.assertEqual(result.returncode, 0, result.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True)
    parser.add_argument("--sanitized", action="store_true")
    rest = parser.parse_known_args(namespace=ARGUMENTS)[1]
    unittest.main(argv=[sys.argv[0], *rest])
