#!/usr/bin/env python3
"""The commands and programs in the documents are right: docs_test.py BUILD_FOLDER.

Every fenced block of README.md, docs/ and the folders' READMEs that says "sh" is run, and where what it prints is shown behind
it, that is what comes, but for times; every one that says "c", or "cpp" and
is a whole program, is compiled and run, and so are the programs in the first comment of the headers. Those that say
"python,run" are run beside the samples. Blocks in other languages are compared with the sources that the tests of the
samples and bindings run.
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(sys.argv.pop(1)).resolve()
MODEL = BUILD / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
# Whole builds and test runs: what runs this test is one of them.
LONG = {"make", "make demo", "make test", "make bench", "make eval", "make build", "make golden-check", "make asan", "make tsan"}
NAME = re.compile(r"\bprefix_[a-z0-9_]+\b")
# Targets of CMake, files, and the beginning of several names.
OTHER_NAMES = {"prefix_flags", "prefix_pkgconfig", "prefix_static", "prefix_ctypes", "prefix_h", "prefix_cache", "prefix_calls",
               "prefix_system", "prefix_batch_add_"}
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "samples" / "README.md", ROOT / "text" / "README.md",
             ROOT / "include" / "README.md", ROOT / "cli" / "README.md"]
# Those whose links are followed: with the pages of bindings, samples and tools, which other tests run.
PAGES = sorted({*DOCUMENTS, *ROOT.glob("*.md"), *(page for pattern in ("*/README.md", "*/*/README.md") for page in ROOT.glob(pattern)
                                                  if not page.relative_to(ROOT).parts[0].startswith("build"))})
# A command with the block behind it, which is what the command prints.
SHOWN = re.compile(r"^```sh\n((?:(?!```).*\n)*)```\n\n```(?:text)?\n((?:(?!```).*\n)*)```", re.M)


def blocks(language):
    """(where, text) of every block of that language, or with that word behind its comma ("python,run")."""
    for path in DOCUMENTS:
        if not path.exists():
            continue
        for match in re.finditer(r"^```(\S*)\n(.*?)^```", path.read_text(), re.M | re.S):
            if language in (match.group(1), match.group(1).split(",")[0]):
                yield f"{path.relative_to(ROOT)}: {match.group(2).splitlines()[0]}", match.group(2)


def without_fences(path):
    return re.sub(r"^```.*?^```", "", path.read_text(), flags=re.M | re.S)


def anchors(path):
    """What a link to a heading of the page may name, as GitHub makes it of the heading."""
    found = set()
    for heading in re.findall(r"^#+ +(.*?) *$", without_fences(path), re.M):
        name = re.sub(r"[^\w -]", "", re.sub(r"\]\([^)]*\)", "", heading).lower()).replace(" ", "-")
        found.add(next(one for one in (name, *(f"{name}-{i}" for i in range(1, 100))) if one not in found))
    return found


def untimed(text):
    """Without the column of seconds at the end of a table."""
    return re.sub(r" +\d+\.\d\d$", "", text, flags=re.M)


def header_programs():
    for name in ("prefix.h", "prefix_text.h", "prefix.hpp", "prefix_text.hpp"):
        comment = (ROOT / "include" / name).read_text().split("*/")[0]
        lines = [line[3:].removeprefix("  ") for line in comment.splitlines() if line.startswith(" *")]
        text = "\n".join(lines)
        program = text[text.index("#include <prefix"):]
        yield f"include/{name}", program[: program.index("\n}\n") + 3]


def bash(text, folder):
    """Runs commands in the checkout; what they keep in /tmp goes into `folder`, since another run may do the same."""
    text = re.sub(r"(?<![\w/])/tmp/", lambda _: f"{folder}/", text)
    # `make model` in a command prints the path; nested runs of make must not hear of this one.
    environment = {key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    return subprocess.run(["bash", "-euo", "pipefail", "-c", text], cwd=ROOT, env=environment, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=600)


class Documents(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        if not MODEL.exists():
            self.skipTest(f"{MODEL.name} was not fetched")

    def compile_and_run(self, where, text):
        compiler, end = (["c++", "-std=c++20"], "cc") if ".hpp>" in text else (["cc", "-std=c11"], "c")
        with tempfile.TemporaryDirectory() as folder:
            source, program = Path(folder) / f"example.{end}", Path(folder) / "example"
            source.write_text(text)
            done = subprocess.run(
                [*compiler, "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'include'}", source, "-o", program, f"-L{BUILD / 'lib'}",
                 "-lprefix", "-lprefix_text", f"-Wl,-rpath,{BUILD / 'lib'}"], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, f"{where}\n{done.stderr}")
            (Path(folder) / "model.gguf").symlink_to(MODEL)  # the name that the headers' programs open
            done = subprocess.run([program, MODEL], cwd=folder, capture_output=True, text=True, timeout=300)
            self.assertEqual((done.returncode, done.stderr), (0, ""), where)
            self.assertTrue(done.stdout, where)

    def test_programs(self):
        whole = [(where, text) for where, text in blocks("cpp") if "int main" in text]
        found = [*blocks("c"), *whole, *header_programs()]
        self.assertGreaterEqual(len(found), 6)
        for where, text in found:
            with self.subTest(where):
                self.compile_and_run(where, text)

    def test_python(self):
        found = list(blocks("python,run"))
        self.assertGreaterEqual(len(found), 1)
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "samples" / "python"), "PYTHONDONTWRITEBYTECODE": "1"}
        for where, text in found:
            with self.subTest(where):
                done = subprocess.run([sys.executable, "-c", text, MODEL, BUILD / "lib"], env=environment,
                                      capture_output=True, text=True, timeout=300)
                self.assertEqual((done.returncode, done.stderr), (0, ""), where)
                self.assertTrue(done.stdout, where)

    def test_commands(self):
        found = [(where, text) for where, text in blocks("sh") if not set(text.strip().splitlines()) <= LONG]
        self.assertGreaterEqual(len(found), 2)
        folder = tempfile.TemporaryDirectory()  # one for all: a command may read what an earlier one has written
        self.addCleanup(folder.cleanup)
        machine = subprocess.run([BUILD / "bin" / "prefix", "info", "--machine"], capture_output=True, text=True)
        compares = "avx2" in machine.stdout.split()  # the level whose bits the documents show
        shown = dict(pair for path in DOCUMENTS if compares and path.exists() for pair in SHOWN.findall(path.read_text()))
        for where, text in found:
            with self.subTest(where):
                wanted = shown.pop(text, None)
                level = "prefix run --option isa=avx2 --model" if wanted else "prefix run --model"
                done = bash(text.replace("prefix run --model", level), folder.name)
                self.assertEqual(done.returncode, 0, f"{where}\n{done.stdout}{done.stderr}")
                if wanted:
                    self.assertEqual(untimed(done.stdout), untimed(wanted), where)
        self.assertFalse(shown)

    def test_commands_leave_no_fixed_name_in_tmp(self):
        with tempfile.TemporaryDirectory() as folder:
            done = bash("echo /tmp/a 'x=/tmp/b' /var/tmp/c", folder)
        self.assertEqual(done.stdout, f"{folder}/a x={folder}/b /var/tmp/c\n")

    def test_examples_in_other_languages_are_the_ones_that_tests_run(self):
        texts = "".join((ROOT / path).read_text() for path in ("README.md", "docs/adding-an-architecture.md"))
        spaces = lambda text: re.sub(r"\s+", " ", text).strip()
        sources = {
            "cpp": [ROOT / "samples" / "cpp" / "rerank.cc", ROOT / "tests" / "model" / "example_architecture.cc"],
            "rust": [ROOT / "bindings" / "rust" / "prefix" / "examples" / "rerank.rs"],
            "go": [ROOT / "bindings" / "go" / "example_test.go"],
            "java": sorted((ROOT / "bindings" / "java").rglob("*.java")),
        }
        for language, paths in sources.items():
            for match in re.finditer(rf"^```{language}[^\n]*\n(.*?)^```", texts, re.M | re.S):
                with self.subTest(language):
                    example = spaces(match.group(1))
                    self.assertTrue(any(example in spaces(path.read_text()) for path in paths), example)

    def test_the_page_of_options_is_what_the_library_says(self):
        done = subprocess.run([ROOT / "tools" / "options_page", "--check", BUILD / "bin" / "prefix"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_every_option_has_its_methods(self):
        done = subprocess.run([ROOT / "tools" / "option_methods", "--check"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_page_of_models_is_what_the_table_and_the_library_say(self):
        done = subprocess.run([ROOT / "tools" / "models_page", "--check", BUILD / "bin" / "prefix"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_picture_and_the_tables_of_other_engines_are_what_was_measured(self):
        done = subprocess.run([ROOT / "tools" / "plot_peers", "--check"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_readme_says_of_other_engines_what_was_measured(self):
        measured = re.search(r"^In \d+ measurements .*\.$", (ROOT / "docs" / "benchmarks.md").read_text(), re.M)
        self.assertTrue(measured, "docs/benchmarks.md has no such sentence")
        self.assertIn(measured.group(), " ".join((ROOT / "README.md").read_text().split()))

    def test_names_of_the_interface_are_there(self):
        names = {name for header in (ROOT / "include").glob("*.h") for name in NAME.findall(header.read_text())}
        names |= set(NAME.findall((ROOT / "docs" / "metrics.md").read_text()))  # which a test compares with what is exported
        names |= OTHER_NAMES
        for document in DOCUMENTS:
            unknown = set(NAME.findall(document.read_text())) - names
            self.assertFalse(unknown, document)

    def test_links_lead_somewhere(self):
        for path in PAGES:
            if not path.exists() or path.is_symlink():
                continue
            for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)", without_fences(path)):
                if target.startswith("http"):
                    continue
                page = path.parent / target if target else path
                self.assertTrue(page.exists(), f"{path.relative_to(ROOT)} links to {target}")
                if anchor and page.suffix == ".md":
                    self.assertIn(anchor, anchors(page), f"{path.relative_to(ROOT)} links to {target}#{anchor}")


if __name__ == "__main__":
    unittest.main()
