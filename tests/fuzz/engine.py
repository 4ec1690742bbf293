"""Runs a fuzz target of the engine, which ./dev fuzz has built, for a while; keeps its corpus and what it finds.

`python tests/fuzz/engine.py TARGET [--minutes N] [--build FOLDER]` exits with 1 if there were findings. Each is stored
in FOLDER/findings/TARGET with a text that says what it did and how to repeat it; FOLDER/runs.jsonl has a line a run.
MINNOW_ISA, MINNOW_BF16 and MINNOW_FUZZ_PRECISION (high, normal, low) choose what is run.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
TARGETS = ("model", "packed", "saved", "state")
SECONDS, MEGABYTES, MOST_BYTES = 10, 2048, 16384
MOST_FINDINGS = 20
FIRST_LINES = 12  # of what a finding did, which are printed
SETTINGS = ("MINNOW_ISA", "MINNOW_BF16", "MINNOW_FUZZ_PRECISION")
SANITIZERS = {
    "ASAN_OPTIONS": "allocator_may_return_null=1:quarantine_size_mb=16:detect_stack_use_after_return=0",
    "UBSAN_OPTIONS": "print_stacktrace=1",
}


def command(program: Path, *rest: object) -> list[str]:
    flags = [
        f"-rss_limit_mb={MEGABYTES}",
        # Under the sanitizers, and beside other processes: what is reported is run again by itself.
        f"-timeout={3 * SECONDS}",
        f"-max_len={MOST_BYTES}",
        "-len_control=0",
        "-reload=0",
        # Its schedule by the rarity of what files reach takes three quarters of the time, with thousands of them.
        "-entropic=0",
        "-print_final_stats=1",
    ]
    return [str(program), *flags, *map(str, rest)]


def environment() -> dict[str, str]:
    symbolizer = shutil.which("llvm-symbolizer") or shutil.which("llvm-symbolizer-14")
    return {**os.environ, **SANITIZERS, **({"ASAN_SYMBOLIZER_PATH": symbolizer} if symbolizer else {})}


def is_slow(program: Path, path: Path) -> bool:
    """Whether it takes too much time of the processor, too, when it is run again."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command(program, path), capture_output=True, env=environment(), check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return done.returncode != 0 or after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime > SECONDS


def keep(finding: Path, log: str, program: Path, folder: Path) -> bool:
    """Stores a finding with how to repeat it; False if it is none."""
    if finding.name.startswith("timeout-") and not is_slow(program, finding):
        return False
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / finding.name
    finding.replace(kept)
    chosen = [f"{name}={os.environ[name]}" for name in SETTINGS if name in os.environ]
    start = max(log.find("ERROR: "), 0)
    error = re.search(r"[^\n]*runtime error:", log)
    text = log[min(start, error.start()) if error and start else error.start() if error else start :]
    again = " ".join([*chosen, str(program), str(kept)])
    kept.with_name(f"{kept.name}.txt").write_text(f"To repeat it:\n    {again}\n\n{text[:20000]}", "utf-8")
    first = "\n".join(text.splitlines()[:FIRST_LINES])
    print(f"found {kept}, described in {kept.name}.txt:\n{first}", flush=True)  # noqa: T201
    return True


def seed(target: str, build: Path) -> Path:
    folder = build / "seeds" / target
    if not (folder / "done").exists():
        subprocess.run(
            [sys.executable, str(HERE / "seeds.py"), target, str(folder)], check=True, stdout=subprocess.PIPE
        )
    return folder


def run(target: str, minutes: float, build: Path) -> int:
    program = build / "tests" / "fuzz" / f"fuzz_{target}"
    seeds, corpus, new = seed(target, build), build / "corpus" / target, build / "new" / target
    for folder in (corpus, new):
        folder.mkdir(parents=True, exist_ok=True)
    end, executions, findings, begin = time.monotonic() + 60 * minutes, 0, 0, time.monotonic()
    while (left := end - time.monotonic()) > 1 and findings < MOST_FINDINGS:
        log = build / f"{target}.log"
        with log.open("wb") as file:
            arguments = command(program, f"-max_total_time={int(left) + 1}", f"-artifact_prefix={new}/", corpus, seeds)
            status = subprocess.run(arguments, stderr=file, stdout=file, env=environment(), check=False).returncode
        text = log.read_text("utf-8", "replace")
        done = re.findall(r"number_of_executed_units: (\d+)|^#(\d+)", text, re.MULTILINE)
        executions += int(max(done[-1])) if done else 0
        found = sorted(new.iterdir())
        findings += sum(keep(path, text, program, build / "findings" / target) for path in found)
        if status != 0 and not found:
            sys.exit(f"{program} failed and has left no file; see {log}")
    row = {
        "target": target,
        "executions": executions,
        "seconds": round(time.monotonic() - begin),
        "findings": findings,
        **{name: os.environ[name] for name in SETTINGS if name in os.environ},
    }
    with (build / "runs.jsonl").open("a", encoding="utf-8") as file:
        print(json.dumps(row), file=file)
    print(f"{target}: {executions} executions, {findings} findings", flush=True)  # noqa: T201
    return findings


def main() -> None:
    parser = argparse.ArgumentParser(description="Fuzzes the engine.")
    parser.add_argument("target", choices=[*TARGETS, "all"])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--build", type=Path, default=Path("build/fuzz"))
    arguments = parser.parse_args()
    chosen = TARGETS if arguments.target == "all" else (arguments.target,)
    build = arguments.build.resolve()
    sys.exit(min(sum(run(target, arguments.minutes / len(chosen), build) for target in chosen), 1))


if __name__ == "__main__":
    main()
