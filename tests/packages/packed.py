"""What the tests of packages share: commands, an environment without this checkout, and the expected answer."""

import functools
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
MODEL = BUILD / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
DOCUMENTS = ["The moon circles the earth.", "Bread is baked from flour.", "Rome is the capital of Italy."]
QUERY = "How is bread made?"
# What would help a program to find a library that its package does not bring.
HELP = ("LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH", "PKG_CONFIG_PATH", "CGO_CFLAGS", "CGO_LDFLAGS", "GOFLAGS", "CLASSPATH",
        "PREFIX_LIB_DIR", "RUSTFLAGS", "PYTHONPATH")


def run(*command, environment=None, **options):
    """Output of a command that must succeed, in an environment that knows nothing of this checkout."""
    clean = {name: value for name, value in os.environ.items() if name not in HELP}
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                          env={**clean, **(environment or {})}, **options)
    assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
    return done.stdout


@functools.cache
def expected_ranking():
    """What the C sample of the build folder finds: [{"index": i, "score": x}, ...], the best first."""
    documents = tempfile.NamedTemporaryFile("w", suffix=".txt")
    with documents:
        documents.write("\n".join(DOCUMENTS) + "\n")
        documents.flush()
        return json.loads(run(BUILD / "bin/samples/rerank", MODEL, QUERY, documents.name, "--json"))["ranking"]


def folders_named(files):
    """(path, folder) of the files that name a folder of this machine: of the sources, of the user, of cargo."""
    cargo = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
    folders = [bytes(folder) + b"/" for folder in (ROOT, Path.home(), cargo) if folder != Path("/")]
    return [(path, folder) for path in files if path.is_file() for folder in folders if folder in path.read_bytes()]


def needs(test, *programs):
    """Skips a test where a program is missing, and says which."""
    for program in programs:
        if not shutil.which(program):
            test.skipTest(f"{program} is not installed")


def place(file, folder):
    """The file in the folder, without a copy of its bytes where that can be."""
    source, target = Path(file).resolve(), Path(folder) / Path(file).name
    try:
        os.link(source, target)
    except OSError:
        shutil.copy(source, target)
    return target
