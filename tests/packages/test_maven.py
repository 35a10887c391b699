"""The Maven artifacts: jars of classes, sources, documentation and natives, and a program that has the first and last only."""

import re
import shutil
import tempfile
import unittest
import zipfile
from pathlib import Path

from packed import BUILD, DOCUMENTS, MODEL, QUERY, ROOT, expected_ranking, folders_named, needs, run

PARTS = ("", "-sources", "-javadoc", "-linux-x86_64")
PROGRAM = """import io.prefix.*;
import java.nio.file.Path;
import java.util.List;

public final class Stranger {
    public static void main(String[] arguments) throws Exception {
        Path model = Path.of(arguments[0]);
        try (Engine engine = Engine.open(model); Tokenizer tokenizer = Tokenizer.open(model)) {
            var documents = List.of(arguments).subList(2, arguments.length);
            for (Ranked r : Tasks.rerank(engine, tokenizer, arguments[1], documents, null).results()) {
                System.out.println(r.index() + " " + r.score());
            }
        }
    }
}
"""


def mtime(path):
    return path.stat().st_mtime


class Maven(unittest.TestCase):
    def test_rerank_by_the_jars(self):
        needs(self, "mvn", "javac", "java", "cc")
        run(ROOT / "bindings/java/build_native")
        version = re.search(r"<version>([\d.]+)</version>", (ROOT / "bindings/java/pom.xml").read_text())[1]
        jars = [BUILD / "java-target" / f"prefix-{version}{part}.jar" for part in PARTS]
        made_of = [file for folder in (ROOT / "bindings/java", BUILD / "java-native") for file in folder.rglob("*")]
        # The tests of the bindings may just have made them.
        if not all(jar.exists() for jar in jars) or min(map(mtime, jars)) < max(map(mtime, made_of)):
            run("mvn", "-B", "-q", "-f", ROOT / "bindings/java/pom.xml", "-P", "release", "-DskipTests", "package")
        self.assertEqual(version, re.search(r"^project\(prefix VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(), re.M)[1])
        folder = Path(tempfile.mkdtemp(prefix="prefix-maven-"))
        self.addCleanup(shutil.rmtree, folder)
        contents = {}
        for part, jar in zip(PARTS, jars):
            shutil.copy(jar, folder)
            with zipfile.ZipFile(jar) as archive:
                contents[part] = archive.namelist()
                archive.extractall(folder / "inside" / (part or "classes"))
        self.assertEqual(folders_named((folder / "inside").rglob("*")), [])
        self.assertIn("io/prefix/Engine.class", contents[""])
        self.assertEqual([name for name in contents[""] if name.endswith((".so", ".so.1"))], [])
        for part in ("", "-linux-x86_64"):
            self.assertLessEqual({"META-INF/LICENSE", "META-INF/THIRD-PARTY-NOTICES"}, set(contents[part]))
        self.assertIn("io/prefix/Engine.java", contents["-sources"])
        self.assertTrue(any(name.endswith("io/prefix/Engine.html") for name in contents["-javadoc"]))
        self.assertEqual(sorted(name.split("/")[-1] for name in contents["-linux-x86_64"] if ".so" in name),
                         ["libprefix.so.1", "libprefix_java.so", "libprefix_text.so.1"])

        (folder / "Stranger.java").write_text(PROGRAM)
        classes, natives = (folder / f"prefix-{version}{part}.jar" for part in ("", "-linux-x86_64"))
        run("javac", "-cp", classes, "-d", folder, folder / "Stranger.java")
        left = folder / "extracted"
        left.mkdir()
        lines = run("java", f"-Dprefix.native.extract={left}", "-cp", f"{classes}:{natives}:{folder}", "Stranger", MODEL, QUERY, *DOCUMENTS,
                    cwd=folder).splitlines()
        self.assertEqual([line.split()[0] for line in lines], [str(entry["index"]) for entry in expected_ranking()])
        for line, entry in zip(lines, expected_ranking()):
            self.assertAlmostEqual(float(line.split()[1]), entry["score"], places=6)
        self.assertEqual(list(left.iterdir()), [])
