#!/usr/bin/env python3
"""Ranks documents for a query through libprefix, with nothing but Python's standard library.

    prefix_ctypes.py MODEL QUERY [FILE] [--top N] [--json] [--library FOLDER]

Scores every line of FILE (default: standard input) and prints them from best to worst. This file is a sample of how
to load a C library at run time, not a supported binding: copy what you need.
"""

import argparse
import ctypes as c
import json
import sys
from pathlib import Path

ABI, TEXT_ABI = 1, 1
OK, TIMEOUT = 0, 701
NUL = c.c_size_t(-1)  # as a length: up to the terminating zero


class Error(c.Structure):
    """prefix_error: filled by a call that fails."""

    _fields_ = [("struct_size", c.c_int32), ("code", c.c_int32), ("domain", c.c_char * 48), ("message", c.c_char * 456)]


class Totals(c.Structure):
    """prefix_job_totals."""

    _fields_ = [("struct_size", c.c_int32), ("reserved", c.c_int32)] + [
        (name, c.c_int64)
        for name in ("requests", "failed", "given", "computed", "cached", "shared", "generated", "steps", "rows")
    ] + [("total_us", c.c_int64)]


class PrefixError(Exception):
    """A call that failed; the message is the library's own."""


def load(folder: str | None, name: str, version: str, needed: int) -> c.CDLL:
    """Opens a library and checks its interface version before anything else."""
    tried = [str(Path(folder) / name)] if folder else [name]
    for path in tried:
        try:
            library = c.CDLL(path, mode=c.RTLD_GLOBAL)
        except OSError as error:
            raise PrefixError(f"{name} cannot be loaded: {error}; say where it is with --library") from None
    try:
        found = getattr(library, version)()
    except AttributeError:
        raise PrefixError(f"{path} has no {version}: it is not {name}") from None
    if found < needed:
        raise PrefixError(f"{path} has interface version {found}; this program needs {needed}")
    return library


def texts(items: list[str]) -> tuple:
    """A list of texts as three arguments: the texts, their lengths, how many they are."""
    parts = [item.encode() for item in items]
    n = len(parts)
    return (c.c_char_p * n)(*parts), (c.c_size_t * n)(*map(len, parts)), c.c_size_t(n)


class Reranker:
    """One model with its tokenizer. Use it in a with statement."""

    def __init__(self, model: str, folder: str | None = None) -> None:
        self.core = load(folder, "libprefix.so.1", "prefix_abi_version", ABI)
        self.text = load(folder, "libprefix_text.so.1", "prefix_text_abi_version", TEXT_ABI)
        self.engine, self.tokenizer = c.c_void_p(), c.c_void_p()
        path = model.encode()
        size = c.c_size_t(len(path))
        self.call(self.text.prefix_tokenizer_open, path, size, c.byref(self.tokenizer))
        self.call(self.core.prefix_engine_create, path, size, None, c.byref(self.engine))

    def __enter__(self) -> "Reranker":
        return self

    def __exit__(self, *_: object) -> None:
        self.text.prefix_tokenizer_release(self.tokenizer)
        self.core.prefix_engine_release(self.engine)

    @staticmethod
    def call(function: "c._FuncPointer", *arguments: object) -> None:
        """Every call takes a prefix_error at the end and returns a status."""
        error = Error(c.sizeof(Error))
        if function(*arguments, c.byref(error)) != OK:
            raise PrefixError(error.message.decode())

    def rank(self, query: str, documents: list[str], show: bool = False) -> tuple[list[tuple[int, float]], Totals]:
        """Documents by number with their scores, from best to worst, and what the engine did."""
        task, n, ranked, totals = c.c_void_p(), len(documents), c.c_size_t(), Totals(c.sizeof(Totals))
        order, scores = (c.c_int64 * n)(), (c.c_float * n)()
        self.call(self.text.prefix_task_create, self.engine, self.tokenizer, b"rerank", NUL, None, c.byref(task))
        try:
            self.call(self.text.prefix_task_add_product, task, *texts([query]), *texts(documents), c.c_int64(0), None)
            self.call(self.text.prefix_task_submit, task)
            self.wait(task, show)
            self.call(self.text.prefix_task_ranking, task, c.c_size_t(0), c.c_size_t(n), order, c.c_size_t(n),
                      c.byref(ranked), scores, c.c_size_t(n))
            self.call(self.text.prefix_task_get_totals, task, c.byref(totals))
        finally:
            self.text.prefix_task_release(task)
        return list(zip(order, scores))[: ranked.value], totals

    def wait(self, task: c.c_void_p, show: bool) -> None:
        """In pieces of 0.2 seconds, so that Ctrl-C works and progress shows."""
        error = Error(c.sizeof(Error))
        while (status := self.text.prefix_task_wait(task, c.c_int64(200), c.byref(error))) == TIMEOUT:
            if show:
                done, every = c.c_size_t(), c.c_size_t()
                self.text.prefix_task_finished_count(task, c.byref(done), None)
                self.text.prefix_task_count(task, c.byref(every), None)
                print(f"\r{done.value} of {every.value}", end="", file=sys.stderr, flush=True)
        if show:
            print("\r" + " " * 20, end="\r", file=sys.stderr, flush=True)
        if status != OK:
            raise PrefixError(error.message.decode())


def main() -> int:
    parser = argparse.ArgumentParser(description="Rank the lines of a file for a query.")
    parser.add_argument("model", help="a .gguf file or a Hugging Face directory")
    parser.add_argument("query")
    parser.add_argument("file", nargs="?", type=argparse.FileType("r"), default=sys.stdin, help="default: standard input")
    parser.add_argument("--top", type=int, default=10)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--library", metavar="FOLDER", help="where libprefix.so.1 and libprefix_text.so.1 are")
    arguments = parser.parse_args()
    documents = [line.rstrip("\r\n") for line in arguments.file if line.strip()]
    try:
        with Reranker(arguments.model, arguments.library) as reranker:
            ranking, totals = reranker.rank(arguments.query, documents, show=sys.stderr.isatty())
    except PrefixError as error:
        print(f"prefix_ctypes: {error}", file=sys.stderr)
        return 1
    ranking = ranking[: arguments.top]
    counts = {name: getattr(totals, name) for name in ("given", "cached", "shared", "computed")}
    counts["seconds"] = totals.total_us * 1e-6
    if arguments.json:
        print(json.dumps({"ranking": [{"index": i, "score": score} for i, score in ranking], "tokens": counts}))
        return 0
    for place, (i, score) in enumerate(ranking, 1):
        print(f"{place:3} {score:9.4f}  {documents[i][:100]}")
    print(f"\n{'given':>10}{'cached':>10}{'shared':>10}{'computed':>10}{'seconds':>10}{'tokens/s':>12}")
    print(f"{counts['given']:>10}{counts['cached']:>10}{counts['shared']:>10}{counts['computed']:>10}"
          f"{counts['seconds']:>10.2f}{counts['given'] / max(counts['seconds'], 1e-9):>12.0f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
