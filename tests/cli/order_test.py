#!/usr/bin/env python3
"""Tests of `prefix order` and `prefix partition`, from outside: order_test.py [--bin DIR] [unittest arguments].

The last line is "N passed, N failed, N skipped".
"""

import csv
import io
import json
import random
import subprocess
import sys
import unittest

from outside import BIN, SHARED, lines, main, prefix

FILMS = [{"id": 1, "film": "Dune", "text": "a \"quoted\"\nline"}, {"id": 2, "film": "Heat", "text": None},
         {"id": 3, "film": "Dune", "text": "é"}, {"id": 4, "text": "no film"}]


def order(rows, *flags, code=0):
    done = prefix("order", *flags, stdin=rows if isinstance(rows, str) else lines(rows))
    assert done.returncode == code, f"exit code {done.returncode}, expected {code}: {done.stderr}"
    return done


def partition(rows, *flags, code=0):
    done = prefix("partition", *flags, stdin=rows if isinstance(rows, str) else lines(rows))
    assert done.returncode == code, f"exit code {done.returncode}, expected {code}: {done.stderr}"
    return done


def shared_bytes(texts):
    """Bytes that texts share with the one before."""
    total = 0
    for before, text in zip(texts, texts[1:]):
        while before and not text.startswith(before):
            before = before[:-1]
        total += len(before)
    return total


class Order(unittest.TestCase):
    def test_rows_come_out_as_they_went_in(self):
        done = order(FILMS)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(sorted(rows, key=lambda r: r["id"]), FILMS)
        films = [list(r)[0] for r in rows if r.get("film") == "Dune"]
        self.assertEqual(films, ["film", "film"])  # in front, so that the two begin alike
        places = [i for i, r in enumerate(rows) if r.get("film") == "Dune"]
        self.assertEqual(places[1] - places[0], 1)
        self.assertIn("4 rows, 3 columns: 0.0 % of their bytes were shared", done.stderr)

    def test_columns_that_only_go_along_stand_last(self):
        rows = [json.loads(line) for line in order(FILMS, "--columns", "film,text").stdout.splitlines()]
        self.assertEqual([list(r)[-1] for r in rows], ["id"] * 4)

    def test_it_saves_and_says_how_much(self):
        rng = random.Random(1)
        rows = [{"n": i, "brand": f"brand {rng.randrange(5)} of many", "kind": f"kind {rng.randrange(9)}",
                 "flag": rng.randrange(2)} for i in range(400)]
        summary = SHARED["folder"] / "summary.json"
        out = order(rows, "--summary", summary).stdout.splitlines()
        figures = json.loads(summary.read_text())
        self.assertEqual((figures["rows"], figures["columns"]), (400, 4))
        given = [json.dumps(r, separators=(",", ":")) for r in rows]
        self.assertEqual(figures["bytes"], sum(len(line) - 1 for line in given))  # without its brackets, and one comma more
        self.assertGreater(figures["hit"], 0.5 * figures["bytes"])
        self.assertGreaterEqual(shared_bytes(out), figures["hit"])
        self.assertGreater(shared_bytes(out), 4 * shared_bytes(given))

    def test_csv(self):
        text = 'id,film,"te,xt"\r\n1,Dune,"a ""b"", c"\r\n2,Heat,"two\nlines"\r\n3,Dune,\r\n'
        out = order(text, "--format", "csv").stdout
        rows = list(csv.reader(io.StringIO(out)))
        self.assertEqual(rows[0], ["id", "film", "te,xt", "prompt_order"])
        self.assertEqual(sorted(r[:3] for r in rows[1:]),
                         [["1", "Dune", 'a "b", c'], ["2", "Heat", "two\nlines"], ["3", "Dune", ""]])
        for row in rows[1:]:
            names = next(csv.reader([row[3]]))
            self.assertEqual(sorted(names), ["film", "id", "te,xt"])
            if row[1] == "Dune":
                self.assertEqual(names[0], "film")
        path, to = SHARED["folder"] / "table.csv", SHARED["folder"] / "ordered.csv"
        path.write_text(text)
        order("", "--in", path, "--out", to)
        self.assertEqual(list(csv.reader(io.StringIO(to.read_text()))), rows)

    def test_csv_may_begin_with_a_byte_order_mark(self):
        self.assertEqual(order("\ufeffa,b\n1,2\n", "--format", "csv", "--columns", "a").stdout, "a,b,prompt_order\n1,2,a\n")
        self.assertEqual(order('\ufeff"a"\n1\n', "--format", "csv").stdout, "a,prompt_order\n1,a\n")
        self.assertIn("byte order mark", order('\ufeff{"a":1}\n', code=2).stderr)  # as everywhere in JSON

    def test_a_field_has_any_number_of_lines(self):
        # Far beyond the time limit of prefix() where a record is looked at from its beginning for each of its lines.
        lines_of_a_field = "\n" * 3_000_000
        self.assertEqual(order(f'a\n"{lines_of_a_field}"\n', "--format", "csv").stdout,
                         f'a,prompt_order\n"{lines_of_a_field}",a\n')

    def test_nothing_and_little(self):
        self.assertEqual(order("").stdout, "")
        self.assertEqual(order("\n\n").stdout, "")
        self.assertEqual(order("{}\n{}\n").stdout, "{}\n{}\n")
        self.assertEqual(order("a,b\n", "--format", "csv").stdout, "a,b,prompt_order\n")

    def test_what_is_refused(self):
        for rows, flags, words in [
                ("[1]\n", [], ["line 1", "object"]), ('[1,{"a":1}]\n', [], ["line 1", "not an object"]), ('{"a":1}\n\n{"a":\n', [], ["line 3", "not JSON"]),
                ('{"a":1,"a":2}\n', [], ["line 1", '"a" occurs twice']),
                ('{"a":{"b":1,"b":2}}\n', [], ["line 1", '"b" occurs twice']),
                ('{"a":1e999}\n', [], ["line 1", 'field "a" has a number that is too large; the largest is 1.8e308']),
                ('{"a":tru}\n', [], ["line 1", "not JSON at byte 8 of the row"]),
                ('{"a":' + "[" * 32 + "]" * 32 + "}\n", [], ["line 1", "32 levels"]),
                ('"a"\n', [], ["line 1", "not an object"]), ('[[{"a":1}],2\n', [], ["line 1", "not JSON"]),
                ('{"a":1}\n', ["--columns", "b"], ['"b"', "no row has"]),
                ('{"a":1}\n', ["--columns", ""], ["--columns is empty"]),
                ("a,b\n1\n", ["--format", "csv"], ["line 2 has 1 fields", "header has 2"]),
                ("a,a\n1,2\n", ["--format", "csv"], ["line 1", "two columns", '"a"']),
                ("a,prompt_order\n", ["--format", "csv"], ["prompt_order already"]),
                ('a\n"x\n', ["--format", "csv"], ["line 2", "not closed"]),
                ('a\n"x"y\n', ["--format", "csv"], ["line 2", "beside its double quotes"])]:
            done = order(rows, *flags, code=2)
            self.assertEqual(done.stdout, "")
            for word in words:
                self.assertIn(word, done.stderr)
        path = SHARED["folder"] / "same.jsonl"
        path.write_text('{"a":1}\n')
        self.assertIn("would be emptied", order("", "--in", path, "--out", path, code=2).stderr)
        self.assertEqual(path.read_text(), '{"a":1}\n')

    def test_progress(self):
        done = order([{"a": i} for i in range(3000)], "--progress", "on")
        self.assertIn("ordering", done.stderr)
        path = SHARED["folder"] / "long.jsonl"
        path.write_text(lines([{"a": i} for i in range(3000)]))
        self.assertIn("reading", order("", "--in", path, "--progress", "on").stderr)


class Input(unittest.TestCase):
    def test_what_was_read_of_standard_input_is_not_read_again(self):
        path = SHARED["folder"] / "read.jsonl"
        path.write_text(lines([{"text": "a"}, {"text": "b"}]))
        for command in (["order"], ["partition", "--parts", "1"]):
            with open(path, "rb", buffering=0) as source:
                source.readline()
                done = subprocess.run([BIN / "prefix", *command], stdin=source, capture_output=True, text=True)
            self.assertEqual([json.loads(line)["text"] for line in done.stdout.splitlines()], ["b"], command)


class Values(unittest.TestCase):
    def test_they_come_out_as_they_are_written(self):
        row = ('{"id": 12345678901234567890123, "x": 0.12345678901234567891, "n": 1.10, "e": 1e3, "s": "a\\n\\u00e9", '
               '"l": [1.0, {"b": 1, "a": [], "c": {}}], "t": true, "0": null}')
        done = prefix("order", stdin=row + "\n")
        self.assertEqual(done.returncode, 0, done.stderr)
        values = {"id": "12345678901234567890123", "x": "0.12345678901234567891", "n": "1.10", "e": "1e3", "s": '"a\\né"',
                  "l": '[1.0,{"b":1,"a":[],"c":{}}]', "t": "true", "0": "null"}
        for name, value in values.items():
            self.assertIn(f'"{name}":{value}', done.stdout)
        self.assertEqual(len(done.stdout), 2 + sum(len(name) + len(value) + 4 for name, value in values.items()))

    def test_what_is_no_row_is_named(self):
        done = prefix("order", stdin='[1]\n')
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("line 1: the row is not an object", done.stderr)


class Partition(unittest.TestCase):
    def test_lines_come_out_as_they_are_with_their_part(self):
        rows = ['{"tokens":[1,2,3], "id": "a"}', '{"tokens":[7,8,9],"x":1.50}', '{"tokens": [1,2,4]}', '{"tokens":[7,8,6]}']
        out = partition(rows, "--parts", 2).stdout.splitlines()
        self.assertEqual([line[:line.rindex(',"part":')] + "}" for line in out], [rows[0], rows[2], rows[3], rows[1]])
        self.assertEqual([json.loads(line)["part"] for line in out], [0, 0, 1, 1])

    def test_any_stream_of_json_is_read(self):
        rows = [{"tokens": [1, 2, 3]}, {"tokens": [7, 8]}, {"tokens": [1, 2, 9]}]
        table = [{"id": i, "film": f} for i, f in enumerate(["Dune", "Heat", "Dune"])]
        for write in (lambda r: json.dumps(r, indent=2), json.dumps, lambda r: "\n".join(json.dumps(x, indent=1) for x in r)):
            out = prefix("partition", "--parts", 2, stdin=write(rows)).stdout
            self.assertEqual([json.loads(line)["tokens"] for line in out.splitlines()], [[1, 2, 3], [1, 2, 9], [7, 8]])
            out = prefix("order", stdin=write(table)).stdout
            self.assertEqual(len(out.splitlines()), 3)
            self.assertEqual(sorted(json.loads(line)["id"] for line in out.splitlines()), [0, 1, 2])
        done = prefix("order", stdin='[{"a":1},\n{"a":2}\n')
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("the list that begins in line 1 is not closed", done.stderr)

    def test_figures(self):
        rng = random.Random(2)
        rows = [{"text": f"document {i % 40} " * 30 + str(rng.random())} for i in range(800)]
        rng.shuffle(rows)
        summary = SHARED["folder"] / "parts.json"
        done = partition(rows, "--parts", 8, "--summary", summary)
        figures = json.loads(summary.read_text())
        parts = {}
        for line in done.stdout.splitlines():
            row = json.loads(line)
            parts.setdefault(row["part"], []).append(row["text"])
        count = lambda texts: len({t[:n] for t in texts for n in range(1, len(t) + 1)})
        self.assertEqual(figures["work"], [count(parts[p]) for p in range(8)])
        self.assertEqual(figures["computed"], sum(figures["work"]))
        self.assertEqual(figures["largest"], max(figures["work"]))
        self.assertEqual(figures["tokens"], sum(len(r["text"]) for r in rows))
        self.assertEqual(figures["prompts"], 800)
        self.assertLess(figures["computed"], 1.03 * figures["distinct"])
        self.assertIn("800 prompts", done.stderr)
        loose = partition(rows, "--parts", 8, "--balance", "2", "--summary", summary)
        self.assertLessEqual(json.loads(summary.read_text())["computed"], figures["computed"])
        self.assertEqual(loose.returncode, 0)

    def test_csv_and_fields(self):
        out = partition("id,q\n1,\"aa,b\"\n2,zz\n3,\"aa,c\"\n", "--format", "csv", "--field", "q", "--parts", 2).stdout
        self.assertEqual(out, 'id,q,part\n1,"aa,b",0\n3,"aa,c",0\n2,zz,1\n')
        out = partition([{"m": [{"role": "user"}]}], "--field", "m", "--parts", 3).stdout
        self.assertEqual(json.loads(out), {"m": [{"role": "user"}], "part": 0})
        self.assertEqual(partition("", "--parts", 4).stdout, "")
        out = partition("\ufefftext,n\naa,1\n", "--format", "csv", "--parts", 1).stdout
        self.assertEqual(out, "text,n,part\naa,1,0\n")

    def test_what_is_refused(self):
        good = '{"tokens":[1]}\n'
        for rows, flags, words in [
                (good, [], ["--parts"]), (good, ["--parts", "0"], ["--parts", "0", "1048576"]),
                (good, ["--parts", "2", "--balance", "0.5"], ["--balance", "0.5", "at least 1"]),
                (good, ["--parts", "2", "--balance", "2000000"], ["balance is 2e+06", "1e+06"]),
                ('{"tokens":[1,-2]}\n', ["--parts", "2"], ["line 1", "-2"]),
                ('{"tokens":[1.5]}\n', ["--parts", "2"], ["line 1", "1.5"]),
                ('{"tokens":[99999999999999999999]}\n', ["--parts", "2"], ["line 1"]),
                ('{"tokens":[18446744073709551615]}\n', ["--parts", "2"], ["line 1", "18446744073709551615"]),
                (good + '{"prompt":"x"}\n', ["--parts", "2"], ["line 2", '"text"']),
                ('{"text":"x","part":1}\n', ["--parts", "2"], ["line 1", "part"]),
                ("a,b\n1,2\n", ["--parts", "2", "--format", "csv"], ['"text"', "--field"])]:
            done = partition(rows, *flags, code=2)
            self.assertEqual(done.stdout, "")
            for word in words:
                self.assertIn(word, done.stderr)


if __name__ == "__main__":
    sys.exit(main())
