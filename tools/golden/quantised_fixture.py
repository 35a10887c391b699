"""Writes tests/model/quantised_fixture.json: one small weight in every layout of quantised_layouts.py, and its f32 bits.

    python quantised_fixture.py OUTFILE      (needs requirements-models.txt)

For each layout: `config` (its quantization_config), `name` of the weight, `parts` (name -> dtype, shape, bytes in hex)
and of float32 [rows, columns] `sha256` and the `first` ones in hex.
"""

import packages  # noqa: F401, I001

import hashlib
import json
import sys
from pathlib import Path

from quantised_layouts import LAYOUTS, part_name

# Not a multiple of the blocks of fp8, 64 and 32.
_ROWS, _COLUMNS = 40, 32
_WEIGHT = "m.proj.weight"


def main() -> int:
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print("usage: quantised_fixture.py OUTFILE", file=sys.stderr)
        return 2
    fixture = {}
    for name, layout in LAYOUTS.items():
        weight = layout.make(f"fixture/{name}", _ROWS, _COLUMNS, 0.1)
        fixture[name] = {
            "config": layout.config,
            "name": _WEIGHT,
            "parts": {
                part_name(_WEIGHT, layout, part): {
                    "dtype": tensor.dtype, "shape": list(tensor.array.shape), "bytes": tensor.array.tobytes().hex(),
                }
                for part, tensor in weight.parts.items()
            },
            "sha256": hashlib.sha256(weight.values.astype("<f4").tobytes()).hexdigest(),
            "first": weight.values[0, :4].astype("<f4").tobytes().hex(),
        }
    Path(sys.argv[1]).write_text(json.dumps(fixture, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
