"""The public names of each binding, read from its sources: `surface(language)` maps a name as docs/names.md writes it
("Engine.run", "order") to the lines of its body.

The sources are formatted by tools (clang-format, rustfmt, gofmt, Spotless' palantir style, and Python's own grammar), so that a
line says what begins in it by its indentation.
"""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LANGUAGES = ("C++", "Rust", "Go", "Java", "Python")
NO_NAMES = {"if", "for", "while", "switch", "return", "sizeof", "static_assert", "requires", "call", "read", "swap"}


def c_functions() -> list[str]:
    """Every function of the two headers."""
    return [name for header in ("prefix.h", "prefix_text.h")
            for name in re.findall(r"^  X\((\w+)\)", (ROOT / "include" / header).read_text(), re.M)]


def _scan(text: str, begin: dict[str, str], found: dict[str, str], owner: str = "") -> None:
    """begin: patterns of a type, of the end of a type, of a member and of a free function; the name is their only group."""
    current = None
    for line in text.splitlines():
        if kind := re.match(begin["type"], line):
            owner, current = kind[1], None
        elif re.match(begin["end"], line):
            owner, current = "", None
        if member := re.match(begin["member"], line):
            name = member[1]
            if owner and name not in NO_NAMES:
                current = owner if name == owner else f"{owner}.{name}"
                found.setdefault(current, "")
        elif free := re.match(begin["free"], line):
            if free[1] not in NO_NAMES:
                current = free[1]
                found.setdefault(current, "")
        elif "private" in begin and re.match(begin["private"], line):
            current = None
        if current:
            found[current] += line + "\n"


def _cpp() -> dict[str, str]:
    found: dict[str, str] = {}
    for path in sorted((ROOT / "include").glob("*.hpp")):
        _scan(path.read_text(), {"type": r"^(?:class|struct) (\w+)(?! *;)", "end": r"^\};| private:",
                                 "member": r"^  (?:\[\[nodiscard\]\] )?(?:[\w:<>,&*]+ +)*?[&*]?(\w+)\(",
                                 "free": r"^inline .*?\b(\w+)\("}, found)
    return found


def _rust() -> dict[str, str]:
    found: dict[str, str] = {}
    for path in sorted((ROOT / "bindings/rust/prefix/src").rglob("*.rs")):
        _scan(path.read_text(), {"type": r"^ *impl(?:<[^>]*>)? (?:\w+ for )?(\w+)", "end": r"^\}",
                                 "member": r"^ {4,12}(?:pub (?:async )?fn) (\w+)", "free": r"^pub fn (\w+)",
                                 "private": r"^ *(?:pub\(\w+\) )?fn "}, found)
    return found


def _go() -> dict[str, str]:
    found: dict[str, str] = {}
    for path in sorted((ROOT / "bindings/go").glob("*.go")):
        if not path.name.endswith("_test.go"):
            found.update(dict.fromkeys(re.findall(r"^type ([A-Z]\w*) ", path.read_text(), re.M), ""))
            for owner, fields in re.findall(r"^type ([A-Z]\w*) struct \{\n(.*?)^\}", path.read_text(), re.M | re.S):
                found.update(dict.fromkeys((f"{owner}.{name}" for name in re.findall(r"^\t([A-Z]\w*) ", fields, re.M)), ""))
            text = re.sub(r"^func \(\w+ \*?(\w+)(?:\[\w+\])?\) ([A-Z]\w*)\(", r"method \1.\2(", path.read_text(), flags=re.M)
            _scan(text, {"type": r"^(?!)()", "end": r"^(?!)", "member": r"^(?!)()", "free": r"^(?:method|func) ([A-Z][\w.]*)[\[(]",
                         "private": r"^func "}, found)
    return found


def _java() -> dict[str, str]:
    found: dict[str, str] = {}
    for path in sorted((ROOT / "bindings/java/src/main/java/io/prefix").glob("*.java")):
        _scan(path.read_text(), {"type": r"^(?!)()", "end": r"^(?!)", "free": r"^(?!)()",
                                 "member": r"^    public (?:(?:static|synchronized|final|abstract|<\w+>) )*(?:[\w<>\[\], .?]+ )?(\w+)\(",
                                 "private": r"^    (?:private|static|synchronized|void|[a-z]+) .*\("}, found, path.stem)
    return found


def _python() -> dict[str, str]:
    found: dict[str, str] = {}
    for path in sorted((ROOT / "bindings/python/libprefix").glob("*.py")):
        if path.name.startswith("_") or path.name == "options.py":
            continue
        source = path.read_text()
        for node in ast.parse(source).body:
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, "")
                for member in node.body:
                    if isinstance(member, ast.AnnAssign) and isinstance(member.target, ast.Name):
                        found.setdefault(f"{node.name}.{member.target.id}", "")
                    if isinstance(member, (ast.FunctionDef, ast.AsyncFunctionDef)):
                        name = node.name if member.name == "__init__" else f"{node.name}.{member.name}"
                        if not member.name.startswith("_") or member.name == "__init__":
                            found[name] = found.get(name, "") + (ast.get_source_segment(source, member) or "")
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not node.name.startswith("_"):
                found[node.name] = ast.get_source_segment(source, node) or ""
    return found


def surface(language: str) -> dict[str, str]:
    return {"C++": _cpp, "Rust": _rust, "Go": _go, "Java": _java, "Python": _python}[language]()
