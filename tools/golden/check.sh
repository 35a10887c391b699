#!/usr/bin/env bash
# Computes every golden number again and compares with tests/golden: `make golden-check`.
# The reference implementation takes about 5 GB in the build folder; the first run downloads it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
models=$root/build/golden-models
numbers=$root/build/golden-numbers

python=$("$root/tools/python_env" reference "$here/requirements-reference.txt")
smollm2=$("$root/tools/fetch_model")

echo "golden-check: tiny models"
"$python" "$here/make_models.py" "$models"

echo "golden-check: the sizes of published models"
"$python" "$here/check_published.py"

echo "golden-check: numbers (some minutes)"
rm -rf "$numbers"
OMP_NUM_THREADS=1 "$python" "$here/make_golden.py" "$models" "$numbers" --smollm2 "$smollm2"
"$python" "$here/compare.py" "$root/tests/golden" "$numbers"
