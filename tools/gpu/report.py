"""The table of gpu_check: a line for each demand, and what may be said of it.

A line is made of checks. It is "missed" if one of them is; "met" only if there are some and all of them are met;
everything else is "not run". So what did not run can never read as a success.
"""

import json
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path

MET, MISSED, NOT_RUN = "met", "missed", "not run"

# The demands: line, what, bar.
LINES = {
    2: ("every operation against float64, every golden model, same bits, compute-sanitizer",
        "all pass on the GPU, memcheck and racecheck clean, rel-L2 <= 3e-3 in bf16"),
    3: ("causal prefill of 4k, 8k, 16k tokens, attention only", ">= 0.75 of the speed of cuDNN"),
    4: ("suffixes: 32x128, 100x100, 1000x50 behind 2048 shared tokens, attention only",
        ">= 0.8 of cuDNN's rate without a mask, >= 1.3 of FlexAttention"),
    5: ("decode: 32 behind 2048, 128 behind 1024, 32 behind 8192 shared tokens, one layer",
        "<= 1.5 x roofline + 5 us, one launch, >= 4 of paged decode without sharing"),
    6: ("(32, 2048, 256) by Qwen3-0.6B / 4B / 8B, shared against unshared of our own", ">= 5.0 / 5.6 / 5.8"),
    7: ("matrix products of 4096 rows and more",
        ">= 0.85 of the measured bf16 matmul rate, or >= 0.95 of torch linear on the same shape"),
}


@dataclass(frozen=True)
class Check:
    what: str
    state: str
    text: str

    def __post_init__(self):
        if self.state not in (MET, MISSED, NOT_RUN):
            raise ValueError(f"no state: {self.state}")
        if not self.text:
            raise ValueError(f"{self.what}: {self.state} without a figure or a reason")


def not_run(what: str, why: str) -> Check:
    return Check(what, NOT_RUN, why)


def compare(what: str, figure: float, bar: float, text: str, at_most: bool = False) -> Check:
    """A figure beside its bar. A figure that is no positive number is no figure."""
    if not math.isfinite(figure) or figure <= 0:
        return not_run(what, f"no figure: {figure}")
    return Check(what, MET if (figure <= bar if at_most else figure >= bar) else MISSED, text)


def state_of(checks: list[Check]) -> str:
    states = [check.state for check in checks]
    if MISSED in states:
        return MISSED
    return MET if states and NOT_RUN not in states else NOT_RUN


def grouped(checks: list[Check]) -> list[str]:
    """A row for each check; those that did not run for the same reason share one."""
    rows, shared = [], {}
    for check in checks:
        if check.state == NOT_RUN:
            shared.setdefault(check.text, []).append(check.what)
        else:
            rows.append(f"  {check.state:<8}{check.what}: {check.text}")
    return rows + [f"  {NOT_RUN:<8}{'; '.join(names)}: {why}" for why, names in shared.items()]


@dataclass
class Report:
    machine: dict = field(default_factory=dict)
    lines: dict[int, list[Check]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)  # of what ran: programs that crashed, a build that broke
    bench: list[dict] = field(default_factory=list)
    peers: list[dict] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seconds: float = 0

    def add(self, line: int, checks: list[Check]) -> None:
        self.lines.setdefault(line, []).extend(checks)

    def state(self, line: int) -> str:
        return state_of(self.lines.get(line, []))

    def text_of(self, line: int) -> str:
        """"line N: met | missed | not run: why", then a line for each check."""
        what, bar = LINES[line]
        checks = self.lines.get(line) or [not_run(what, "nothing asked for it")]
        first = next((c for state in (MISSED, NOT_RUN) for c in checks if c.state == state), None)
        head = f"line {line}: {state_of(checks)}"
        if first:
            counts = ", ".join(f"{sum(c.state == s for c in checks)} {s}" for s in (MET, MISSED, NOT_RUN)
                               if any(c.state == s for c in checks))
            reason = first.text if len(checks) == 1 else f"{first.what}: {first.text}; of {len(checks)} checks: {counts}"
            head += f": {reason}"
        rows = [head, f"  {what}", f"  bar: {bar}"]
        if len(checks) > 1:
            rows += grouped(checks)
        elif not first:
            rows.append(f"  {checks[0].what}: {checks[0].text}")
        return "\n".join(rows)

    def text(self) -> str:
        return "\n".join([self.text_of(line) for line in LINES] + [f"note: {n}" for n in self.notes]
                         + [f"failed: {f}" for f in self.failures]) + "\n"

    def exit_code(self) -> int:
        return 1 if self.failures or any(self.state(line) == MISSED for line in LINES) else 0

    def write(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        lines = [{"line": n, "what": LINES[n][0], "bar": LINES[n][1], "state": self.state(n),
                  "checks": [asdict(c) for c in self.lines.get(n, [])]} for n in LINES]
        whole = {"lines": lines, "failures": self.failures, "notes": self.notes, "machine": self.machine,
                 "seconds": round(self.seconds, 1), "bench": self.bench, "peers": self.peers}
        (folder / "gpu_check.json").write_text(json.dumps(whole, indent=1) + "\n")
        (folder / "gpu_check.txt").write_text(self.text())
