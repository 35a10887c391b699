"""No module of a Rust crate uses one that uses it, neither itself nor by way of others."""

import re
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
USE = re.compile(r"^\s*(pub(?:\(\w+\))?\s+)?use\s+([^;]+);", re.M)
PATH = re.compile(r"(?<![\w:])(\w+(?:::\w+)+)")


def modules_of(source: Path) -> dict[tuple, str]:
    """The text of every module by its path, without comments and unit tests. The crate itself is the empty path."""
    found = {}
    for path in sorted(source.rglob("*.rs")):
        name = path.relative_to(source).with_suffix("").parts
        text = re.sub(r"//.*", "", path.read_text())
        text = re.split(r"^#\[cfg\(.*\btest\b.*\)\]\nmod tests \{", text, flags=re.M)[0]
        found[name[:-1] if name[-1] in ("mod", "lib") else name] = text
    return found


def paths_in(tree: str) -> list[tuple[tuple, str]]:
    """What `use TREE;` names, each as its path and the name that it has from then on."""
    tree = tree.strip()
    head, brace, inside = tree.partition("{")
    if not brace:
        path, _, name = tree.partition(" as ")
        path = tuple(path.strip().split("::"))
        return [(path, name.strip() or path[-1])]
    prefix = tuple(part for part in head.split("::") if part.strip())
    parts, depth = [""], 0
    for c in inside.rpartition("}")[0]:
        depth += (c == "{") - (c == "}")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [(prefix + path, name) for part in parts if part.strip() for path, name in paths_in(part)]


class Crate:
    def __init__(self, source: Path):
        self.modules = modules_of(source)
        # A module that hands on what is in another one does not use it.
        self.handed_on = {module: {} for module in self.modules}
        self.named = {module: [] for module in self.modules}
        for module, text in self.modules.items():
            for public, tree in USE.findall(text):
                for path, name in paths_in(tree):
                    if public and name != "*":
                        self.handed_on[module][name] = path
                    elif not public:
                        self.named[module].append(path)
            text = USE.sub("", text)
            self.named[module] += [tuple(path.split("::")) for path in PATH.findall(text)]

    def begin_of(self, module: tuple, path: tuple):
        """The module that a path begins at, and what is left of the path; None for one of another crate."""
        if path[0] == "crate":
            return (), path[1:]
        if path[0] == "self":
            return module, path[1:]
        if path[0] == "super":
            while path and path[0] == "super":
                module, path = module[:-1], path[1:]
            return module, path
        is_here = module + path[:1] in self.modules
        return (module, path) if is_here else None

    def place_of(self, module: tuple, path: tuple):
        """The module in which the thing is that a path leads to; None where that is another crate."""
        begin = self.begin_of(module, path)
        if begin is None:
            return None
        at, rest = begin
        while rest:
            if at + rest[:1] in self.modules:
                at, rest = at + rest[:1], rest[1:]
            elif rest[0] in self.handed_on[at]:
                return self.place_of(at, self.handed_on[at][rest[0]] + rest[1:])
            else:
                break
        return at

    def uses(self) -> dict[tuple, set[tuple]]:
        found = {}
        for module, paths in self.named.items():
            places = {self.place_of(module, path) for path in paths}
            found[module] = {place for place in places if place is not None and place != module}
        return found


def circles(uses: dict) -> list[list]:
    """The largest groups of which each uses every other, itself or by way of others."""
    reached = {}
    for begin in uses:
        seen, left = set(), list(uses[begin])
        while left:
            at = left.pop()
            if at not in seen:
                seen.add(at)
                left += uses.get(at, ())
        reached[begin] = seen
    groups = {frozenset(b for b in reached[a] if a in reached.get(b, ())) for a in uses}
    return sorted(sorted(group) for group in groups if group)


def circles_of(source: Path) -> list[str]:
    """Circles of single modules, and those of the rooms of one folder, each taken as one."""
    uses = Crate(source).uses()
    found = circles(uses)
    for folder in sorted({module[:n] for module in uses for n in range(len(module))}):
        deep = len(folder) + 1
        rooms = {module[:deep]: set() for module in uses if len(module) >= deep and module[:deep - 1] == folder}
        for module, used in uses.items():
            if module[:deep] in rooms:
                inside = {one[:deep] for one in used}
                rooms[module[:deep]] |= {one for one in inside if one in rooms and one != module[:deep]}
        found += [group for group in circles(rooms) if group not in found]
    return [", ".join("::".join(module) or "crate" for module in group) for group in found]


def planted(files: dict[str, str]) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = Path(folder) / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        return circles_of(Path(folder))


class ModuleOrderTest(unittest.TestCase):
    def test_no_module_uses_one_that_uses_it(self):
        for crate in ["text", "samples/server", "bindings/rust/prefix"]:
            with self.subTest(crate):
                self.assertEqual(circles_of(ROOT / crate / "src"), [])

    def test_planted_circles_are_found(self):
        for files, circle in [
            ({"a.rs": "use crate::b::{self, X as Y};", "b.rs": "use super::c;", "c.rs": "fn f() { super::a::g() }"}, "a, b, c"),
            ({"a/mod.rs": "mod b;\nfn f() {\n    b::g()\n}", "a/b.rs": "use super::f;"}, "a, a::b"),
            ({"a/mod.rs": "pub use b::X;", "a/b.rs": "use crate::c::D;", "c.rs": "use crate::{a::{X}, d};", "d.rs": ""}, "a::b, c"),
            # Each module of two folders stands well alone, and the folders do not.
            ({"a/mod.rs": "", "a/b.rs": "use crate::c::d;", "a/e.rs": "", "c/mod.rs": "", "c/d.rs": "", "c/f.rs": "use crate::a::e;"}, "a, c"),
        ]:
            with self.subTest(circle):
                self.assertIn(circle, planted({"lib.rs": "", **files}))

    def test_what_is_handed_on_or_of_a_test_or_of_another_crate_is_no_use(self):
        self.assertEqual(planted({
            "lib.rs": "mod a;\npub mod c;",
            "a/mod.rs": "mod b;\nmod e;\npub use b::{X, Y};\npub use e::*;",
            "a/b.rs": "use super::e::Z;\nuse std::fmt;\n// use crate::c;\n#[cfg(all(test, unix))]\nmod tests {\n    use super::super::*;\n    use crate::c;\n}\n",
            "a/e.rs": "use serde::c;",
            "c.rs": "use crate::a::{X, Y as Z};\nfn f() -> fmt::Result {}",
        }), [])


if __name__ == "__main__":
    unittest.main()
