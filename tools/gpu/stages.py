"""The stages of a run, most important first, each bounded so that the next ones get their turn."""

import sys
from dataclasses import dataclass, field
from pathlib import Path

from . import machine, programs, verdicts
from .clock import ROOT, Clock, Ended
from .figures import json_lines, problem_of
from .programs import LAUNCHES, PROGRAMS, Program, Runner
from .report import Check, Report, not_run


@dataclass
class Run:
    clock: Clock
    build: Path
    report: Report
    environment: dict
    stage: str = ""
    launches: Check | None = None  # of line 5
    problems: dict = field(default_factory=dict)  # (stage, "bench" or "peers"): why figures may be missing
    tests: dict[str, list[Check]] = field(default_factory=dict)  # of line 2, by stage

    def __post_init__(self):
        self.runner = Runner(self.clock, self.build, self.environment)

    def say(self, text: str) -> None:
        print(f"{self.clock.passed():6.0f} s  {text}", flush=True)

    def collect(self, kind: str, name: str, ended: Ended) -> str:
        """Keeps the figures a program printed; returns why there may be too few."""
        lines = json_lines(ended.text)
        getattr(self.report, kind).extend(lines)
        problem, failed = problem_of(name, ended, lines)
        if problem:
            self.problems.setdefault((self.stage, kind), problem)
        if failed:
            self.report.failures.append(problem)
        self.say(f"{name}: {len(lines)} lines{', ' + problem if problem else ''}")
        return problem

    def bench(self, arguments: list[str], seconds: float) -> str:
        """Returns why figures may be missing, or ''."""
        name = "gpu_bench " + " ".join(arguments)
        ended = self.runner.run("bench_" + arguments[-1].strip("-"),
                                [self.build / "bin" / "bench" / "gpu_bench", *arguments], seconds)
        return self.collect("bench", name, ended)

    def peers(self, parts: list[str], seconds: float) -> None:
        seconds = min(seconds, self.clock.left() - 5)
        ended = self.runner.run("peers_" + parts[0], [sys.executable, ROOT / "tools" / "gpu_peers.py",
                                                      str(max(1, int(seconds - 10))), *parts], seconds)
        self.collect("peers", "gpu_peers.py " + " ".join(parts), ended)


def golden_arguments(program: Program, missing: list[str]) -> tuple:
    """The filter of the golden tests that leaves out models that are not here."""
    if not missing:
        return program.arguments
    names = ["".join(c if c.isalnum() else "_" for c in name) for name in missing]
    return (program.arguments[0] + "-" + ":".join([f"*/{name}" for name in names] + ["*99Percent*"]),)


def tests(run: Run) -> None:
    missing, why = machine.golden_models(run.clock)

    def check(program: Program) -> Check:
        done = run.runner.check(program, arguments=golden_arguments(program, missing) if program.golden else None)
        run.say(f"{done.state}: {done.what}: {done.text}")
        return done

    # At once: they measure nothing, and most of their time passes on the host.
    run.tests["tests"] = run.clock.together([lambda p=p: check(p) for p in PROGRAMS])
    if missing:
        run.tests["tests"].append(not_run("golden models", f"{len(missing)} of them are not here: {why}"))


def sanitize(tool: str):
    def stage(run: Run) -> None:
        run.tests[tool] = programs.sanitize(run.runner, tool, 60)
        for check in run.tests[tool]:
            run.say(f"{check.state}: {check.what}: {check.text}")
    return stage


def describe(run: Run) -> None:
    """First of all: how many clusters of each size run at once decides how small steps are planned."""
    run.stage = "device"
    run.bench(["--device"], 60)
    device = next((line for line in run.report.bench if line.get("bench") == "device"), None)
    if not device:
        run.report.notes.append("clusters not known: " + (run.problems.get(("device", "bench")) or "gpu_bench did not say"))
        return
    counts = device.get("clusters") or []
    run.report.machine["clusters"] = counts
    run.report.notes.append(f"clusters of 1 to {len(counts)} blocks that run at once: {' '.join(map(str, counts))}")
    run.say(run.report.notes[-1])


def attention(run: Run) -> None:
    run.launches = run.runner.check(LAUNCHES)
    run.bench(["--attention"], 60)
    run.bench(["--hopper"], 60)
    run.peers(["rates", "sdpa"], 75)
    run.peers(["flex"], 110)


def products(run: Run) -> None:
    run.bench(["--gemm"], 40)
    run.peers(["linear"] if any(line.get("peer") == "matmul" for line in run.report.peers) else ["rates", "linear"], 45)


def others(run: Run) -> None:
    """Beside lines 4 to 6, where they are: no bar is about them."""
    run.peers(["flashinfer"], 100)
    run.peers(["generate"], 75)


def engine(run: Run) -> None:
    for model, seconds in (("qwen3-0.6b", 45), ("qwen3-4b", 75), ("qwen3-8b", 110)):
        problem = run.bench(["--engine", model], seconds)
        if problem:
            run.report.bench.append({"bench": "engine", "model": model, "not_run": problem})


# The kernels that have to win, then those that they have to beat.
PROFILES = [("decode 32x2048", "--hopper", "attention_decode"), ("causal 8k", "--hopper", "attention_hopper"),
            ("decode 32x2048", "--attention", "attention_kernel"), ("causal 8k", "--attention", "attention_kernel")]


def profile(run: Run) -> None:
    """What to look at first: the kernels of decode and of a long prefill under Nsight Compute."""
    ncu = programs.find_tool("ncu")
    if not ncu:
        run.report.notes.append("profile not run: ncu is not here")
        return
    for shape, bench, kernel in PROFILES:
        name = f"ncu_{kernel}_{shape.replace(' ', '_')}"
        # The report beside the log has the source (-lineinfo); ncu-ui shows it.
        ended = run.runner.run(name, [ncu, "--clock-control", "none", "--set", "detailed", "--import-source", "yes",
                                      "--page", "details", "--force-overwrite", "--export", run.runner.logs / name,
                                      "--kernel-name", f"regex:{kernel}", "--launch-skip", "4", "--launch-count", "2",
                                      run.build / "bin" / "bench" / "gpu_bench", "--shape", shape, bench], 40)
        what = f"profile of {kernel}, {shape}"
        if "No kernels were profiled" in ended.text:
            run.report.notes.append(f"{what} not run: no such kernel was launched")
        elif ended.good:
            run.report.notes.append(f"{what}: {run.build.name}/logs/{name}.log")
        else:
            run.report.notes.append(f"{what} not run: {ended.reason()}")


STAGES = {"tests": tests, "attention": attention, "engine": engine, "products": products, "others": others,
          "memcheck": sanitize("memcheck"), "racecheck": sanitize("racecheck"), "profile": profile}


def run_all(run: Run, wanted: list[str]) -> None:
    describe(run)
    for run.stage in [stage for stage in STAGES if stage in wanted]:
        STAGES[run.stage](run)
        conclude(run, wanted)
        run.report.write(run.build)  # should the next stage be the last


def conclude(run: Run, wanted: list[str]) -> None:
    """Every line gets its checks; a stage that did not run is a check that did not run."""
    report = run.report
    report.lines.clear()
    for stage in ("tests", "memcheck", "racecheck"):
        report.add(2, run.tests.get(stage) or [not_run(stage, "--only left it out" if stage not in wanted else "not reached")])
    left_out = {stage: f"--only left out the stage {stage}" for stage in STAGES if stage not in wanted}

    def figures(stage: str) -> verdicts.Figures:
        why = left_out.get(stage, "")
        return verdicts.Figures(report.bench, report.peers, why or run.problems.get((stage, "bench"), ""),
                                why or run.problems.get((stage, "peers"), ""))

    report.add(3, verdicts.prefill(figures("attention")))
    report.add(4, verdicts.suffixes(figures("attention")))
    report.add(5, [*verdicts.decode(figures("attention")),
                   run.launches or not_run(LAUNCHES.what, left_out.get("attention", "not reached"))])
    report.add(6, verdicts.models(figures("engine")))
    report.add(7, verdicts.products(figures("products")))
