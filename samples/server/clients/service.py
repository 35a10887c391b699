"""Starts the program for a test, and asks it without any client. PREFIX_SERVER names the program."""

import json
import os
import re
import signal
import subprocess
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
MODEL = ROOT / "build" / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
LIBRARIES = os.environ.get("PREFIX_LIB_DIR", str(ROOT / "build" / "lib"))


class Service:
    """The program with these options; `urls` are those that it prints, the one for requests first."""

    def __init__(self, *options, lines=1, model=MODEL):
        command = [os.environ["PREFIX_SERVER"], "--model", model, "--name", "small", "--listen", "127.0.0.1:0", *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, "LD_LIBRARY_PATH": LIBRARIES})
        said = [self.process.stdout.readline() for _ in range(lines)]
        self.urls = [re.search(r"(http|tcp)://\S+", line)[0] for line in said]
        self.url = self.urls[0]

    def post(self, path, body, **headers):
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    def get(self, path):
        with urllib.request.urlopen(self.url + path) as answer:
            return answer.headers, answer.read().decode()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait()
        self.process.stdout.close()
        assert code == 0, code
