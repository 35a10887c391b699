"""What prefix.h and prefix_text.h promise to a program that is already built, as facts that can be compared.

    header --c_header.py--> names --a C program that prints sizes, offsets and values--> facts
    header --c_header.py--> stub library, every function with an empty body ------------> abidiff

    facts   {"function prefix_run": "prefix_status(prefix_engine*, const prefix_batch*, prefix_job**, prefix_error*)",
             "constant PREFIX_ERR_IO": "301",
             "type prefix_status": "int32_t, 4 bytes",
             "struct prefix_error": "512",                           bytes
             "field prefix_error.code": "int32_t at 4, 4 bytes", ...}

Facts compare the words of the declarations and what a compiler makes of them; abidiff knows nothing of the words and
reads the debug information of two stubs. Neither asks the libraries, whose code, compiler and flags do not matter.
"""

import functools
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from c_header import Header

HEADERS = ["prefix.h", "prefix_text.h"]
VERSIONS = {"prefix.h": "PREFIX_ABI_VERSION", "prefix_text.h": "PREFIX_TEXT_ABI_VERSION"}
LISTS = {"prefix.h": "PREFIX_FUNCTIONS", "prefix_text.h": "PREFIX_TEXT_FUNCTIONS"}
# Makes abidiff silent about structs that grow at their end; about some other changes of them as well, which facts see.
SUPPRESSIONS = "[suppress_type]\ntype_kind = struct\nhas_data_member_inserted_at = end\n"


@dataclass
class Changes:
    breaks: list[str] = field(default_factory=list)  # sentences
    growth: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.breaks or self.growth)


def headers_in(folder: Path) -> dict[str, Header]:
    return {name: Header((folder / name).read_text()) for name in HEADERS}


def compiler() -> list[str]:
    named = os.environ.get("CC", "").split()
    return named or [next(filter(None, map(shutil.which, ["cc", "gcc", "clang", "gcc-12", "clang-19"])), "cc")]


def signature(result: str, parameters: list[tuple[str, str]]) -> str:
    return f"{result}({', '.join(kind for kind, _ in parameters) or 'void'})"


def is_number(header: Header, name: str) -> bool:
    """Whether a macro without parameters stands for a number: no version, guard, initialiser, attribute or text."""
    value = header.macros[name]
    return name not in header.versions and bool(re.fullmatch(r"[(\w][\w()\s+*<|~-]*", value)) and "__" not in value


def facts(folder: Path) -> dict[str, str]:
    """The facts of the headers in a folder."""
    return facts_of(*((folder / name).read_text() for name in HEADERS))


@functools.lru_cache  # a frozen header is often the very text of the one in include/
def facts_of(*texts: str) -> dict[str, str]:
    found: dict[str, str] = {}
    lines = ["#include <prefix_text.h>", "#include <stddef.h>", "#include <stdio.h>", "int main(void) {"]

    def ask(key: str, text: str, *values: str) -> None:
        """The program prints the key and the text, in which each %lld is one of the values."""
        lines.append(f'  printf("{key}\\t{text}\\n"{"".join(f", (long long)({value})" for value in values)});')

    for header in map(Header, texts):
        for result, name, parameters in header.functions:
            found[f"function {name}"] = signature(result, parameters)
        for name, callback in header.callbacks.items():
            found[f"callback {name}"] = signature(*callback)
        found.update((f"handle {name}", "opaque") for name in header.handles)
        for name in [name for name, _ in header.constants] + [name for name in header.macros if is_number(header, name)]:
            ask(f"constant {name}", "%lld", name)
        for name in header.macros:
            if name.endswith("_INIT"):
                found[f"macro {name}"] = "an initialiser"
        for name, kind in header.aliases.items():
            ask(f"type {name}", f"{kind}, %lld bytes", f"sizeof({name})")
        for name, fields in header.structs.items():
            ask(f"struct {name}", "%lld", f"sizeof({name})")
            for member, kind in fields:
                ask(f"field {name}.{member}", f"{kind} at %lld, %lld bytes", f"offsetof({name}, {member})",
                    f"sizeof((({name}*)0)->{member})")
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        source, program = scratch / "facts.c", scratch / "facts"
        source.write_text("\n".join([*lines, "  return 0;", "}", ""]))
        for header, text in zip(HEADERS, texts):
            (scratch / header).write_text(text)
        compile_c(scratch, source, program)
        printed = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    found.update(line.split("\t") for line in printed.splitlines())
    return found


def compile_c(include: Path, source: Path, output: Path, *flags: str) -> None:
    done = subprocess.run([*compiler(), "-std=c11", "-w", *flags, f"-I{include}", source, "-o", output],
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"the headers do not compile:\n{done.stderr}")


def stub(folder: Path, output: Path, headers: list[str] = HEADERS, leave_out: str = "") -> None:
    """A shared library, with debug information, that has every function of these headers and nothing in them."""
    lines = ["#include <prefix_text.h>"]
    for header in map(headers_in(folder).get, headers):
        for result, name, parameters in header.functions:
            given = ", ".join(" ".join(parameter) for parameter in parameters) or "void"
            if name != leave_out:
                lines.append(f"{result} {name}({given}) {{ {'' if result == 'void' else 'return 0;'} }}")
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / "stub.c"
        source.write_text("\n".join([*lines, ""]))
        compile_c(folder, source, output, "-g", "-O0", "-shared", "-fPIC", "-fvisibility=hidden", "-nostdlib")


def offset_of(fact: str) -> int:
    return int(re.search(r" at (\d+),", fact)[1])


def changes(old: dict[str, str], new: dict[str, str]) -> Changes:
    """What happened to the interface, one sentence for each thing."""
    found = Changes()
    for key in old:
        kind, name = key.split(" ", 1)
        was, now = old[key], new.get(key)
        if was == now:
            continue
        if kind == "function":
            found.breaks.append(f"{name} is gone: programs that call it no longer start, it is an undefined symbol" if now is None else
                                f"{name} was {was} and is {now}: programs that are built pass and expect the former")
        elif kind == "constant":
            found.breaks.append(f"{name} is gone: programs that name it no longer compile, and those that are built go on using {was}"
                                if now is None else f"{name} was {was} and is {now}: programs that are built have {was} in them")
        elif kind == "struct" and now is not None:
            size = int(now)
            if size < int(was):
                found.breaks.append(f"{name} had {was} bytes and has {size}: programs that are built read beyond what is filled, "
                                    f"and newer ones are refused by older libraries")
            elif f"field {name}.struct_size" in old:
                found.growth.append(f"{name} grew from {was} to {size} bytes")
            else:
                found.breaks.append(f"{name} grew from {was} to {size} bytes and has no struct_size: programs that are built have "
                                    f"no room for the rest")
        elif kind == "field":
            struct = name.split(".")[0]
            if f"struct {struct}" in new:
                found.breaks.append(f"{name} is gone: programs that are built read at its place ({was}) what is something else now"
                                    if now is None else f"{name} was {was} and is {now}: programs that are built use it as it was")
        else:
            found.breaks.append(f"the {kind} {name} is gone: programs that use it no longer compile" if now is None else
                                f"the {kind} {name} was {was} and is {now}: programs that are built use it as it was")
    for key in new:
        if key in old:
            continue
        kind, name = key.split(" ", 1)
        size = old.get(f"struct {name.split('.')[0]}")
        if kind == "field" and size is not None and offset_of(new[key]) < int(size):
            found.breaks.append(f"{name} is new and lies inside the {size} bytes that the struct had: struct_size does not tell a "
                                f"library that fills it from one that does not; new fields come at the end")
        elif kind != "field" or size is not None:
            found.growth.append(f"{kind} {name} is new")
    return found


def sound(folder: Path) -> list[str]:
    """What is wrong with the headers whatever was before: an X list that is not the functions, numbers that differ, padding."""
    wrong = []
    headers = headers_in(folder)
    numbers = {VERSIONS[name]: header.versions[VERSIONS[name]] for name, header in headers.items()}
    if len(set(numbers.values())) > 1:
        wrong.append("the headers are one interface with one number: " + ", ".join(f"{k} is {v}" for k, v in numbers.items()))
    for name, header in headers.items():
        declared, listed = [function[1] for function in header.functions], header.lists[LISTS[name]]
        wrong += [f"{each} is declared in {name} and not in {LISTS[name]}: programs that load the library by hand do not find it"
                  for each in declared if each not in listed]
        wrong += [f"{each} is in {LISTS[name]} and not declared in {name}" for each in listed if each not in declared]
        if sorted(declared) == sorted(listed) and declared != listed:
            wrong.append(f"{LISTS[name]} is in another order than the declarations of {name}")
    known = facts(folder)
    for key, size in known.items():
        if not key.startswith("struct "):
            continue
        struct, end = key.split(" ")[1], 0
        members = {name: fact for name, fact in known.items() if name.startswith(f"field {struct}.")}
        for name, fact in members.items():
            if offset_of(fact) != end:
                wrong.append(f"{name.split(' ')[1]} has unnamed bytes before it, from {end} to {offset_of(fact)}: give them a field 'reserved'")
            end = offset_of(fact) + int(re.search(r"(\d+) bytes", fact)[1])
        if end != int(size):
            wrong.append(f"{struct} ends with unnamed bytes, from {end} to {size}: give them a field 'reserved'")
        if not next(iter(members), "").endswith(".struct_size"):
            wrong.append(f"{struct} does not begin with struct_size: it could never grow")
    return wrong


def exports(library: Path, include: Path, header: str) -> list[str]:
    """Where a library and its header differ."""
    shown = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    symbols = {line.split()[-1].split("@")[0] for line in shown.splitlines() if line.split()[-2] != "A"}
    declared = {function[1] for function in headers_in(include)[header].functions}
    return ([f"{library.name} exports {name}, which is not in {header}: programs would come to depend on it"
             for name in sorted(symbols - declared)] +
            [f"{library.name} lacks {name}, which {header} declares: programs that call it do not start"
             for name in sorted(declared - symbols)])


def abidiff(old: Path, new: Path, may_grow: bool = False) -> "list[str] | None":
    """Where abidiff sees differences between the headers in two folders; None where it is not installed."""
    if not shutil.which("abidiff"):
        return None
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        (scratch / "growth.suppr").write_text(SUPPRESSIONS)
        for side, folder in (("old", old), ("new", new)):
            (scratch / side).mkdir()
            stub(folder, scratch / side / "stub.so")
        growth = ["--no-added-syms", "--suppressions", scratch / "growth.suppr"] if may_grow else []
        done = subprocess.run(["abidiff", *growth, "--no-show-locs", scratch / "old/stub.so", scratch / "new/stub.so"],
                              capture_output=True, text=True)
    if done.returncode == 0:
        return []
    return [f"abidiff sees another interface:\n{(done.stdout + done.stderr).rstrip()}"]
