"""samples/server/Containerfile, step by step, in a root that mmdebstrap makes instead of an engine for containers. A step
that is not known here fails, so that neither can go its own way."""

import glob
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import unittest
import urllib.request
from pathlib import Path

from packed import DOCUMENTS, MODEL, QUERY, ROOT, expected_ranking, folders_named, needs, place, run

CONTAINERFILE = ROOT / "samples/server/Containerfile"


def steps(text):
    """[(instruction, what it says), ...]"""
    lines = re.sub(r"\\\n\s*", " ", re.sub(r"^#.*\n", "", text, flags=re.M)).splitlines()
    return [tuple(line.split(maxsplit=1)) for line in lines if line.strip()]


class Container(unittest.TestCase):
    def setUp(self):
        needs(self, "mmdebstrap", "dpkg-deb", "unshare", "cargo")
        if os.geteuid() != 0:
            self.skipTest("only root can make a root of its own with a system in it")
        self.context = Path(tempfile.mkdtemp(prefix="prefix-container-"))
        self.addCleanup(shutil.rmtree, self.context)
        self.root = Path(tempfile.mkdtemp(prefix="prefix-container-root-", dir="/var/tmp"))
        self.addCleanup(shutil.rmtree, self.root)
        run(ROOT / "tools/debian_packages", self.context)
        fetched = subprocess.run(["cargo", "fetch", "--locked", "--manifest-path", ROOT / "samples/server/Cargo.toml"],
                                 capture_output=True, text=True)
        if fetched.returncode != 0:
            self.skipTest(f"the crates of the service cannot be fetched: {fetched.stderr.strip().splitlines()[-1]}")
        run(ROOT / "samples/server/debian_package", self.context)
        self.user = "root"

    def make_root(self, image):
        suite = {"docker.io/library/debian:12-slim": "bookworm"}[image]
        # How this machine reaches Debian's packages.
        settings = self.context / "apt.conf"
        dump = run("apt-config", "dump")
        settings.write_text("\n".join(line for line in dump.splitlines() if re.match(r"Acquire::(https?|Retries|Check)", line)))
        sources = [path for path in ("/etc/apt/sources.list", *glob.glob("/etc/apt/sources.list.d/*"))
                   if re.search(rf"^[^#]*\b{suite}-security\b", Path(path).read_text() if Path(path).is_file() else "", re.M)]
        made = subprocess.run(["mmdebstrap", "--quiet", "--variant=minbase", f"--aptopt={settings}", suite, self.root, *sources],
                              capture_output=True, text=True)
        if made.returncode != 0:
            self.skipTest(f"mmdebstrap makes no root: {made.stderr.strip().splitlines()[-1]}")
        shutil.copy(settings, self.root / "etc/apt/apt.conf.d/99settings")
        for file in ("etc/resolv.conf", "etc/hosts"):
            shutil.copy(Path("/") / file, self.root / file)

    def inside(self, command, user):
        """A command in the root, which has the processes of this machine to look at and nothing else of it."""
        enter = f'mount --bind /proc "$1/proc" && exec chroot --userspec={user} "$@"'
        return ["unshare", "--mount", "sh", "-c", enter, "sh", str(self.root), *command]

    def test_its_steps_make_a_service(self):
        entry, rest = None, []
        for instruction, said in steps(CONTAINERFILE.read_text()):
            match instruction:
                case "FROM":
                    self.make_root(said)
                case "COPY":
                    *patterns, target = said.split()
                    (self.root / target.lstrip("/")).mkdir(parents=True)
                    for pattern in patterns:
                        found = list(self.context.glob(pattern))
                        self.assertEqual(len(found), 1, pattern)
                        shutil.copy(found[0], self.root / target.lstrip("/"))
                case "RUN":
                    run(*self.inside(["/bin/sh", "-c", said], self.user), environment={"DEBIAN_FRONTEND": "noninteractive"})
                case "USER":
                    self.user = said
                case "ENTRYPOINT":
                    entry = json.loads(said)
                case "CMD":
                    rest = json.loads(said)
                case "EXPOSE":
                    self.assertEqual(said, "8080")
                case "STOPSIGNAL":
                    self.assertEqual(said, "SIGTERM")
                case _:
                    self.fail(f"{instruction} is not known to this test")
        self.assertIn("usage: prefix-server", run(*self.inside(entry + rest, self.user)))
        self.assertEqual(folders_named([self.root / "usr/bin/prefix-server"]), [])
        self.assertFalse((self.root / "tmp/packages").exists())
        self.assertEqual(list((self.root / "var/lib/apt/lists").glob("*Packages*")), [])
        model = place(MODEL, self.root).name
        # A port that is free instead of the one that a container has for itself.
        command = self.inside([*entry, "--model", f"/{model}", "--listen", "127.0.0.1:0"], self.user)
        service = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.addCleanup(service.stdout.close)
        try:
            url = re.search(r"http://\S+", service.stdout.readline())[0]
            owner = Path(f"/proc/{service.pid}/status").read_text()
            self.assertNotRegex(owner, r"\nUid:\s+0\b")
            body = json.dumps({"query": QUERY, "documents": DOCUMENTS}).encode()
            with urllib.request.urlopen(urllib.request.Request(f"{url}/v1/rerank", body)) as answer:
                found = json.load(answer)["results"]
            self.assertEqual([entry["index"] for entry in found], [entry["index"] for entry in expected_ranking()])
        finally:
            service.send_signal(signal.SIGTERM)
            self.assertEqual(service.wait(), 0)


if __name__ == "__main__":
    unittest.main()
