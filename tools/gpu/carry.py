"""What a GPU machine may lack, gathered on a machine with network: build-gpu/carry.

    include/, lib/, cmake/   nlohmann-json and GoogleTest, as CMake packages with relative paths
    python/                  the gguf package: with it and numpy the tiny models are written there
"""

import shutil
import subprocess
import sys
from pathlib import Path

from .clock import ROOT

CARRY = ROOT / "build-gpu" / "carry"
MOST_MIB = 64  # with the sources: what may travel

JSON_CONFIG = """\
set(nlohmann_json_VERSION 3.11.2)
add_library(nlohmann_json::nlohmann_json INTERFACE IMPORTED)
set_target_properties(nlohmann_json::nlohmann_json PROPERTIES
  INTERFACE_INCLUDE_DIRECTORIES "${CMAKE_CURRENT_LIST_DIR}/../include")
"""
GTEST_CONFIG = """\
foreach(name gtest gtest_main)
  add_library(GTest::${name} STATIC IMPORTED)
  set_target_properties(GTest::${name} PROPERTIES IMPORTED_LOCATION "${CMAKE_CURRENT_LIST_DIR}/../lib/lib${name}.a"
    INTERFACE_INCLUDE_DIRECTORIES "${CMAKE_CURRENT_LIST_DIR}/../include")
endforeach()
find_package(Threads REQUIRED)
set_property(TARGET GTest::gtest APPEND PROPERTY INTERFACE_LINK_LIBRARIES Threads::Threads)
set_property(TARGET GTest::gtest_main APPEND PROPERTY INTERFACE_LINK_LIBRARIES GTest::gtest)
"""


def bytes_of(files) -> int:
    return sum(f.stat().st_size for f in files if f.is_file())


def copy_headers_and_libraries() -> str:
    """Returns what is missing, or ''."""
    for folder in ("nlohmann", "gtest"):
        source = next((p for p in (Path("/usr/local/include") / folder, Path("/usr/include") / folder) if p.exists()), None)
        if not source:
            return f"no {folder} headers here"
        shutil.copytree(source, CARRY / "include" / folder)
    (CARRY / "lib").mkdir()
    for library in ("libgtest.a", "libgtest_main.a"):
        found = next((p for base in ("/usr/local/lib", "/usr/lib") for p in Path(base).rglob(library)), None)
        if not found:
            return f"no {library} here"
        shutil.copy2(found, CARRY / "lib" / library)
    cmake = CARRY / "cmake"
    cmake.mkdir()
    (cmake / "nlohmann_jsonConfig.cmake").write_text(JSON_CONFIG)
    (cmake / "nlohmann_jsonConfigVersion.cmake").write_text(
        "set(PACKAGE_VERSION 3.11.2)\nset(PACKAGE_VERSION_COMPATIBLE TRUE)\n")
    (cmake / "GTestConfig.cmake").write_text(GTEST_CONFIG)
    return ""


def copy_package() -> None:
    package = next((ROOT / "build" / "venv-models").glob("lib/python3*/site-packages/gguf"), None)
    if package:
        shutil.copytree(package, CARRY / "python" / "gguf", ignore=shutil.ignore_patterns("__pycache__"))
    else:
        print("gpu_check: no gguf package in build/venv-models (make test puts it there): no golden models then")


def prepare() -> int:
    shutil.rmtree(CARRY, ignore_errors=True)
    CARRY.mkdir(parents=True)
    problem = copy_headers_and_libraries()
    if problem:
        print(f"gpu_check: {problem}", file=sys.stderr)
        return 1
    copy_package()
    tracked = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, text=True).stdout.split("\0")
    carried = bytes_of(CARRY.rglob("*"))
    whole = carried + bytes_of(ROOT / name for name in tracked if name)
    print(f"{CARRY.relative_to(ROOT)}: {carried / 2**20:.1f} MiB, {whole / 2**20:.1f} MiB with the sources; copy both")
    if whole > MOST_MIB * 2**20:
        print(f"gpu_check: more than {MOST_MIB} MiB", file=sys.stderr)
        return 1
    return 0
