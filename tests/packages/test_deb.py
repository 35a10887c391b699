"""The Debian packages: packed by CPack from build/, unpacked into a root that has nothing else, and used there."""

import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from packed import BUILD, DOCUMENTS, MODEL, QUERY, ROOT, expected_ranking, folders_named, needs, place, run

PACKAGES = ("libprefix1", "libprefix-dev", "prefix-tools")


def chroot_command():
    """How this user enters a root of its own: None where it may not."""
    for command in (["chroot"], ["unshare", "-r", "chroot"]):
        if shutil.which(command[0]) and subprocess.run([*command, "/", "true"], capture_output=True).returncode == 0:
            return command
    return None


def copy_system_libraries(program, root):
    """What Debian's own packages bring, as `program` and the libraries below root/usr/lib need it: the C and C++ runtime."""
    for file in (program, *(root / "usr/lib").glob("libprefix*.so*")):
        for found in re.findall(r"(/\S+) \(0x", run("ldd", file)):
            if not Path(found).name.startswith("libprefix"):
                target = root / found.lstrip("/")
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(Path(found).resolve(), target)


class Deb(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not shutil.which("dpkg-deb"):
            raise unittest.SkipTest("dpkg-deb is not installed")
        cls.folder = Path(tempfile.mkdtemp(prefix="prefix-deb-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        run(ROOT / "tools/debian_packages", cls.folder / "out")
        cls.files = {name: next((cls.folder / "out").glob(f"{name}_*.deb")) for name in PACKAGES}
        cls.root = cls.folder / "root"
        for file in cls.files.values():
            run("dpkg-deb", "-x", file, cls.root)

    def field(self, package, name):
        return run("dpkg-deb", "-f", self.files[package], name).strip()

    def contents(self, package):
        listed = run("dpkg-deb", "-c", self.files[package]).splitlines()
        return {line.split()[5].removeprefix("."): line.split()[0] for line in listed}

    def test_fields(self):
        version = self.field("libprefix1", "Version")
        for package in PACKAGES:
            self.assertEqual(self.field(package, "Version"), version)
            self.assertIn(f"/usr/share/doc/{package}/copyright", self.contents(package))
        for package in ("libprefix-dev", "prefix-tools"):
            self.assertIn(f"libprefix1 (= {version})", self.field(package, "Depends"))
        if shutil.which("dpkg-shlibdeps"):
            for package in ("libprefix1", "prefix-tools"):
                self.assertRegex(self.field(package, "Depends"), r"libc6 \(>= .*libstdc\+\+6 \(>= ")
        self.assertIn("libprefix 1 libprefix1", run("dpkg-deb", "-I", self.files["libprefix1"], "shlibs"))

    def test_what_is_inside_is_listed(self):
        listed = json.loads((self.root / "usr/share/doc/libprefix1/libprefix.spdx.json").read_text())
        self.assertEqual((listed["spdxVersion"], listed["dataLicense"], listed["SPDXID"]), ("SPDX-2.3", "CC0-1.0", "SPDXRef-DOCUMENT"))
        packages = {entry["SPDXID"]: entry for entry in listed["packages"]}
        self.assertEqual(len(packages), len(listed["packages"]))
        for name, entry in packages.items():
            self.assertRegex(name, r"^SPDXRef-[A-Za-z0-9.-]+$")
            self.assertRegex(entry["licenseDeclared"], r"^[A-Za-z0-9.() +-]+$", entry["name"])
            self.assertTrue(entry["versionInfo"], entry["name"])
        for relation in listed["relationships"]:
            self.assertIn(relation["relatedSpdxElement"], packages)
            self.assertIn(relation["spdxElementId"], {*packages, "SPDXRef-DOCUMENT"})
        related = {relation["relatedSpdxElement"] for relation in listed["relationships"]}
        self.assertEqual(related, set(packages))
        # The library itself tells of its crates: where they lay stands in its messages.
        library = (self.root / "usr/lib/libprefix_text.so.1").read_bytes()
        inside = set(re.findall(rb"registry/src/[^/\0]+/([a-zA-Z0-9_-]+?)-(\d+\.\d+\.\d+)/", library))
        known = {(entry["name"].encode(), entry["versionInfo"].encode()) for entry in packages.values()}
        self.assertGreater(len(inside), 10)
        self.assertEqual(inside - known, set())
        needed = run("readelf", "-d", self.root / "usr/lib/libprefix_redis.so") if (self.root / "usr/lib/libprefix_redis.so").exists() else ""
        self.assertEqual("libhiredis" in needed, any(entry["name"] == "hiredis" for entry in packages.values()))
        again = run(ROOT / "tools/sbom")
        self.assertEqual(again, (self.root / "usr/share/doc/libprefix1/libprefix.spdx.json").read_text())

    def test_licences_of_what_is_linked_go_along(self):
        notices = (self.root / "usr/share/doc/libprefix1/THIRD-PARTY-NOTICES").read_text()
        self.assertEqual(notices, run(ROOT / "tools/sbom", "--notices"), "tools/sbom --notices --out THIRD-PARTY-NOTICES")
        listed = json.loads((self.root / "usr/share/doc/libprefix1/libprefix.spdx.json").read_text())
        for entry in listed["packages"]:
            if entry["licenseDeclared"] != "Apache-2.0" and entry["name"] != "hiredis":
                self.assertIn(entry["name"], notices)

    def test_no_file_names_a_folder_of_this_machine(self):
        self.assertEqual(folders_named((self.root / "usr").rglob("*")), [])

    def test_every_file_is_in_one_package(self):
        files = [[name for name, mode in self.contents(package).items() if not mode.startswith("d")] for package in PACKAGES]
        together = sum(files, [])
        self.assertEqual(len(together), len(set(together)))
        runtime, development, tools = files
        self.assertEqual([name for name in runtime if not re.search(r"\.so(\.|$)|/copyright$|/THIRD-PARTY-NOTICES$|\.spdx\.json$", name)], [])
        self.assertFalse({"/usr/lib/libprefix.so", "/usr/include/prefix.h"} & set(runtime))
        self.assertEqual(sorted(tools), ["/usr/bin/prefix", "/usr/share/doc/prefix-tools/THIRD-PARTY-NOTICES", "/usr/share/doc/prefix-tools/copyright"])
        for name in ("include/prefix.h", "lib/libprefix.so", "lib/libprefix_text.so", "lib/pkgconfig/prefix.pc",
                     "lib/cmake/prefix/prefixConfig.cmake", "share/prefix/samples/c/rerank.c"):
            self.assertIn(f"/usr/{name}", development)

    def test_rerank_in_a_root_of_their_own(self):
        needs(self, "cc", "pkg-config", "ldd")
        enter = chroot_command()
        if not enter:
            self.skipTest("this user can enter no root of its own: neither chroot nor unshare -r works")
        samples = self.root / "usr/share/prefix/samples/c"
        flags = run("pkg-config", "--cflags", "--libs", "prefix_text",
                    environment={"PKG_CONFIG_LIBDIR": str(self.root / "usr/lib/pkgconfig")}).split()
        self.assertIn(f"-L{self.root}/usr/lib", [os.path.normpath(flag) if flag[0] != "-" else flag[:2] + os.path.normpath(flag[2:])
                                                 for flag in flags])
        program = self.root / "rerank"
        run("cc", "-std=c11", "-D_POSIX_C_SOURCE=200809L", samples / "rerank.c", samples / "sample.c", "-o", program, *flags)
        copy_system_libraries(program, self.root)
        copy_system_libraries(self.root / "usr/bin/prefix", self.root)
        model = place(MODEL, self.root).name
        (self.root / "documents").write_text("\n".join(DOCUMENTS) + "\n")
        ranking = json.loads(run(*enter, self.root, "/rerank", f"/{model}", QUERY, "/documents", "--json"))["ranking"]
        self.assertEqual(ranking, expected_ranking())

        (self.root / "in.json").write_text(json.dumps({"task": "rerank", "query": QUERY, "documents": DOCUMENTS}, indent=1))
        found = json.loads(run(*enter, self.root, "/usr/bin/prefix", "run", "--model", f"/{model}", "--in", "/in.json"))
        self.assertEqual((found["status"], found["order"]), ("ok", [entry["index"] for entry in ranking]))
