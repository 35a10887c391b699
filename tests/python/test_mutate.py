"""tools/mutate: mutants that do not apply are told, lines are put back, and only tests that fail or hang kill."""

import importlib.machinery
import importlib.util
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def load_runner():
    loader = importlib.machinery.SourceFileLoader("mutate", str(ROOT / "tools" / "mutate"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("mutate", loader))
    sys.modules["mutate"] = module
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


MUTATE = load_runner()
SOURCE = "def add(a, b):\n    return a + b\n"
TEST = "import sum\nassert sum.add(1, 2) == 3\n"
SLOW = "import sum, time\nwhile sum.add(1, 2) != 3:\n    time.sleep(0.01)\n"


def mutant(old: str = "a + b", new: str = "a - b", tests: tuple[str, ...] = ("check test.py",)):
    return MUTATE.Mutant("sums", "one", "sum.py", old, new, tests)


class ListsTest(unittest.TestCase):
    def test_the_text_must_be_there_once(self) -> None:
        self.assertEqual(MUTATE.changed(mutant(), SOURCE), SOURCE.replace("+", "-"))
        for old in ("a * b", "a"):
            with self.assertRaisesRegex(MUTATE.Invalid, "sums/one: sum.py has [03] places"):
                MUTATE.changed(mutant(old), SOURCE)
        with self.assertRaisesRegex(MUTATE.Invalid, "changes nothing"):
            MUTATE.changed(mutant("a + b", "a + b"), SOURCE)

    def test_entries_are_whole_and_have_names_of_their_own(self) -> None:
        entry = '[[mutant]]\nname = "one"\nfile = "sum.py"\nold = "a"\nnew = "b"\ntests = ["t"]\n'
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "sums.toml"
            path.write_text(entry)
            self.assertEqual(MUTATE.load_mutants(path), [MUTATE.Mutant("sums", "one", "sum.py", "a", "b", ("t",))])
            path.write_text(entry + entry)
            with self.assertRaisesRegex(MUTATE.Invalid, "2 mutants named one"):
                MUTATE.load_mutants(path)
            path.write_text(entry.replace("tests", "test"))
            with self.assertRaisesRegex(MUTATE.Invalid, "lacks tests"):
                MUTATE.load_mutants(path)

    def test_every_list_is_read_and_every_test_known(self) -> None:
        runner = MUTATE.Runner(None, MUTATE.load_commands(MUTATE.LISTS / "commands.toml"), 1)
        lists = [path for path in MUTATE.LISTS.glob("*.toml") if path.name != "commands.toml"]
        mutants = [m for path in lists for m in MUTATE.load_mutants(path)]
        self.assertGreaterEqual(len(mutants), 129)
        self.assertEqual(MUTATE.read_lists()[1], [])
        for one in mutants:
            self.assertTrue(one.tests, one.key)
            for test in one.tests:
                runner.command_of(test)

    def test_a_python_test_that_is_not_there_is_told(self) -> None:
        commands = {"check": MUTATE.Command("check", run=("python3", "test_sum.py")), "go": MUTATE.Command("go", run=("go",))}
        known = {"Sums", "Sums.test_add"}
        for test in ("check", "check Sums", "check Sums.test_add", "check test_sum.Sums", "go Other", "sum_test Other"):
            self.assertIsNone(MUTATE.unknown_python_test(mutant(tests=(test,)), commands, known), test)
        for test in ("check Other.test_add", "check Sums.test_more", "check test_sum.Other"):
            self.assertEqual(MUTATE.unknown_python_test(mutant(tests=("check", test)), commands, known), test)

    def test_python_tests_are_found_by_their_class(self) -> None:
        found = MUTATE.python_tests(ROOT)
        self.assertLessEqual({"ListsTest", "ListsTest.test_python_tests_are_found_by_their_class"}, found)
        self.assertNotIn("ListsTest.test_the_copy_follows_the_tree", found)

    def test_the_table_wants_every_area(self) -> None:
        two = [mutant(), MUTATE.Mutant("other", "x", "f", "a", "b", ("t",))]
        text, good = MUTATE.table({"sums/one": {"killed_by": "t"}}, two)
        self.assertFalse(good)
        self.assertRegex(text, r"other +0 +1 +0.0%")
        self.assertRegex(text, r"all +1 +2 +50.0%")
        self.assertTrue(MUTATE.table({"sums/one": {"killed_by": "t"}, "other/x": {"killed_by": "t"}}, two)[1])

    def test_a_change_of_the_file_or_the_mutant_counts(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "sum.py"
            file.write_text(SOURCE)
            before = MUTATE.state_of(mutant(), Path(folder))
            self.assertEqual(before, MUTATE.state_of(mutant(), Path(folder)))
            self.assertNotEqual(before, MUTATE.state_of(mutant(new="b - a"), Path(folder)))
            file.write_text(SOURCE + "\n")
            self.assertNotEqual(before, MUTATE.state_of(mutant(), Path(folder)))


class RunnerTest(unittest.TestCase):
    """On a tree of two files."""

    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        root = Path(scratch.name) / "root"
        root.mkdir()
        for name, text in {"sum.py": SOURCE, "test.py": TEST, "slow.py": SLOW, "bad.py": "assert False\n"}.items():
            (root / name).write_text(text)
        subprocess.run(["git", "init", "--quiet"], cwd=root, check=True)
        self.root = root
        self.home = Path(scratch.name) / "home"
        self.home.mkdir()
        self.tree = MUTATE.Tree(root, self.home)
        self.tree.copy()
        commands = {
            "check": MUTATE.Command("check", run=(sys.executable, "-B")),
            "broken": MUTATE.Command("broken", build=("false",), run=("true",)),
        }
        self.runner = MUTATE.Runner(self.tree, commands, 1)

    def attempt(self, one) -> dict:
        self.runner.check_unchanged(list(one.tests))
        result = self.runner.try_mutant(one)
        self.assertEqual((self.tree.path / one.file).read_text(), SOURCE, "the line is put back")
        return result

    def test_a_test_that_fails_kills(self) -> None:
        self.assertEqual(self.attempt(mutant())["killed_by"], "check test.py")

    def test_what_no_test_notices_survives(self) -> None:
        self.assertIsNone(self.attempt(mutant(new="b + a"))["killed_by"])

    def test_a_test_that_hangs_kills(self) -> None:
        MUTATE.LEAST_SECONDS, before = 1, MUTATE.LEAST_SECONDS
        self.addCleanup(setattr, MUTATE, "LEAST_SECONDS", before)
        result = self.attempt(mutant(tests=("check slow.py",)))
        self.assertEqual((result["killed_by"], result["how"]), ("check slow.py", "hung"))

    def test_a_test_that_fails_by_itself_proves_nothing(self) -> None:
        with self.assertRaisesRegex(MUTATE.Invalid, "failed without any mutant"):
            self.runner.check_unchanged(["check bad.py"])

    def test_what_does_not_build_is_not_killed(self) -> None:
        with self.assertRaisesRegex(MUTATE.Invalid, "does not build"):
            self.runner.check_unchanged(["broken"])

    def test_an_unknown_test_is_told(self) -> None:
        with self.assertRaisesRegex(MUTATE.Invalid, "neither a GoogleTest program"):
            self.runner.command_of("nothing")

    def test_the_copy_follows_the_tree(self) -> None:
        old = (self.tree.path / "test.py").stat().st_mtime_ns
        (self.root / "sum.py").write_text("changed")
        (self.root / "bad.py").unlink()
        (self.root / "new.py").write_text("new")
        self.tree.copy()
        self.assertEqual((self.tree.path / "sum.py").read_text(), "changed")
        self.assertFalse((self.tree.path / "bad.py").exists())
        self.assertTrue((self.tree.path / "new.py").exists())
        self.assertEqual((self.tree.path / "test.py").stat().st_mtime_ns, old, "the same files are left alone")


if __name__ == "__main__":
    unittest.main()
