"""How a tool ends: with the code of its main(), or with one sentence about what stopped it."""

import os
import subprocess
import sys
from collections.abc import Callable


def run(name: str, main: Callable[[], int | None]) -> None:
    """Ends the program."""
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        said, code = "stopped", 130
    except BrokenPipeError:  # `head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:
        said, code = f"{error.filename}: {error.strerror}" if error.filename else str(error), 2
    except subprocess.CalledProcessError as error:
        said, code = f"{' '.join(map(str, error.cmd[:2]))} ... ended with code {error.returncode}", 2
    print(f"{name}: {said}", file=sys.stderr)
    sys.exit(code)
