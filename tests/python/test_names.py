"""The names of the bindings: docs/names.md says what a function of the headers is called in each language, and here the
headers and the sources are held to it."""

import re
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import binding_surface
from binding_surface import LANGUAGES
from c_header import Header

PAGE = ROOT / "docs" / "names.md"
NOWHERE = "–"


def tables() -> list[list[list[str]]]:
    """The tables of the page, by rows of cells, without their heads."""
    found: list[list[list[str]]] = []
    for line in PAGE.read_text().splitlines():
        if line.startswith("|---"):
            found.append([])
        elif line.startswith("|") and found and not line.startswith("| |") and not line.startswith("| C |"):
            found[-1].append([cell.strip() for cell in line.strip("|").split("|")])
    return found


def plain(name: str) -> str:
    """A name as all languages write it: `Batch.plan_json` and `Batch.PlanJSON` are `plan`."""
    word = name.split(".")[-1].replace("_", "").lower()
    return re.sub(r"(?<=.)(json|text)$", "", word)


class Names(unittest.TestCase):
    def setUp(self) -> None:
        self.functions, self.instead, self.tasks, self.chats = tables()
        self.surfaces = {language: binding_surface.surface(language) for language in LANGUAGES}

    def test_every_function_of_the_headers_stands_there_once(self) -> None:
        there = [row[0].strip("`") for row in self.functions]
        there += [name for row in self.instead for name in re.findall(r"`(\w+)`", row[0])]
        self.assertEqual(sorted(there), sorted(binding_surface.c_functions()))

    def test_every_name_is_there(self) -> None:
        for row in self.functions + self.tasks:
            for language, cell in zip(LANGUAGES, row[1:]):
                if cell != NOWHERE:
                    self.assertIn(cell.strip("`"), list(self.surfaces[language]), f"{language}, {row[0]}")

    def test_names_are_the_same_where_nothing_else_is_said(self) -> None:
        for row in self.functions:
            cells, note = row[1:6], row[6]
            differ = NOWHERE in cells or len({plain(cell.strip("`")) for cell in cells}) > 1
            self.assertEqual(differ, bool(note), f"{row[0]}: {cells} '{note}'")

    def test_every_option_of_a_chat_template_is_in_every_language(self) -> None:
        takes = re.search(r"const OPTIONS: &\[&str\] = &\[(.*?)\];", (ROOT / "text/src/chat/request.rs").read_text(), re.S)
        self.assertIsNotNone(takes)
        self.assertEqual(sorted(row[0].strip("`") for row in self.chats), sorted(re.findall(r'"(\w+)"', takes[1])))
        described = (ROOT / "include" / "prefix_text.h").read_text()
        for option, *cells, note in self.chats:
            self.assertIn(f' *   "{option.strip("`")}": ', described)
            for language, cell in zip(LANGUAGES[1:], cells, strict=True):
                self.assertIn(cell.strip("`"), list(self.surfaces[language]), f"{language}, {option}")
            differ = len({plain(cell.strip("`")) for cell in (option, *cells)}) > 1
            self.assertEqual(differ, bool(note), f"{option}: {cells} '{note}'")

    def test_the_surfaces_are_those_of_sources(self) -> None:
        # A scan that finds nothing would find no difference.
        for language, names in self.surfaces.items():
            self.assertGreater(len(names), 90, language)
        self.assertNotIn("Job.look", self.surfaces["Java"])
        self.assertNotIn("Batch.add_to", self.surfaces["Rust"])
        self.assertNotIn("Batch.add", self.surfaces["C++"])
        self.assertNotIn("Engine.loaded", self.surfaces["Go"])
        self.assertNotIn("Task.bell", self.surfaces["Go"])
        self.assertNotIn("Job._next_event", self.surfaces["Python"])


class Fields(unittest.TestCase):
    """What the library fills comes out whole. Python gives all fields by their names."""

    STRUCTS = {
        "prefix_engine_stats": ("Stats", "EngineStats", "EngineStats"),
        "prefix_engine_info": ("EngineInfo", "EngineInfo", "EngineInfo"),
        "prefix_memory": ("Memory", "Memory", "Memory"),
        "prefix_job_totals": ("JobTotals", "Totals", "Totals"),
        "prefix_snapshot_info": ("SnapshotInfo", "SnapshotInfo", "SnapshotInfo"),
        "prefix_cache_usage": ("CacheUsage", "CacheUsage", "CacheUsage"),
        "prefix_device_details": ("DeviceInfo", "Device", "Device"),
    }

    def struct(self, language: str, name: str) -> str:
        patterns = {"Rust": rf"(?:pub struct {name}|\b{name} = prefix_\w+) \{{(.*?)^ *\}}", "Go": rf"^type {name} struct \{{(.*?)^\}}",
                    "Java": rf"^public record {name}\((.*?)\) \{{"}
        folders = {"Rust": "rust/prefix/src", "Go": "go", "Java": "java/src/main/java/io/prefix"}
        for path in sorted((ROOT / "bindings" / folders[language]).glob("*.*")):
            if found := re.search(patterns[language], path.read_text() if path.is_file() else "", re.M | re.S):
                return re.sub(r"//.*", "", found[1])
        self.fail(f"{language} has no {name}")

    def test_every_field_is_in_every_language(self) -> None:
        structs = Header((ROOT / "include" / "prefix.h").read_text()).structs
        for c, names in self.STRUCTS.items():
            for language, name in zip(("Rust", "Go", "Java"), names):
                words = {word.replace("_", "").lower() for word in re.findall(r"\w+", self.struct(language, name))}
                for field, _ in structs[c]:
                    if field not in ("struct_size", "reserved"):
                        time = re.sub(r"_us$", "", field)  # a duration of the language, whose name needs no unit
                        ways = {way.replace("_", "") for way in (field, time, "time")}
                        self.assertTrue(ways & words, f"{language}: {name} has nothing for {c}.{field}")


if __name__ == "__main__":
    unittest.main()
