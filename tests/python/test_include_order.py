"""The modules of src/ stand in one order, stated in src/README.md, and an include never points up."""

import re
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"/]+)/', re.M)


def order_of(readme: Path) -> list[str]:
    """The modules, lowest first, from the line of the README that states the order."""
    stated = re.search(r"^ {4}(\w+(?: < \w+)+)$", readme.read_text(), re.M)
    return stated[1].split(" < ") if stated else []


def upward_includes(source: Path, order: list[str]) -> list[str]:
    """Every include of a module that stands above the file's own, as "FILE includes MODULE"."""
    found = []
    for path in sorted(source.glob("*/**/*")):
        if path.suffix not in (".h", ".cc"):
            continue
        module = path.relative_to(source).parts[0]
        for included in INCLUDE.findall(path.read_text()):
            if included in order and order.index(included) > order.index(module):
                found.append(f"{path.relative_to(source)} includes {included}")
    return found


class IncludeOrderTest(unittest.TestCase):
    def setUp(self):
        self.order = order_of(ROOT / "src" / "README.md")

    def test_every_module_has_its_place(self):
        modules = {path.name for path in (ROOT / "src").iterdir() if path.is_dir()}
        self.assertEqual(sorted(self.order), sorted(modules))

    def test_no_include_points_up(self):
        self.assertEqual(upward_includes(ROOT / "src", self.order), [])

    def test_a_planted_upward_include_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            for module in self.order:
                (Path(folder) / module).mkdir()
            (Path(folder) / "ops" / "cpu").mkdir()
            (Path(folder) / "ops" / "cpu" / "planted.cc").write_text('#include <vector>\n  #include "tree/tree.h"\n#include "base/page.h"\n')
            (Path(folder) / "tree" / "fine.h").write_text('#include "ops/op.h"\n#include "tree/node.h"\n')
            self.assertEqual(upward_includes(Path(folder), self.order), ["ops/cpu/planted.cc includes tree"])


if __name__ == "__main__":
    unittest.main()
