#!/usr/bin/env python3
"""The installed tree, from outside: install_test.py BUILD_FOLDER.

Installs into a temporary folder, moves the tree, and uses it as other projects do.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = Path(sys.argv.pop(1)).resolve()
TREE = None  # the installed tree, after it was moved


def setUpModule():
    global TREE
    folder = Path(tempfile.mkdtemp(prefix="prefix-install-"))
    unittest.addModuleCleanup(shutil.rmtree, folder)
    done = run("cmake", "--install", BUILD, "--prefix", folder / "first")
    assert done.returncode == 0, done.stderr
    TREE = (folder / "first").rename(folder / "moved")


def run(*command, **options):
    command = [str(part) for part in command]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, **options)


class Installed(unittest.TestCase):
    def ok(self, *command, **options):
        done = run(*command, **options)
        self.assertEqual(done.returncode, 0, f"{command}\n{done.stdout}{done.stderr}")
        return done.stdout

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="prefix-use-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def test_every_file_is_meant_to_be_there(self):
        found = {str(path.relative_to(TREE)) for path in TREE.rglob("*") if not path.is_dir()}
        patterns = [
            "bin/prefix", "include/prefix.h", "include/prefix.hpp", "include/prefix_calls.hpp", "include/prefix_cache.hpp", "include/prefix_constraint.hpp", "include/prefix_job.hpp", "include/prefix_options.hpp", "include/prefix_system.hpp", "include/prefix_text.h", "include/prefix_text.hpp", "lib/libprefix.so", "lib/libprefix_text.so", "lib/libprefix.a",
            "lib/cmake/prefix/prefixConfig.cmake", "lib/cmake/prefix/prefixConfigVersion.cmake",
            "lib/cmake/prefix/prefixTargets.cmake", "lib/pkgconfig/prefix.pc", "lib/pkgconfig/prefix_text.pc", "lib/cps/prefix.cps",
            "share/prefix/recipes/query-likelihood.json", "share/prefix/recipes/qwen3-reranker.json",
        ]
        self.assertEqual([name for name in patterns if name not in found], [])
        known = ("bin/prefix", "include/prefix", "lib/libprefix", "lib/cmake/prefix/", "lib/pkgconfig/prefix", "lib/cps/prefix.cps",
                 "share/prefix/", "share/doc/prefix/")
        self.assertEqual([name for name in sorted(found) if not name.startswith(known)], [])

    def test_no_file_names_a_folder_of_this_machine(self):
        # Of the sources, and of the crates that libprefix_text is made of.
        cargo = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
        folders = [bytes(folder) + b"/" for folder in (ROOT, BUILD, Path.home(), cargo) if folder != Path("/")]
        files = [path for path in TREE.rglob("*") if path.is_file()]
        self.assertEqual([(path, folder) for path in files for folder in folders if folder in path.read_bytes()], [])

    def test_find_package(self):
        self.ok("cmake", "-S", HERE / "find_package", "-B", self.folder, f"-DCMAKE_PREFIX_PATH={TREE}")
        self.ok("cmake", "--build", self.folder)
        self.assertIn("PREFIX_ERR_NOT_FOUND", self.ok(self.folder / "core"))
        self.assertIn("PREFIX_ERR_NOT_FOUND", self.ok(self.folder / "text"))
        self.assertIn("PREFIX_ERR_NOT_FOUND", self.ok(self.folder / "static"))
        self.assertIn("libprefix.so.1", self.ok("ldd", self.folder / "core"))
        self.assertNotIn("libprefix", self.ok("ldd", self.folder / "static"))

    def test_components_are_called_as_the_targets(self):
        source = self.folder / "source"
        source.mkdir()
        lists = "cmake_minimum_required(VERSION 3.20)\nproject(x C)\nfind_package(prefix 0.1 CONFIG REQUIRED COMPONENTS {})\n"
        (source / "CMakeLists.txt").write_text(lists.format("prefix prefix_static text"))
        self.ok("cmake", "-S", source, "-B", self.folder / "out", f"-DCMAKE_PREFIX_PATH={TREE}")
        (source / "CMakeLists.txt").write_text(lists.format("text nonsense"))
        done = run("cmake", "-S", source, "-B", self.folder / "out", f"-DCMAKE_PREFIX_PATH={TREE}")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("has no component nonsense (prefix, prefix_static, text)", " ".join(done.stderr.split()))

    def test_find_package_refuses_another_major_version(self):
        lists = (HERE / "find_package" / "CMakeLists.txt").read_text()
        source = self.folder / "source"
        source.mkdir()
        (source / "CMakeLists.txt").write_text(lists.replace("prefix 0.1", "prefix 7.0"))
        done = run("cmake", "-S", source, "-B", self.folder / "out", f"-DCMAKE_PREFIX_PATH={TREE}")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("7.0", done.stderr)

    def test_pkg_config(self):
        environment = {**os.environ, "PKG_CONFIG_PATH": str(TREE / "lib" / "pkgconfig")}
        for name, source in (("prefix", "core.c"), ("prefix_text", "text.c")):
            flags = self.ok("pkg-config", "--cflags", "--libs", name, env=environment).split()
            self.assertTrue(all(str(TREE.parent / "first") not in flag for flag in flags))
            self.ok("cc", "-std=c11", "-Werror", HERE / source, "-o", self.folder / name, *flags)
            found = self.ok(self.folder / name, env={**os.environ, "LD_LIBRARY_PATH": str(TREE / "lib")})
            self.assertIn("PREFIX_ERR_NOT_FOUND", found)

    def test_pkg_config_static(self):
        environment = {**os.environ, "PKG_CONFIG_PATH": str(TREE / "lib" / "pkgconfig")}
        flags = self.ok("pkg-config", "--static", "--cflags", "--libs", "prefix", env=environment).split()
        self.ok("cc", "-std=c11", "-Werror", "-static", HERE / "core.c", "-o", self.folder / "core", *flags)
        self.assertIn("PREFIX_ERR_NOT_FOUND", self.ok(self.folder / "core"))

        # Nothing but what the header declares can meet a program's own names.
        symbols = [line.split() for line in self.ok("nm", "-g", "--defined-only", TREE / "lib" / "libprefix.a").splitlines()]
        names = [symbol[2] for symbol in symbols if len(symbol) == 3]
        self.assertEqual([name for name in names if not name.startswith("prefix_")], [])
        self.assertIn("prefix_engine_create", names)

        # All of the library is in it, also what nothing refers to by name.
        self.ok("cc", "-std=c11", "-static", ROOT / "samples/c/score.c", "-o", self.folder / "score", *flags)
        self.ok(BUILD / "bin" / "prefix-random-checkpoint", "tiny", self.folder / "tiny")
        lines = [[line.split()[:4] for line in self.ok(program, self.folder / "tiny", "1,15,27,9", "4,8", "4,9", "16").splitlines()[:4]]
                 for program in (self.folder / "score", BUILD / "bin" / "samples" / "score")]
        self.assertEqual(lines[0], lines[1])

    def test_common_package_specification(self):
        """As a reader of the specification finds the tree and its parts: @prefix@ is the file's folder less cps_path."""
        file = TREE / "lib" / "cps" / "prefix.cps"
        package = json.loads(file.read_text())
        self.assertEqual((package["name"], package["cps_version"]), ("prefix", "0.13.0"))
        at = str(file.parent).removesuffix(package["cps_path"].removeprefix("@prefix@"))
        self.assertEqual(Path(at), TREE)
        self.assertEqual(sorted(package["components"]), ["prefix", "prefix_static", "text"])
        self.assertEqual(package["version"], run("pkg-config", "--modversion", TREE / "lib/pkgconfig/prefix.pc").stdout.strip())

        def flags(name):
            part = package["components"][name]
            for needed in part.get("requires", []):
                yield from flags(needed.removeprefix(":"))
            yield from (f"-I{place.replace('@prefix@', at)}" for place in part["includes"])
            yield part["location"].replace("@prefix@", at)
            yield from (f"-l{library}" for library in part.get("link_libraries", []))

        for name, source in (("prefix", "core.c"), ("text", "text.c"), ("prefix_static", "core.c")):
            self.ok("cc", "-std=c11", "-Werror", HERE / source, "-o", self.folder / name, *flags(name))
            found = self.ok(self.folder / name, env={**os.environ, "LD_LIBRARY_PATH": str(TREE / "lib")})
            self.assertIn("PREFIX_ERR_NOT_FOUND", found)

    def test_make_install_heeds_destdir(self):
        # The build is there: only the words of the target are tried.
        prefix, stage = self.folder / "my usr", self.folder / "my stage"
        recipe = run("make", "-n", "-C", ROOT, "install", f"PREFIX={prefix}", f"DESTDIR={stage}").stdout
        lines = recipe.splitlines()
        command = next(line for line in lines if line.startswith("cmake --install build"))
        words = command.split(" >build/install.log")[0]  # the shell takes them apart
        self.assertEqual(self.ok("sh", "-c", f"printf '%s\\n' {words}").splitlines(), ["cmake", "--install", "build", "--prefix", str(prefix)])
        self.assertIn(f"Installed into {stage}{prefix}; ", self.ok("sh", "-c", next(line for line in lines if line.startswith("echo"))))
        self.ok("cmake", "--install", BUILD, "--prefix", prefix, env={**os.environ, "DESTDIR": str(stage)})
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["my stage"])
        staged = stage / prefix.relative_to("/")
        self.assertTrue((staged / "lib" / "libprefix.so").exists())

    def test_plugins_that_were_not_built_are_left_out(self):
        script = (BUILD / "cmake_install.cmake").read_text()
        for plugin in re.findall(r"libprefix_(?:cuda|redis)\.so", script):
            rule, = re.findall(rf'file\(INSTALL [^)]*/{re.escape(plugin)}"\)', script)
            self.assertIn(" OPTIONAL ", rule)

    def test_the_command(self):
        self.assertIn("prefix", self.ok(TREE / "bin" / "prefix", "--help"))
        self.assertIn("avx2", self.ok(TREE / "bin" / "prefix", "info", "--machine"))


if __name__ == "__main__":
    unittest.main()
