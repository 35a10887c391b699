"""What there is without an engine: versions, features, options, devices, models, recipes, messages."""

from __future__ import annotations

import atexit
import json
import logging
import os
import threading
from typing import TYPE_CHECKING, Any

from ._native import Handle, call, core, ffi, filled, make, options_in, path_in, text, text_of, utf8

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from .options import EngineOptions


def version() -> str:
    """Of the library that is loaded."""
    return ffi.string(core.prefix_version_string()).decode()


def text_version() -> str:
    """Of libprefix_text."""
    return ffi.string(text.prefix_text_version_string()).decode()


def build_info() -> str:
    """One line for bug reports."""
    return ffi.string(core.prefix_build_info()).decode()


def features() -> list[str]:
    """What the library was built with and this machine can run."""
    return [ffi.string(core.prefix_feature_name(i)).decode() for i in range(core.prefix_feature_count())]


def has_feature(name: str) -> bool:
    """Whether it is among features()."""
    data = utf8(name, "the name")
    return core.prefix_has_feature(data, len(data)) != 0


def _static(struct: dict[str, Any]) -> dict[str, Any]:
    """Texts in place of pointers."""
    return {key: ffi.string(value).decode() if isinstance(value, ffi.CData) else value for key, value in struct.items()}


def devices() -> list[dict[str, Any]]:
    """The CPU, then the GPUs in the order of option device = cuda:0, cuda:1, ...: kind, name, level, threads, available,
    chosen, reason, total_bytes, free_bytes."""
    return [_static(filled("prefix_device_details", core.prefix_device_info, i)) for i in range(core.prefix_device_count())]


def option_infos() -> list[dict[str, Any]]:
    """Every option there is: key, type, scope, default_value, values, minimum, maximum, doc (docs/options.md)."""
    return [_static(filled("prefix_option_details", core.prefix_option_info, i)) for i in range(core.prefix_option_count())]


def model_info(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What a model holds, from the headers of its files alone: prefix_model_info_json."""
    data = path_in(path)
    return json.loads(text_of(core.prefix_model_info_json, data, len(data)))


def estimate(path: str | os.PathLike[str], **options: Unpack[EngineOptions]) -> dict[str, int]:
    """Bytes that an engine would take: weight_bytes, kv_bytes_per_token, kv_budget_bytes, activation_bytes, total_bytes."""
    data = path_in(path)
    return filled("prefix_memory", core.prefix_engine_estimate, data, len(data), options_in(options))


def recipes() -> list[str]:
    """The names of the shipped recipes (docs/recipes.md)."""
    return [ffi.string(text.prefix_recipe_name(i)).decode() for i in range(text.prefix_recipe_count())]


def recipe(name: str) -> dict[str, Any]:
    """A shipped recipe, as a place to start from."""
    data = utf8(name, "the name")
    return json.loads(text_of(text.prefix_recipe_json, data, len(data)))


class Pool(Handle):
    """Worker threads that engines share: Engine(path, pool=pool). threads: how many; cpus: those that they stay on."""

    def __init__(self, *, threads: int | None = None, cpus: str | None = None) -> None:
        super().__init__(make(core.prefix_pool_create, core.prefix_pool_release,
                              options_in({"threads": threads, "cpus": cpus})))


class Source(Handle):
    """The files of a model in memory, by the names that they have in its folder, or one that ends with ".gguf":
    Engine(source). Nothing is copied; close() lets go of the memory."""

    def __init__(self) -> None:
        super().__init__(make(core.prefix_source_create, core.prefix_source_release))
        self.kept: list[Any] = []

    def close(self) -> None:
        super().close()
        self.kept = []  # a load has a list of its own

    def add(self, name: str, data: Any) -> None:
        """data: bytes, or what shares its buffer (memoryview, mmap, NumPy), which may not change while it is loaded."""
        of_name, buffer = utf8(name, "the name"), ffi.from_buffer(data)
        call(core.prefix_source_add_buffer, self.handle, of_name, len(of_name), buffer, len(buffer))
        self.kept.append(buffer)


_PAUSE_SECONDS = 0.1  # between looks for messages
_LEVELS = {0: logging.DEBUG, 1: logging.INFO, 2: logging.WARNING, 3: logging.ERROR}


def set_log_level(level: int | str) -> None:
    """Messages below this level of logging, a number or a name, are dropped; at first those below logging.WARNING."""
    if isinstance(level, str):
        number = logging.getLevelName(level)
        if not isinstance(number, int):
            raise ValueError(f"{level!r} is no level of logging")
        level = number
    core.prefix_set_log_level(next((ours for ours, theirs in _LEVELS.items() if theirs >= level), 4))


def next_log() -> tuple[int, str] | None:
    """The oldest of the last 1,024 messages of the library, with its level of logging; None when there is none."""
    level, needed, capacity = ffi.new("int32_t*"), ffi.new("size_t*"), 256
    while True:
        buffer = ffi.new("char[]", capacity)
        status = core.prefix_log_next(level, buffer, capacity, needed)
        if status == core.PREFIX_OK:
            return _LEVELS.get(level[0], logging.ERROR), ffi.buffer(buffer, needed[0])[:].decode("utf-8", "replace")
        if status != core.PREFIX_ERR_BUFFER_TOO_SMALL:
            return None
        capacity = needed[0] + 1


class LogForwarder:
    """Hands the messages of the library to a logger, until close() or the end of Python; made by forward_log. It need not be
    kept, and may be used in a with block."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger, self._lock, self._over = logger, threading.RLock(), threading.Event()  # a handler may close it
        self._process = os.getpid()
        self._forward()
        threading.Thread(target=self._run, name="prefix-log", daemon=True).start()
        atexit.register(self.close)  # the last messages

    def _forward(self) -> None:
        with self._lock:
            while not self._over.is_set() and (message := next_log()) is not None:
                self._logger.log(*message)

    def _run(self) -> None:
        while not self._over.wait(_PAUSE_SECONDS):
            self._forward()

    def close(self) -> None:
        """Hands on what there is; later messages stay for others. In a child of fork() there is nothing to do: what there was
        is the parent's."""
        if os.getpid() == self._process:
            self._forward()
        self._over.set()
        atexit.unregister(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def forward_log(logger: logging.Logger) -> LogForwarder:
    """Hands the messages of the library to a logger from now on, by a thread; those that there are before it returns."""
    return LogForwarder(logger)
