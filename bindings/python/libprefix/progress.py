"""A line on standard error that is rewritten while something runs."""

from __future__ import annotations

import sys
from typing import Callable


def reporter(what: str, progress: bool | Callable[[float], None]) -> Callable[[float | None], None]:
    """A function of the fraction that is done; None takes the line away."""
    if callable(progress):
        return lambda fraction: None if fraction is None else progress(fraction)
    if not progress or not sys.stderr.isatty():
        return lambda fraction: None
    shown = -1

    def show(fraction: float | None) -> None:
        nonlocal shown
        if fraction is None:
            sys.stderr.write("\r\x1b[K")
        elif int(fraction * 100) != shown:
            shown = int(fraction * 100)
            bar = "#" * (shown * 30 // 100)
            sys.stderr.write(f"\r{what} [{bar:<30}] {shown:3}%")
        sys.stderr.flush()

    return show
