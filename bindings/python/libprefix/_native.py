"""The two shared libraries, found and opened once, and what every call needs."""

from __future__ import annotations

import functools
import json
import math
import operator
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterable, Mapping, Sequence, Union

import numpy
from cffi import FFI

from . import _declarations
from .errors import PrefixError, error_of

if TYPE_CHECKING:
    from typing_extensions import Self

Tokens = Union[Sequence[int], numpy.ndarray]
ffi = FFI()
ffi.cdef(_declarations.CORE)
ffi.cdef(_declarations.TEXT)
NUL = (1 << 64) - 1  # the length of a text that ends with a zero


def _open(name: str) -> Any:
    """$LIBPREFIX_DIR, then what the wheel brought, then what the system finds."""
    places = [Path(__file__).resolve().parent / "_lib"]
    if os.environ.get("LIBPREFIX_DIR"):
        places.insert(0, Path(os.environ["LIBPREFIX_DIR"]))
    tried = []
    for path in [*(str(place / name) for place in places), name]:
        try:
            return ffi.dlopen(path, ffi.RTLD_NOW | ffi.RTLD_GLOBAL)
        except OSError as e:
            tried.append(str(e))
    raise ImportError(f"{name} was not found: " + "; ".join(tried))


def _check(name: str, found: int, needed: int) -> None:
    if found < needed:
        raise ImportError(f"{name} has interface {found}; this package needs {needed}")


core = _open("libprefix.so.1")
_check("libprefix.so.1", core.prefix_abi_version(), _declarations.ABI_VERSION)
text = _open("libprefix_text.so.1")
_check("libprefix_text.so.1", text.prefix_text_abi_version(), _declarations.TEXT_ABI_VERSION)


def failure(error: Any) -> PrefixError:
    """The exception of a prefix_error that was written."""
    name = ffi.string(core.prefix_status_name(error.code)).decode()
    return error_of(error.code, name, ffi.string(error.message).decode("utf-8", "replace"))


def new_error() -> Any:
    error = ffi.new("prefix_error*")
    error.struct_size = ffi.sizeof("prefix_error")
    return error


def call(function: Any, *arguments: Any, allowed: Iterable[int] = ()) -> int:
    """Calls a function that takes a prefix_error* last; raises what it failed with, but for `allowed`."""
    error = new_error()
    try:
        status = function(*arguments, error)
    except OverflowError as of_cffi:
        raise _beyond(function, arguments) or of_cffi from None
    if status != core.PREFIX_OK and status not in allowed:
        raise failure(error)
    return status


def _beyond(function: Any, arguments: Sequence[Any]) -> PrefixError | None:
    """The error of a number that its parameter in C cannot be: cffi does not name one below 0."""
    kinds = ffi.typeof(function).args if isinstance(function, ffi.CData) else ()
    for kind, number in zip(kinds, arguments):
        if kind.kind == "primitive" and kind.cname != "double" and isinstance(number, (int, numpy.integer)):
            bits, signed = 8 * ffi.sizeof(kind), int(ffi.cast(kind, -1)) < 0
            low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
            if not low <= number <= high:
                limit = f"at least {low}" if number < low else f"at most {high}"
                return error_of(core.PREFIX_ERR_OUT_OF_RANGE, "PREFIX_ERR_OUT_OF_RANGE", f"a number is {number}; {limit}")
    return None


def make(function: Any, release: Any, *arguments: Any) -> Any:
    """The handle that a function gives, released with the last reference to it."""
    out = ffi.new("void**")
    call(function, *arguments, ffi.cast(ffi.typeof(function).args[len(arguments)], out))
    return ffi.gc(ffi.cast(ffi.typeof(release).args[0], out[0]), release)


def filled(kind: str, function: Any, *arguments: Any) -> dict[str, Any]:
    """A struct that the library fills, as a dictionary of its numbers."""
    struct = ffi.new(kind + "*")
    struct.struct_size = ffi.sizeof(kind)
    call(function, *arguments, struct)
    return {name: getattr(struct, name) for name, _ in ffi.typeof(kind).fields
            if name not in ("struct_size", "reserved")}


def text_of(function: Any, *arguments: Any) -> str:
    """A text that goes to the caller's buffer."""
    capacity, needed = 256, ffi.new("size_t*")
    while True:
        buffer = ffi.new("char[]", capacity)
        status = call(function, *arguments, buffer, capacity, needed, allowed=[core.PREFIX_ERR_BUFFER_TOO_SMALL])
        if status == core.PREFIX_OK:
            return ffi.buffer(buffer, needed[0])[:].decode("utf-8", "replace")
        capacity = needed[0] + 1


def numbers_of(element: str, function: Any, *arguments: Any, capacity: int = 64) -> numpy.ndarray:
    """Numbers that go to the caller's buffer, as a NumPy array."""
    kinds = {"float": numpy.float32, "int32_t": numpy.int32, "prefix_token": numpy.int32, "int64_t": numpy.int64}
    needed = ffi.new("size_t*")
    while True:
        out = numpy.empty(max(capacity, 1), dtype=kinds[element])
        status = call(function, *arguments, ffi.from_buffer(element + "[]", out), capacity, needed,
                      allowed=[core.PREFIX_ERR_BUFFER_TOO_SMALL])
        if status == core.PREFIX_OK:
            return out[: needed[0]]
        capacity = needed[0]


def ids_of(tokens: Any) -> numpy.ndarray:
    """Token ids as an array. NumPy alone would cut 1.5 to 1, and make some number of NaN."""
    array = numpy.asarray(tokens)
    if array.ndim == 0:
        raise TypeError(f"token ids are a {type(tokens).__name__}, not a list")
    if array.ndim != 1:
        raise ValueError(f"token ids have {array.ndim} dimensions, not one")
    if array.size and array.dtype.kind not in "iu":
        for i, token in enumerate(tokens.tolist() if isinstance(tokens, numpy.ndarray) else tokens):
            if not isinstance(token, (int, numpy.integer)) or isinstance(token, bool):
                raise TypeError(f"token {i} is {token!r}, not a whole number")
            if not -(1 << 31) <= token < 1 << 31:
                raise ValueError(f"token {i} is {token}, beyond the 32 bits of token ids")
    narrow = array.astype(numpy.int32, order="C", copy=False)
    if narrow.dtype != array.dtype and (narrow != array).any():
        wrong = int((narrow != array).argmax())
        raise ValueError(f"token {wrong} is {array[wrong]}, beyond the 32 bits of token ids")
    return numpy.ascontiguousarray(narrow)


def tokens_in(tokens: Any) -> Any:
    """Token ids as the library takes them: any sequence of integers, or a NumPy array without a copy."""
    array = ids_of(tokens)
    return array_in("prefix_token", array), array.size, array


def joined(lists: Iterable[Any]) -> tuple[numpy.ndarray, numpy.ndarray]:
    """All tokens in a row, and where each list begins, with the end behind the last."""
    arrays = [ids_of(tokens) for tokens in lists]
    offsets = numpy.zeros(len(arrays) + 1, numpy.int64)
    numpy.cumsum([len(tokens) for tokens in arrays], out=offsets[1:])
    return numpy.concatenate(arrays) if arrays else numpy.empty(0, numpy.int32), offsets


def array_in(element: str, array: numpy.ndarray) -> Any:
    return ffi.from_buffer(element + "[]", array) if array.size else ffi.NULL


def utf8(content: str, what: str = "the text") -> bytes:
    if not isinstance(content, str):
        raise TypeError(f"{what} is a {type(content).__name__}, not a str")
    return content.encode("utf-8", "surrogatepass")


def path_in(path: str | bytes | os.PathLike[Any]) -> bytes:
    """As the system has it: the library says where it is not UTF-8."""
    return os.fsencode(path)


def several(texts: Iterable[str], what: str) -> list[str]:
    """A list of texts; one text alone would be taken for a list of its characters."""
    if isinstance(texts, (str, bytes)):
        raise TypeError(f"{what} is one {type(texts).__name__}, not a list of texts")
    return list(texts)


def millis(seconds: float) -> int:
    """A part of a millisecond is a whole one: 0 often stands for something else. Infinity is 31 years."""
    if math.isnan(seconds):
        raise ValueError(f"a time of {seconds} seconds is none")
    return int(math.copysign(math.ceil(min(abs(seconds), 1e9) * 1000), seconds))


class Texts:
    """An array of texts with their lengths, which lives as long as the object."""

    def __init__(self, texts: Iterable[str], what: str = "texts") -> None:
        data = [utf8(content, f"text {i}") for i, content in enumerate(several(texts, what))]
        self._keep = [ffi.from_buffer("char[]", d) if d else ffi.new("char[1]") for d in data]
        self.count = len(data)
        self.pointers = ffi.new("char*[]", self._keep or [ffi.NULL])
        self.lengths = ffi.new("size_t[]", [len(d) for d in data] or [0])


def _set_list(options: Any, key: str, items: Any) -> None:
    """An option that is a list of texts or of token ids."""
    if not items:  # of which of the two: the library knows
        data = json.dumps({key: []}).encode()
        call(core.prefix_options_set_json, options, data, len(data))
        return
    of_texts = isinstance(items[0], str)
    for i, item in enumerate(items):
        if isinstance(item, bool) or not isinstance(item, str if of_texts else (int, numpy.integer)):
            raise TypeError(f"item {i} of option {key} is {item!r}; a list has only texts or only whole numbers")
    name = key.encode()
    if of_texts:
        texts = Texts(items)
        call(core.prefix_options_set_texts, options, name, len(name), texts.pointers, texts.lengths, texts.count)
    else:
        data, count, _keep = tokens_in(items)
        call(core.prefix_options_set_ints, options, name, len(name), data, count)


@functools.lru_cache(maxsize=None)
def _lists_of_texts() -> frozenset[str]:
    """Options that take several texts, as stop: one text alone is a list of one, not JSON."""
    info, found = ffi.new("prefix_option_details*"), set()
    info.struct_size = ffi.sizeof("prefix_option_details")
    for i in range(core.prefix_option_count()):
        call(core.prefix_option_info, i, info)
        if info.type == core.PREFIX_OPTION_STRING_LIST:
            found.add(ffi.string(info.key).decode())
    return frozenset(found)


def _text_of_map(key: str, value: Mapping[Any, Any]) -> str:
    """As the options that are made of them take it: 464:-100,11:2.5, or JSON."""
    if key == "logit_bias":
        return ",".join(f"{operator.index(token)}:{float(bias)!r}" for token, bias in value.items())
    if key == "json_schema":
        return json.dumps(dict(value))
    raise TypeError(f"option {key} is a {type(value).__name__}; only logit_bias and json_schema are maps")


def options_in(options: dict[str, Any]) -> Any:
    """Options of the library from keyword arguments; NULL when there are none."""
    handle = make(core.prefix_options_create, core.prefix_options_release)
    for key, value in options.items():
        if isinstance(value, numpy.generic) or isinstance(value, numpy.ndarray) and value.ndim == 0:
            value = value.item()
        name = utf8(key, "the name of an option")
        start = (handle, name, len(name))
        if value is None:
            continue
        if isinstance(value, bool):
            call(core.prefix_options_set_bool, *start, int(value))
        elif isinstance(value, int):
            if not -(1 << 63) <= value < 1 << 63:
                raise ValueError(f"option {key} = {value} is beyond 64 bits")
            call(core.prefix_options_set_int, *start, value)
        elif isinstance(value, float):
            call(core.prefix_options_set_double, *start, value)
        elif isinstance(value, Mapping):
            data = _text_of_map(key, value).encode()
            call(core.prefix_options_set, *start, data, len(data))
        elif isinstance(value, (list, tuple, numpy.ndarray)):
            _set_list(handle, key, value.tolist() if isinstance(value, numpy.ndarray) else value)
        else:
            content = os.fspath(value) if isinstance(value, os.PathLike) else value
            if not isinstance(content, str):
                raise TypeError(f"option {key} is a {type(value).__name__}; it may be text, a number, a bool or a list")
            if key in _lists_of_texts():
                _set_list(handle, key, [content])  # one of them, whatever it looks like
                continue
            data = utf8(content)
            call(core.prefix_options_set, *start, data, len(data))
    return handle


_CLOSING = threading.Lock()


class Handle:
    """A handle of the library, released by close(), at the end of a with block, or with the object."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    @property
    def handle(self) -> Any:
        handle = self._handle
        if handle is None:
            raise error_of(core.PREFIX_ERR_MISUSE, "PREFIX_ERR_MISUSE", f"this {type(self).__name__} is closed")
        return handle

    def close(self) -> None:
        """Gives the handle back; what still uses the object fails with MisuseError. May be called again."""
        with _CLOSING:  # one of several threads releases it, with or without the interpreter's own lock
            handle, self._handle = self._handle, None
        if handle is not None:
            ffi.release(handle)

    def __reduce__(self) -> Any:
        raise TypeError(f"a {type(self).__name__} cannot be copied or pickled: it is of this process; make one where it is used")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
