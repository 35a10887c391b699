"""What calls raise. Every error is a PrefixError with the status of the library and one sentence that names the value
and the limit; many are the error of Python as well that a reader expects."""

from __future__ import annotations

from typing import Any


class PrefixError(Exception):
    """code: PREFIX_ERR_* as a number; name: its name; partial: of a call that writes texts, what there is of each."""

    code: int = 0
    name: str = ""
    partial: list[str] | None = None

    def __str__(self) -> str:
        return f"{self.args[0]} ({self.name})" if self.args else self.name


class InvalidArgumentError(PrefixError, ValueError):
    """A value that makes no sense, an unknown option, a number outside its limits."""


class MisuseError(PrefixError):
    """A closed object, or the wrong moment."""


class NotFoundError(PrefixError, FileNotFoundError):
    """No such file, namespace, recipe."""


class ModelError(PrefixError):
    """A file that is corrupt, or a model or device that cannot be run."""


class OutOfMemoryError(PrefixError, MemoryError):
    """No memory, or cache_bytes is too small for the request."""


class DeadlineError(PrefixError, TimeoutError):
    """The deadline_ms of a request has passed."""


class CancelledError(PrefixError):
    """The request was cancelled."""


class SomeFailed(PrefixError):
    """Some items of a task failed. `results` has those that did not, in their places; `failures` maps the place of each
    that did to its error."""

    results: Any = None
    failures: dict[int, PrefixError]


_CLASSES = {100: InvalidArgumentError, 101: InvalidArgumentError, 102: InvalidArgumentError, 103: InvalidArgumentError,
            200: MisuseError, 201: MisuseError, 300: NotFoundError, 400: ModelError, 401: ModelError, 402: ModelError,
            500: InvalidArgumentError, 600: OutOfMemoryError, 601: OutOfMemoryError, 602: OutOfMemoryError,
            702: CancelledError, 703: DeadlineError}


def error_of(code: int, name: str, message: str) -> PrefixError:
    error = _CLASSES.get(code, PrefixError)(message)
    error.code, error.name = code, name
    return error
