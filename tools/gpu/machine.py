"""The machine: its GPU, its toolkit, and the build in build-gpu/. Nothing here uses the network."""

import json
import os
import re
import shutil
import sys
from pathlib import Path

from .carry import CARRY
from .clock import ROOT, Clock
from .programs import LAUNCHES, PROGRAMS

BUILD = ROOT / "build-gpu"
TARGETS = ["prefix", "prefix_cuda", "gpu_bench", *sorted({p.name for p in (*PROGRAMS, LAUNCHES)})]


def find_gpu(clock: Clock) -> tuple[str, str]:
    """(its name, '') or ('', why there is none)."""
    ended = clock.run(["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"], 60)
    if ended.code == 127:
        return "", "no GPU: nvidia-smi is not here"
    lines = ended.text.strip().splitlines()
    if not ended.good or not lines:
        return "", f"no GPU: nvidia-smi {ended.reason()}"
    return lines[0], ""


def find_toolkit(clock: Clock) -> str:
    """Why there is none; '' when there is one."""
    ended = clock.run([ROOT / "tools" / "cuda_toolchain", "--find", BUILD], 60)
    if ended.code == 3:
        return "no nvcc of CUDA 13.0 or newer here"
    return "" if ended.good else f"cuda_toolchain {ended.reason()}"


def target_of(capability: str) -> str:
    """"9.0" -> "90a": what this GPU runs best."""
    digits = capability.strip().replace(".", "")
    if not digits.isdigit():
        return ""
    return digits + "a" if int(digits) >= 90 else digits


def find_built() -> str:
    """Why --built cannot be; '' when the programs are there."""
    missing = [name for name in ("lib/libprefix_cuda.so", "bin/bench/gpu_bench") if not (BUILD / name).exists()]
    return f"--built, but there is no {BUILD.name}/{missing[0]}" if missing else ""


def configure(clock: Clock, target: str = "") -> str:
    command = ["cmake", "-S", ROOT, "-B", BUILD, "-G", "Ninja", "-DPREFIX_CUDA=ON", "-DPREFIX_BUILD_TEXT=OFF",
               "-DPREFIX_BUILD_SAMPLES=OFF", "-DPREFIX_WERROR=OFF", "-DPREFIX_CUDA_LINEINFO=ON"]
    if not target:
        asked = clock.run(["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"], 60)
        target = target_of((asked.text.splitlines() or [""])[0]) if asked.good else ""
    if target:  # only what this GPU runs: it saves most of the time
        command.append(f"-DPREFIX_CUDA_TARGETS={target}")
    if (CARRY / "cmake").exists():
        command += [f"-Dnlohmann_json_DIR={CARRY}/cmake", f"-DGTest_DIR={CARRY}/cmake"]
    ended = clock.run(command, 600)  # CMake installs a toolkit where there is network and none
    if ended.good:
        return ""
    return "configuring failed: " + (ended.why or " ".join(ended.text.strip().splitlines()[-3:])[:300])


def build(clock: Clock, seconds: float, target: str = "") -> tuple[str, str]:
    """(why nothing can run, what failed to build). Whatever stands afterwards is of these sources."""
    problem = configure(clock, target)
    if problem:
        return problem, problem
    ninja = ["ninja", "-C", BUILD]
    ended = clock.run([*ninja, *TARGETS], seconds)
    log = ended.text
    if ended.good:
        (BUILD / "build.log").write_text(log)
        return "", ""
    failed = f"the build {'was ' + ended.why if ended.why else 'failed'} ({BUILD.name}/build.log)"
    for stale in (BUILD / "bin", BUILD / "lib"):
        shutil.rmtree(stale, ignore_errors=True)
    if not ended.why:  # one file that does not compile must not cost the rest of the run
        log += clock.run([*ninja, "-k", "0", *TARGETS], seconds).text
    (BUILD / "build.log").write_text(log)
    usable = (BUILD / "lib" / "libprefix_cuda.so").exists() and any((BUILD / "bin").glob("*/*"))
    return ("" if usable else failed), failed


def device_environment(clock: Clock) -> dict:
    environment = {"LIBPREFIX_PLUGINS": str(BUILD / "lib")}
    # PyTorch brings the library where the toolkit has none on the library path.
    if not os.environ.get("LIBPREFIX_CUBLASLT"):
        ended = clock.run([sys.executable, "-c", "import nvidia, glob; print([f for p in nvidia.__path__ for f in "
                           "glob.glob(p + '/**/libcublasLt.so.13', recursive=True)][0])"], 60)
        if ended.good:
            environment["LIBPREFIX_CUBLASLT"] = ended.text.strip().splitlines()[-1]
    return environment


def missing_models(folder: Path) -> list[str]:
    """Golden models, by the names of their vectors, whose files are not in the folder."""
    missing = []
    for index in sorted((ROOT / "tests" / "golden" / "logits").glob("*.json")):
        path = json.loads(index.read_text())["path"]
        if not (folder / path).exists():
            missing.append(index.stem)
    return missing


def differing_models(text: str) -> set[str]:
    """Those of which make_models.py says that they are not what they were: another numpy may round otherwise."""
    return {found[1] for found in re.finditer(r"^make_models: hash differs: \w+ +([^/\s]+)", text, re.M)}


def golden_models(clock: Clock) -> tuple[list[str], str]:
    """Puts the tiny models into the build folder; (models that are not there, why)."""
    folder = BUILD / "golden-models"
    if folder.exists() and not missing_models(folder):
        return [], ""
    if folder.is_symlink():
        folder.unlink()
    # They are written here, which their hashes allow on any machine, or else they were brought.
    ended = clock.run([sys.executable, ROOT / "tools" / "golden" / "make_models.py", folder], 60,
                      {"PYTHONPATH": str(CARRY / "python"), "PYTHONDONTWRITEBYTECODE": "1"})
    differing = differing_models(ended.text)
    for name in differing:
        shutil.rmtree(folder / name, ignore_errors=True)  # a folder or a file
        (folder / name).unlink(missing_ok=True)
    if ended.good or differing:
        return missing_models(folder), "their hashes differ"
    why = f"make_models.py {ended.reason()}"
    brought = ROOT / "build" / "golden-models"
    if brought.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.symlink_to(brought)
    return missing_models(folder), why
