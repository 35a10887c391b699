"""The gates notice what breaks: tools/abi_baseline on copies of the headers into which a mistake was planted.

Nothing is built here but stub libraries, which have the functions of a header and nothing in them.
"""

import contextlib
import importlib.machinery
import importlib.util
import io
import os
import shutil
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import abi_interface as abi  # noqa: E402

LOADER = importlib.machinery.SourceFileLoader("abi_baseline", str(ROOT / "tools/abi_baseline"))
baseline = importlib.util.module_from_spec(importlib.util.spec_from_loader("abi_baseline", LOADER))
LOADER.exec_module(baseline)

# A struct, functions and constants of our own at the end of prefix.h, which no change of the interface moves.
STRUCT = """typedef struct prefix_planted {
  int32_t struct_size;
  int32_t first;
  int64_t second;
} prefix_planted;
#define PREFIX_PLANTED_INIT {(int32_t)sizeof(prefix_planted), 0, 0}
"""
CONSTANTS = "enum { PREFIX_PLANTED_A = 0, PREFIX_PLANTED_B = 7 };\n#define PREFIX_PLANTED_LIMIT (1 << 10)\n"
FUNCTION = "PREFIX_API prefix_status prefix_plant(prefix_planted* out, int32_t depth, prefix_error* err);\n"
CALLBACK = "typedef void (*prefix_plant_callback)(int32_t level, void* user);\n"
MARK = "/* ---- All functions"


class Gates(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.include, self.frozen = self.folder / "include", self.folder / "frozen"
        self.include.mkdir()
        self.frozen.mkdir()
        for name in abi.HEADERS:
            shutil.copyfile(ROOT / "include" / name, self.include / name)
        self.version = abi.headers_in(self.include)["prefix.h"].versions["PREFIX_ABI_VERSION"]
        self.release(self.version - 1)
        if self.version > 1:
            shutil.copytree(ROOT / "tests/abi/frozen" / str(self.version - 1), self.frozen / str(self.version - 1))
        self.plant(MARK, STRUCT + CONSTANTS + CALLBACK + FUNCTION + MARK)
        # PREFIX_FUNCTIONS is the last list of the header: the newest function ends it.
        self.newest = "  X(" + (ROOT / "include/prefix.h").read_text().rpartition("  X(")[2].partition(")")[0] + ")"
        self.plant(self.newest, self.newest + " \\\n  X(prefix_plant)")
        self.passes("write")

    def plant(self, old: str, new: str, header: str = "prefix.h") -> None:
        path = self.include / header
        text = path.read_text()
        self.assertEqual(text.count(old), 1, f"{old!r} is not there once")
        path.write_text(text.replace(old, new))

    def release(self, number: int) -> None:
        (self.frozen / "RELEASED").write_text(f"{number}\n")

    def run_it(self, action: str, *arguments) -> tuple[int, str]:
        with contextlib.redirect_stderr(io.StringIO()) as said:
            code = baseline.main([action, "--include", str(self.include), "--frozen", str(self.frozen), *map(str, arguments)])
        return code, said.getvalue()

    def passes(self, action: str, *arguments) -> None:
        self.assertEqual(self.run_it(action, *arguments), (0, ""))

    def refuses(self, action: str, *parts: str, arguments=()) -> None:
        code, said = self.run_it(action, *arguments)
        self.assertEqual(code, 1, said)
        for part in parts:
            self.assertIn(part, said)

    def breaks(self, *parts: str) -> None:
        """Refused now, and after a release `write` refuses it too, as the next interface as well."""
        self.refuses("check", *parts, f"interface {self.version} is not released")
        self.release(self.version)
        self.refuses("check", *parts, f"interface {self.version} is released")
        self.refuses("write", *parts, "it only grows")
        self.raise_version()
        self.refuses("check", "there is no baseline")
        self.refuses("write", *parts, "it only grows")
        self.assertFalse((self.frozen / str(self.version + 1)).exists())

    def grows(self, *parts: str) -> None:
        """Refused until `write`; after a release only as the next interface."""
        self.release(self.version)
        self.refuses("check", *parts, f"may grow as interface {self.version + 1}")
        self.refuses("write", *parts, "raise PREFIX_ABI_VERSION and PREFIX_TEXT_ABI_VERSION")
        self.release(self.version - 1)
        self.refuses("check", *parts, "tools/abi_baseline write")
        self.release(self.version)
        self.raise_version()
        self.refuses("check", f"no baseline for interface {self.version + 1}")
        self.passes("write")
        self.passes("check")

    def raise_version(self) -> None:
        for header, name in abi.VERSIONS.items():
            self.plant(f"#define {name} {self.version}\n", f"#define {name} {self.version + 1}\n", header)

    # -- what breaks

    def test_removed_function(self) -> None:
        self.plant(FUNCTION, "")
        self.plant(" \\\n  X(prefix_plant)", "")
        self.breaks("prefix_plant is gone", "no longer start")

    def test_removed_function_of_the_text_library(self) -> None:
        self.plant("PREFIX_API size_t prefix_recipe_count(void);\n", "", "prefix_text.h")
        self.plant("  X(prefix_recipe_count) \\\n", "", "prefix_text.h")
        self.breaks("prefix_recipe_count is gone")

    def test_type_of_a_parameter(self) -> None:
        self.plant("prefix_plant(prefix_planted* out, int32_t depth", "prefix_plant(prefix_planted* out, int64_t depth")
        self.breaks("prefix_plant was prefix_status(prefix_planted*, int32_t, prefix_error*) and is prefix_status(prefix_planted*, int64_t")

    def test_parameter_that_is_added(self) -> None:
        self.plant("int32_t depth, prefix_error* err", "int32_t depth, int32_t width, prefix_error* err")
        self.breaks("prefix_plant was", "int32_t, int32_t")

    def test_type_of_a_result(self) -> None:
        self.plant("prefix_status prefix_plant(", "int64_t prefix_plant(")
        self.breaks("prefix_plant was prefix_status(", "and is int64_t(")

    def test_callback(self) -> None:
        self.plant(CALLBACK, CALLBACK.replace("int32_t", "int64_t"))
        self.breaks("the callback prefix_plant_callback was void(int32_t, void*) and is void(int64_t, void*)")

    def test_field_in_the_middle(self) -> None:
        self.plant("  int64_t second;\n} prefix_planted", "  int64_t between;\n  int64_t second;\n} prefix_planted")
        self.breaks("prefix_planted.second was int64_t at 8, 8 bytes and is int64_t at 16", "prefix_planted.between is new and lies inside")

    def test_fields_that_change_places(self) -> None:
        self.plant("  int32_t struct_size;\n  int32_t first;\n  int64_t second;\n} prefix_planted",
                   "  int32_t struct_size;\n  int32_t second;\n  int64_t first;\n} prefix_planted")
        self.breaks("prefix_planted.first was int32_t at 4, 4 bytes and is int64_t at 8, 8 bytes")

    def test_type_of_a_field_with_the_same_size(self) -> None:
        self.plant("  int64_t second;\n} prefix_planted", "  double second;\n} prefix_planted")
        self.breaks("prefix_planted.second was int64_t at 8, 8 bytes and is double at 8, 8 bytes")

    def test_name_of_a_field(self) -> None:
        self.plant("  int64_t second;\n} prefix_planted", "  int64_t third;\n} prefix_planted")
        self.breaks("prefix_planted.second is gone", "prefix_planted.third is new and lies inside the 16 bytes")

    def test_struct_that_shrinks(self) -> None:
        self.plant("  int64_t second;\n} prefix_planted", "} prefix_planted")
        self.plant("sizeof(prefix_planted), 0, 0}", "sizeof(prefix_planted), 0}")
        self.breaks("prefix_planted had 16 bytes and has 8", "prefix_planted.second is gone")

    def test_value_of_a_constant(self) -> None:
        self.plant("PREFIX_PLANTED_B = 7", "PREFIX_PLANTED_B = 8")
        self.breaks("PREFIX_PLANTED_B was 7 and is 8: programs that are built have 7 in them")

    def test_value_of_a_macro(self) -> None:
        self.plant("(1 << 10)", "(1 << 11)")
        self.breaks("PREFIX_PLANTED_LIMIT was 1024 and is 2048")

    def test_removed_constant(self) -> None:
        self.plant(", PREFIX_PLANTED_B = 7", "")
        self.breaks("PREFIX_PLANTED_B is gone", "no longer compile")

    def test_removed_macro(self) -> None:
        self.plant("#define PREFIX_PLANTED_INIT {(int32_t)sizeof(prefix_planted), 0, 0}\n", "")
        self.breaks("the macro PREFIX_PLANTED_INIT is gone")

    def test_alias(self) -> None:
        self.plant("typedef int32_t prefix_token;", "typedef uint32_t prefix_token;")
        self.breaks("the type prefix_token was int32_t, 4 bytes and is uint32_t, 4 bytes")

    # -- what grows

    def test_new_function(self) -> None:
        self.plant(FUNCTION, FUNCTION + "PREFIX_API int32_t prefix_sprout(void);\n")
        self.plant("  X(prefix_plant)", "  X(prefix_plant) \\\n  X(prefix_sprout)")
        self.grows("function prefix_sprout is new")

    def test_new_field_at_the_end(self) -> None:
        self.plant("  int64_t second;\n} prefix_planted", "  int64_t second, third;\n} prefix_planted")
        self.grows("prefix_planted grew from 16 to 24 bytes")

    def test_new_constant(self) -> None:
        self.plant("PREFIX_PLANTED_B = 7", "PREFIX_PLANTED_B = 7, PREFIX_PLANTED_C = 8")
        self.grows("constant PREFIX_PLANTED_C is new")

    def test_what_programs_do_not_see_is_free(self) -> None:
        self.plant("/* ---- All functions", "/* Other words. */\n/* ---- All functions")
        self.plant("int32_t depth", "int32_t levels")
        self.passes("check")

    def test_older_interfaces_hold_too(self) -> None:
        """Even if the newest baseline was written by hand."""
        self.release(self.version)
        self.raise_version()
        self.passes("write")
        self.plant("PREFIX_PLANTED_B = 7", "PREFIX_PLANTED_B = 8")
        shutil.copyfile(self.include / "prefix.h", self.frozen / str(self.version + 1) / "prefix.h")
        self.refuses("check", f"interface {self.version}: PREFIX_PLANTED_B was 7 and is 8")

    # -- what is never right

    def test_padding(self) -> None:
        self.plant("  int32_t struct_size;\n  int32_t first;\n  int64_t second;\n} prefix_planted",
                   "  int32_t struct_size;\n  int64_t second;\n  int32_t first;\n} prefix_planted")
        self.refuses("check", "prefix_planted.second has unnamed bytes before it, from 4 to 8",
                     "prefix_planted ends with unnamed bytes, from 20 to 24")

    def test_struct_without_a_size(self) -> None:
        self.plant("  int32_t struct_size;\n  int32_t first;\n", "  int64_t first;\n")
        self.refuses("write", "prefix_planted does not begin with struct_size")

    def test_list_of_functions(self) -> None:
        self.plant(" \\\n  X(prefix_plant)", "")
        self.refuses("write", "prefix_plant is declared in prefix.h and not in PREFIX_FUNCTIONS")
        self.plant(self.newest, self.newest + " \\\n  X(prefix_plant) \\\n  X(prefix_ghost)")
        self.refuses("write", "prefix_ghost is in PREFIX_FUNCTIONS and not declared")

    def test_two_numbers(self) -> None:
        self.plant(f"#define PREFIX_ABI_VERSION {self.version}\n", f"#define PREFIX_ABI_VERSION {self.version + 1}\n")
        self.refuses("write", f"PREFIX_ABI_VERSION is {self.version + 1}, PREFIX_TEXT_ABI_VERSION is {self.version}")

    def test_number_that_is_left_out(self) -> None:
        self.raise_version()
        self.refuses("write", f"the headers say interface {self.version + 1}", f"comes {self.version}")

    def test_header_that_is_not_understood(self) -> None:
        self.plant("PREFIX_PLANTED_B = 7", "PREFIX_PLANTED_B")
        self.refuses("check", "PREFIX_PLANTED_B")

    # -- libraries and their headers

    def test_function_that_only_the_library_has(self) -> None:
        library = self.folder / "libstub.so"
        for option, header, function in (("--library", "prefix.h", "prefix_plant"),
                                         ("--text-library", "prefix_text.h", "prefix_recipe_count")):
            abi.stub(self.include, library, [header])
            self.passes("check", option, library)
            abi.stub(self.include, library, [header], leave_out=function)
            self.refuses("check", f"libstub.so lacks {function}", "do not start", arguments=[option, library])
        abi.stub(self.include, library)
        self.refuses("check", "libstub.so exports prefix_recipe_count, which is not in prefix.h", arguments=["--library", library])

    # -- abidiff, which reads debug information and no words

    def test_abidiff(self) -> None:
        if not shutil.which("abidiff"):
            self.skipTest("abidiff is not installed (Debian package abigail-tools)")
        text = (self.include / "prefix.h").read_text()
        old = self.frozen / str(self.version)
        second = "  int64_t second;\n} prefix_planted"
        for what, replacement in ((FUNCTION, ""), ("int32_t depth", "int64_t depth"), ("int32_t depth", "uint32_t depth"),
                                  ("prefix_status prefix_plant(", "int64_t prefix_plant("), (second, "} prefix_planted"),
                                  (second, second.replace("int64_t", "double")), (second, f"  int64_t between;\n{second}"),
                                  ("typedef int32_t prefix_token;", "typedef uint32_t prefix_token;")):
            with self.subTest(replacement):
                self.plant(what, replacement)
                self.assertIn("abidiff sees another interface", "".join(abi.abidiff(old, self.include)))
                (self.include / "prefix.h").write_text(text)
        self.assertEqual(abi.abidiff(old, self.include), [])
        self.plant(FUNCTION, f"{FUNCTION}PREFIX_API int32_t prefix_sprout(void);\n")
        self.plant(second, second.replace("second", "second, third"))
        self.assertNotEqual(abi.abidiff(old, self.include), [])
        self.assertEqual(abi.abidiff(old, self.include, may_grow=True), [])
        self.plant("int32_t depth", "int64_t depth")
        self.assertNotEqual(abi.abidiff(old, self.include, may_grow=True), [])

    def test_every_compiler_gives_the_same_facts(self) -> None:
        found = []
        for name in filter(shutil.which, ("gcc", "clang-19", "clang")):
            with unittest.mock.patch.dict(os.environ, CC=name):
                abi.facts_of.cache_clear()
                found.append(abi.facts(self.include))
                self.passes("check")
        if len(found) < 2:
            self.skipTest("there is only one compiler")
        self.assertTrue(all(facts == found[0] for facts in found))

    def test_abidiff_has_the_last_word(self) -> None:
        """What facts do not see, as a type that another header of the system has changed, is refused all the same."""
        with unittest.mock.patch.object(abi, "abidiff", lambda old, new, may_grow: [f"another {old.name}"]):
            self.refuses("check", f"another {self.version}")


if __name__ == "__main__":
    unittest.main()
