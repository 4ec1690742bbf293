"""Times a language model in Minnow and in other runtimes, in turns.

    python bench/llm.py model.gguf --folder DIR [--threads 1,2] [--against llama_cpp,openvino_genai]
        [--peers-python PYTHON] [--prefill 512] [--decode 128] [--rounds 5] [--batch 8]

Each runtime has its own process, which is stopped while another one is timed. A round reads a prompt and writes an
answer in each; ratios are medians over rounds, above 1 Minnow is faster.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Run = Callable[[list[int], int], float]


def minnow_(gguf: str, folder: str, threads: int) -> dict[str, Run]:
    import minnow.llm

    model = minnow.llm.load(folder, threads=threads).model

    def prefill(tokens: list[int], batch: int) -> float:
        sequence, begun = model.sequence(), time.perf_counter()
        for begin in range(0, len(tokens), 512):
            piece = tokens[begin : begin + 512]
            model.step([(piece, sequence, int(begin + 512 >= len(tokens)))])
        seconds = time.perf_counter() - begun
        sequence.close()
        return seconds

    def decode(tokens: list[int], batch: int) -> float:
        sequences, begun = [model.sequence() for _ in range(batch)], time.perf_counter()
        for token in tokens:
            model.step([([token], sequence, 1) for sequence in sequences])
        seconds = time.perf_counter() - begun
        for sequence in sequences:
            sequence.close()
        return seconds

    return {"prefill": prefill, "decode": decode}


def llama_cpp(gguf: str, folder: str, threads: int) -> dict[str, Run]:
    import llama_cpp

    if os.environ.get("LLAMA_PLAIN"):  # without weights repacked for AMX, where those end with an illegal instruction
        usual = llama_cpp.llama_cpp.llama_model_default_params

        def plain() -> Any:
            found = usual()
            found.use_extra_bufts = False
            return found

        llama_cpp.llama_cpp.llama_model_default_params = plain
    model = llama_cpp.Llama(gguf, n_ctx=2048, n_batch=512, n_ubatch=512, n_threads=threads, n_threads_batch=threads,
                            verbose=False)  # fmt: skip

    def prefill(tokens: list[int], batch: int) -> float:
        model.reset()
        begun = time.perf_counter()
        model.eval(tokens)
        return time.perf_counter() - begun

    def decode(tokens: list[int], batch: int) -> float:
        model.reset()
        begun = time.perf_counter()
        for token in tokens:
            model.eval([token])
        return time.perf_counter() - begun

    return {"prefill": prefill, "decode": decode}


def openvino_genai(gguf: str, folder: str, threads: int) -> dict[str, Run]:
    import numpy as np
    import openvino
    import openvino_genai as genai

    pipe = genai.LLMPipeline(gguf, "CPU", INFERENCE_NUM_THREADS=threads)

    def run(tokens: list[int], new: int) -> Any:
        config = genai.GenerationConfig(max_new_tokens=new, ignore_eos=True, do_sample=False)
        ids = np.array([tokens], np.int64)
        inputs = genai.TokenizedInputs(openvino.Tensor(ids), openvino.Tensor(np.ones_like(ids)))
        return pipe.generate(inputs, config).perf_metrics

    def prefill(tokens: list[int], batch: int) -> float:
        return run(tokens, 1).get_ttft().mean / 1e3

    def decode(tokens: list[int], batch: int) -> float:
        return run(tokens[:1], len(tokens) + 1).get_tpot().mean / 1e3 * len(tokens)

    return {"prefill": prefill, "decode": decode}


RUNTIMES = {"minnow": minnow_, "llama_cpp": llama_cpp, "openvino_genai": openvino_genai}


def work(name: str, gguf: str, folder: str, threads: int) -> None:
    """A runtime in a process of its own: answers each line of JSON with the seconds that it took."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    begun = time.perf_counter()
    runs = RUNTIMES[name](gguf, folder, threads)
    print(json.dumps({"load_s": time.perf_counter() - begun}), file=out, flush=True)
    for line in sys.stdin:
        what, tokens, batch = json.loads(line)
        seconds = runs[what](tokens, batch)
        peak = next(row.split()[1] for row in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in row)
        print(json.dumps({"seconds": seconds, "peak_kb": int(peak)}), file=out, flush=True)


class Contestant:
    """The process of a runtime, which is stopped unless it is asked for something."""

    def __init__(self, python: str, name: str, gguf: str, folder: str, threads: int) -> None:
        self.name = name
        command = [python, __file__, "--work", name, gguf, folder, str(threads)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.load_s = self._answer()["load_s"]
        self._process.send_signal(signal.SIGSTOP)

    def time(self, what: str, tokens: list[int], batch: int = 1) -> dict[str, Any]:
        self._process.send_signal(signal.SIGCONT)
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([what, tokens, batch]) + "\n")
        self._process.stdin.flush()
        found = self._answer()
        self._process.send_signal(signal.SIGSTOP)
        return found

    def close(self) -> None:
        self._process.send_signal(signal.SIGCONT)
        self._process.kill()
        self._process.wait()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} has ended with code {self._process.wait()}")
        found: dict[str, Any] = json.loads(line)
        return found


def compare(contestants: list[Contestant], prefill: int, decode: int, rounds: int, batch: int) -> list[dict[str, Any]]:
    """Seconds of each test in each runtime, round by round."""
    import random

    tests = [("prefill", prefill, 1), ("decode", decode, 1)] + ([("decode", decode, batch)] if batch > 1 else [])
    out: list[dict[str, Any]] = []
    for what, size, count in tests:
        mine = [c for c in contestants if count == 1 or c.name == "minnow"]
        seconds: dict[str, list[float]] = {c.name: [] for c in mine}
        peaks = {}
        for number in range(rounds + 1):
            tokens = [random.Random(number).randrange(100, 30_000) for _ in range(size)]
            for contestant in mine:
                found = contestant.time(what, tokens, count)
                peaks[contestant.name] = found["peak_kb"]
                if number:  # the first one warms up
                    seconds[contestant.name].append(found["seconds"])
        out.append({"test": what, "tokens": size, "batch": count, "seconds": seconds, "peak_kb": peaks})
    return out


def table(threads: int, results: list[dict[str, Any]], contestants: list[Contestant]) -> str:
    """Rows of a table."""
    lines = []
    for row in results:
        name = f"{'pp' if row['test'] == 'prefill' else 'tg'}{row['tokens']}" + f" x{row['batch']}" * (row["batch"] > 1)
        for contestant in contestants:
            seconds = row["seconds"].get(contestant.name)
            if seconds is None:
                continue
            rate = row["batch"] * row["tokens"] / statistics.median(seconds)
            ratio = statistics.median(s / m for s, m in zip(seconds, row["seconds"]["minnow"], strict=True))
            peak = row["peak_kb"][contestant.name] / 1e3
            lines.append(f"| {threads} | {name} | {contestant.name} | {rate:.1f} | {ratio:.2f} | "
                         f"{contestant.load_s:.2f} | {peak:.0f} |")  # fmt: skip
    return "\n".join(lines)


def main() -> None:
    if sys.argv[1:2] == ["--work"]:
        name, gguf, folder, threads = sys.argv[2:6]
        work(name, gguf, folder, int(threads))
        return
    import argparse

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gguf")
    parser.add_argument("--folder", required=True, help="what `mnnconvert model.gguf -o DIR` has written")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--against", default="llama_cpp,openvino_genai")
    parser.add_argument("--peers-python", default=sys.executable, help="of the environment with the other runtimes")
    parser.add_argument("--prefill", type=int, default=512)
    parser.add_argument("--decode", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, default=8)
    given = parser.parse_args()
    print("| threads | test | runtime | tokens/s | time / minnow | load s | peak MB |\n|---|---|---|---|---|---|---|")
    for threads in map(int, given.threads.split(",")):
        contestants = []
        for name in ["minnow", *filter(None, given.against.split(","))]:
            python = sys.executable if name == "minnow" else given.peers_python
            try:
                contestants.append(Contestant(python, name, given.gguf, given.folder, threads))
            except RuntimeError as e:
                print(f"{e}", file=sys.stderr)
        try:
            results = compare(contestants, given.prefill, given.decode, given.rounds, given.batch)
            print(table(threads, results, contestants), flush=True)
        finally:
            for contestant in contestants:
                contestant.close()


if __name__ == "__main__":
    main()
