"""Compares graph optimizers: nodes before and after, seconds, and whether the result gives the same outputs.

    ./dev bench optimizers MODEL.onnx ... [--peers PYTHON] [--mnn PYTHON] [--json FILE]

`--peers` names a Python that has onnx, onnxruntime, onnxsim, onnxslim and onnxscript, `--mnn` one that has MNN. Every
tool has a separate process for each model. Nodes are those that compute: no constants, those of subgraphs included.
Reading the file is outside the clock where a tool takes a model in memory; for MNN, onnxruntime and Minnow it counts.
Results are compared with onnxruntime's, all of its optimizations off, on `model.inputs.npz` or random inputs; MNN runs
its own result.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Array = Any
Result = tuple[int, float, list[Array]]
"""Nodes, seconds, outputs in the order of the model."""

HERE = Path(__file__).resolve()
WORKER = HERE.parents[1] / "tests" / "e2e" / "mnn_worker.py"
TOLERANCE = 5e-3
"""Of the largest magnitude of an output: a result beyond it is wrong. Deep normalizations make much of rounding."""
LEAST_SCALE = 1e-3
"""Outputs below it are the tails of a sigmoid."""
TIMEOUT = 900


def _count(graph: Any) -> int:
    """Nodes of an ONNX graph that compute, those of its subgraphs included."""
    inner = [a for node in graph.node for a in node.attribute]
    graphs = [a.g for a in inner if a.HasField("g")] + [g for a in inner for g in a.graphs]
    return sum(node.op_type != "Constant" for node in graph.node) + sum(map(_count, graphs))


def _session(path: Path, level: str, save: Path | None = None) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, f"ORT_{level}")
    if save is not None:
        options.optimized_model_filepath = str(save)
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def _onnx(change: Callable[[Any], Any]) -> Callable[[Path, Path, dict[str, Array]], Result]:
    """A tool that changes a model in memory."""

    def run(source: Path, folder: Path, feed: dict[str, Array]) -> Result:
        import onnx

        change(onnx.load(source))  # imports what it is made of
        model = onnx.load(source)
        begin = time.perf_counter()
        model = change(model)
        seconds = time.perf_counter() - begin
        onnx.save(model, folder / "out.onnx")
        return _count(model.graph), seconds, _session(folder / "out.onnx", "DISABLE_ALL").run(None, feed)

    return run


def _onnxsim(model: Any) -> Any:
    import onnxsim

    return onnxsim.simplify(model)[0]


def _onnxslim(model: Any) -> Any:
    import onnxslim

    return onnxslim.slim(model)


def _onnxscript(model: Any) -> Any:
    import onnxscript.optimizer
    import onnxscript.rewriter

    return onnxscript.rewriter.rewrite(onnxscript.optimizer.optimize(model))


def _onnxruntime(level: str) -> Callable[[Path, Path, dict[str, Array]], Result]:
    def run(source: Path, folder: Path, feed: dict[str, Array]) -> Result:
        import onnx

        begin = time.perf_counter()
        session = _session(source, level, folder / "out.onnx")
        seconds = time.perf_counter() - begin
        return _count(onnx.load(folder / "out.onnx").graph), seconds, session.run(None, feed)

    return run


def _transformers(source: Path, folder: Path, feed: dict[str, Array]) -> Result:
    """onnxruntime's fusions for transformers, which are not part of a session."""
    import onnx
    from onnxruntime.transformers import optimizer

    begin = time.perf_counter()
    kind = "vit" if "vit" in source.name else "gpt2" if "llama" in source.name else "bert"
    made = optimizer.optimize_model(str(source), model_type=kind, opt_level=99, only_onnxruntime=False)
    seconds = time.perf_counter() - begin
    onnx.save(made.model, folder / "out.onnx")
    return _count(made.model.graph), seconds, _session(folder / "out.onnx", "DISABLE_ALL").run(None, feed)


def _minnow(target: Any) -> Callable[[Path, Path, dict[str, Array]], Result]:
    def run(source: Path, folder: Path, feed: dict[str, Array]) -> Result:
        from minnow import load
        from minnow.converter import read
        from minnow.optimizer import optimize
        from minnow.schema.mnn import save

        optimize(read(source), target=target)  # imports what it is made of
        begin = time.perf_counter()
        model = read(source)
        summary = optimize(model, target=target)
        seconds = time.perf_counter() - begin
        save(model, folder / "out.mnn")
        session = load(folder / "out.mnn")
        made = session.run({k: v for k, v in feed.items() if k in {i.name for i in session.inputs}})
        return sum(summary.after.values()), seconds, list(made.values())

    return run


def _mnn(python: str, source: Path, folder: Path, feed: dict[str, Array]) -> Result:
    import numpy as np
    import onnx

    from minnow.schema.mnn import wire

    out = folder / "model.mnn"
    code = "import sys, _tools; _tools.mnnconvert(['mnnconvert'] + sys.argv[1:])"
    flags = ["-f", "ONNX", "--modelFile", str(source), "--MNNModel", str(out), "--bizCode", "bench"]
    begin = time.perf_counter()
    done = subprocess.run([python, "-c", code, *flags], capture_output=True, text=True, timeout=TIMEOUT, check=False)
    seconds = time.perf_counter() - begin
    if not out.exists():
        raise RuntimeError(f"no file: {(done.stdout + done.stderr)[-200:]}")
    net = wire.read(out.read_bytes())
    graphs = [net["oplists"], *(g["nodes"] for g in net.get("subgraphs") or ())]
    count = sum(op["type"] not in ("Input", "Const", "TrainableParam") for ops in graphs for op in ops)
    names = [o.name for o in onnx.load(source, load_external_data=False).graph.output]
    # It has no int64.
    np.savez(folder / "inputs.npz", **{k: v.astype(np.int32) if v.dtype == np.int64 else v for k, v in feed.items()})
    (folder / "outputs.txt").write_text("\n".join(names))
    subprocess.run([python, str(WORKER), str(folder)], capture_output=True, timeout=TIMEOUT, check=False)
    if not (folder / "results.npz").exists():
        return count, seconds, []
    results = np.load(folder / "results.npz")
    return count, seconds, [results[f"arr_{i}"] for i in range(len(names))]


PEERS: dict[str, Callable[[Path, Path, dict[str, Array]], Result]] = {
    "onnxsim": _onnx(_onnxsim),
    "onnxslim": _onnx(_onnxslim),
    "onnxscript": _onnx(_onnxscript),
    "ort basic": _onnxruntime("ENABLE_BASIC"),
    "ort extended": _onnxruntime("ENABLE_EXTENDED"),
    "ort all": _onnxruntime("ENABLE_ALL"),
    "ort transformers": _transformers,
}
OWN = {"minnow (mnn)": _minnow("mnn"), "minnow": _minnow("minnow")}


def _child(tool: str, source: Path, folder: Path, mnn: str) -> None:
    """One tool on one model; writes its outputs, and prints what else there is to know."""
    import numpy as np

    feed = dict(np.load(folder / "feed.npz"))
    if tool == "source":
        import onnx

        answer: Result = (
            _count(onnx.load(source, load_external_data=False).graph),
            0.0,
            _session(source, "DISABLE_ALL").run(None, feed),
        )
    elif tool == "MNN":
        answer = _mnn(mnn, source, folder, feed)
    else:
        answer = {**PEERS, **OWN}[tool](source, folder, feed)
    nodes, seconds, outputs = answer
    np.savez(folder / "outputs.npz", *outputs)
    print(f"\nRESULT {json.dumps({'nodes': nodes, 'seconds': seconds})}")


def _run(python: str, tool: str, source: Path, feed: dict[str, Array], mnn: str) -> dict[str, Any]:
    import numpy as np

    with tempfile.TemporaryDirectory() as name:
        np.savez(Path(name) / "feed.npz", **feed)
        command = [python, "-W", "ignore", str(HERE), "--child", tool, "--folder", name, "--mnn", mnn, str(source)]
        environment = {**os.environ, "ORT_DISABLE_TELEMETRY": "1"}
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, errors="replace", timeout=TIMEOUT, env=environment, check=False
            )
        except subprocess.TimeoutExpired:
            return {"error": f"no answer in {TIMEOUT} s"}
        lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
        if not lines:
            said = (done.stderr or done.stdout).strip().splitlines()
            return {"error": said[-1][:200] if said else f"exit status {done.returncode}"}
        arrays = np.load(Path(name) / "outputs.npz")
        return {**json.loads(lines[-1][7:]), "outputs": [arrays[k] for k in arrays.files]}


def _error(want: list[Array], got: list[Array]) -> float:
    """Largest difference of an output, as part of its largest magnitude; infinite where something is missing."""
    import numpy as np

    if len(want) != len(got):
        return float("inf")
    worst = 0.0
    for a, b in zip(want, got, strict=True):
        if a.shape != b.shape:
            return float("inf")
        scale = max(float(np.abs(a.astype(np.float64)).max(initial=0)), LEAST_SCALE)
        difference = float(np.abs(a.astype(np.float64) - b.astype(np.float64)).max(initial=0))
        worst = max(worst, difference / scale if np.isfinite(difference) else float("inf"))
    return worst


def _source(python: str, source: Path, mnn: str) -> tuple[dict[str, Array], dict[str, Any]]:
    """Inputs that the model takes, and what onnxruntime makes of them without its optimizations."""
    import numpy as np

    from minnow.converter import read
    from minnow.runtime.verify.samples import candidates

    given = source.with_suffix(".inputs.npz")
    feeds = [dict(np.load(given))] if given.exists() else (c.inputs for c in candidates(read(source), [0]))
    result: dict[str, Any] = {"error": "no inputs"}
    for feed in feeds:
        result = _run(python, "source", source, feed, mnn)
        if "nodes" in result:
            return feed, result
    return {}, result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--peers", default=sys.executable)
    parser.add_argument("--mnn", default="")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", default="", help="comma-separated names of tools")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        _child(asked.child, asked.models[0], asked.folder, asked.mnn)
        return
    tools = [*PEERS, *(["MNN"] if asked.mnn else []), *OWN]
    tools = [t for t in tools if not asked.only or t in asked.only.split(",")]
    print(f"| model | source | {' | '.join(tools)} |\n|" + " --- |" * (len(tools) + 2), flush=True)
    rows: dict[str, dict[str, Any]] = {}
    for source in asked.models:
        feed, plain = _source(asked.peers, source, asked.mnn)
        want = plain.pop("outputs", [])
        row: dict[str, Any] = {"source": plain}
        cells = [str(plain.get("nodes", plain.get("error", "")))]
        for tool in tools:
            result = _run(asked.peers if tool in PEERS else sys.executable, tool, source, feed, asked.mnn)
            outputs = result.pop("outputs", None)
            if outputs is not None:
                result["error_of_scale"] = _error(want, outputs)
            row[tool] = result
            wrong = "" if outputs is None or result["error_of_scale"] <= TOLERANCE else " wrong"
            cells.append(f"{result['nodes']}, {result['seconds']:.2f} s{wrong}" if "nodes" in result else "failed")
        rows[source.stem] = row
        print(f"| {source.stem} | {' | '.join(cells)} |", flush=True)
        if asked.json:
            asked.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
