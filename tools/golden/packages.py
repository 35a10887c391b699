"""Imported before packages that Python does not have of itself: where one is missing, a script says where it comes from."""

import sys
from pathlib import Path

# Those of requirements-models.txt are enough for the tiny models.
_OF_MODELS = ("numpy", "gguf")


def _said(kind, error, trace):
    name = Path(sys.argv[0]).name
    if issubclass(kind, KeyboardInterrupt):
        print(f"{name}: stopped", file=sys.stderr)
    elif issubclass(kind, ModuleNotFoundError):
        environment = "models" if error.name in _OF_MODELS else "reference"
        print(f"{name}: the package {error.name} is missing; the Python that `tools/python_env {environment} "
              f"tools/golden/requirements-{environment}.txt` prints has it", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)


sys.excepthook = _said
