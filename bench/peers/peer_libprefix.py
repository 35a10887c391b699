"""libprefix through the prefix command: a batch a line in, seconds and tokens out."""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("model")
parser.add_argument("--threads", type=int, required=True)
parser.add_argument("--option", action="append", default=[], metavar="KEY=VALUE")
arguments = parser.parse_args()

command = Path(__file__).resolve().parents[2] / "build/bin/prefix"
engine = subprocess.Popen([str(command), "run", "--model", arguments.model, "--threads", str(arguments.threads),
                           "--progress", "off", *(word for option in arguments.option for word in ("--option", option))], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
print("{}", flush=True)  # ready
for line in sys.stdin:
    batch = json.loads(line)
    lines = [json.dumps({"tokens": ids, "max_tokens": batch["generate"], "ignore_eos": True}) for ids in batch["requests"]]
    begin = time.perf_counter()
    engine.stdin.write("\n".join([*lines, '{"flush": true}']) + "\n")
    engine.stdin.flush()
    results = [json.loads(engine.stdout.readline()) for _ in lines]
    seconds = time.perf_counter() - begin
    if bad := [r for r in results if r["status"] != "ok"]:
        sys.exit(f"{bad[0]}")
    print(json.dumps({"seconds": seconds, "tokens": [r["tokens"] for r in results]}), flush=True)
engine.stdin.close()
engine.wait()
