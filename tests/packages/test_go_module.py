"""The Go module: packed with its libraries, fetched by `go get` from a proxy of files, and used without any flag."""

import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from packed import BUILD, DOCUMENTS, MODEL, QUERY, ROOT, expected_ranking, folders_named, needs, run

PROGRAM = """package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"prefix.io/prefix"
)

func main() {
	ctx := context.Background()
	engine, err := prefix.Open(ctx, os.Args[1], nil)
	if err != nil {
		log.Fatal(err)
	}
	tokenizer, err := prefix.OpenTokenizer(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	ranking, _, err := prefix.Rerank(ctx, engine, tokenizer, os.Args[2], os.Args[3:], nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, place := range ranking {
		fmt.Println(place.Index, place.Score)
	}
}
"""


class GoModule(unittest.TestCase):
    def test_rerank_by_what_go_get_fetched(self):
        needs(self, "strip", "cc")
        found = subprocess.run([ROOT / "bindings/go/env", "go", "env", "GOVERSION", "GOROOT"], capture_output=True, text=True).stdout
        if tuple(map(int, re.findall(r"\d+", found.split("\n")[0])[:2])) < (1, 24):
            self.skipTest("go 1.24 or newer is not installed")
        go = Path(found.split("\n")[1]) / "bin" / "go"
        folder = Path(tempfile.mkdtemp(prefix="prefix-go-"))
        self.addCleanup(shutil.rmtree, folder)
        run(ROOT / "bindings/go/package", BUILD / "lib", folder / "proxy")
        program = folder / "stranger"
        program.mkdir()
        (program / "main.go").write_text(PROGRAM)
        environment = {"GOPROXY": f"file://{folder}/proxy", "GOSUMDB": "off", "GOMODCACHE": str(folder / "cache"), "GOFLAGS": "-modcacherw",
                       "PKG_CONFIG": "/nowhere/pkg-config"}
        run(go, "mod", "init", "example.com/stranger", cwd=program, environment=environment)
        run(go, "get", "prefix.io/prefix@latest", cwd=program, environment=environment)
        for name in ("LICENSE", "THIRD-PARTY-NOTICES"):
            self.assertTrue(list((folder / "cache").rglob(name)), name)
        shutil.rmtree(folder / "proxy")
        self.assertEqual(folders_named((folder / "cache").rglob("*")), [])
        run(go, "build", "-o", folder / "rank", ".", cwd=program, environment=environment)
        lines = run(folder / "rank", MODEL, QUERY, *DOCUMENTS, cwd="/").splitlines()
        self.assertEqual([line.split()[0] for line in lines], [str(entry["index"]) for entry in expected_ranking()])
        for line, entry in zip(lines, expected_ranking()):
            self.assertAlmostEqual(float(line.split()[1]), entry["score"], places=6)

        # Taken elsewhere, with the libraries beside it.
        (folder / "shipped").mkdir()
        for file in [folder / "rank", *(folder / "cache").rglob("libprefix*.so.1")]:
            shutil.move(file, folder / "shipped" / file.name)
        self.assertEqual(run(folder / "shipped/rank", MODEL, QUERY, *DOCUMENTS, cwd="/").splitlines(), lines)
