"""Chains of products with packed weights beside onnxruntime, and OpenVINO where it is installed, in turns.

    python bench/packed.py [--threads 1] [--bits 4] [--block 32] [--rows 1,8,512] [--rounds 15] [--size 2048]

Milliseconds of the fastest round, and the median of the ratios to precision low. The peers round the rows to 8 bits,
as that does; precision high is shown beside it.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import minnow

LAYERS = 12


def build(size: int, bits: int, block: int) -> bytes:
    """LAYERS times MatMulNBits [size, size], whose numbers stay near 1."""
    random = np.random.default_rng(0)
    nodes, weights = [], []
    for i in range(LAYERS):
        codes = random.integers(0, 256, (size, size // block, block * bits // 8), dtype=np.uint8)
        scale = np.full((size, size // block), 3.5 / ((1 << bits) * size**0.5), np.float32)
        weights += [numpy_helper.from_array(codes, f"w{i}"), numpy_helper.from_array(scale.reshape(-1), f"s{i}")]
        attributes = {"K": size, "N": size, "bits": bits, "block_size": block, "accuracy_level": 4}
        names = ["x" if i == 0 else f"y{i - 1}", f"w{i}", f"s{i}"]
        nodes.append(helper.make_node("MatMulNBits", names, [f"y{i}"], domain="com.microsoft", **attributes))
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["rows", size]) for n in ("x", f"y{LAYERS - 1}")]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:], weights)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())


def runners(path: Path, packed: Path, threads: int) -> dict[str, Callable[[np.ndarray], np.ndarray]]:
    found: dict[str, Callable[[np.ndarray], np.ndarray]] = {}
    for precision in ("low", "high"):
        session = minnow.load(packed, threads=threads, precision=precision)
        found[f"minnow {precision}"] = lambda x, s=session: next(iter(s.run({"x": x}).values()))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    other = onnxruntime.InferenceSession(path, options)
    found["onnxruntime"] = lambda x: other.run(None, {"x": x})[0]
    try:
        import openvino
    except ImportError:
        return found
    core = openvino.Core()
    compiled = core.compile_model(path, "CPU", {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY"})
    found["openvino"] = lambda x: compiled(x)[0]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("threads", 1), ("bits", 4), ("block", 32), ("rounds", 15), ("size", 2048)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--rows", default="1,8,512")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path, packed = Path(folder) / "chain.onnx", Path(folder) / "chain.mnn"
        path.write_bytes(build(options.size, options.bits, options.block))
        onnx.checker.check_model(path)
        minnow.convert(path, output=packed, verify=False, target="minnow")
        found = runners(path, packed, options.threads)
        # Of one thread the processor's time, so that others may compute meanwhile.
        now = time.process_time if options.threads == 1 else time.perf_counter
        for rows in map(int, options.rows.split(",")):
            x = np.random.default_rng(1).standard_normal((rows, options.size)).astype(np.float32)
            want = found["onnxruntime"](x)
            times: dict[str, list[float]] = {name: [] for name in found}
            for _ in range(options.rounds):
                for name, run in found.items():
                    run(x)
                    begin = now()
                    got = run(x)
                    times[name].append(now() - begin)
                    assert np.sqrt(np.mean((got - want) ** 2)) < 0.1 * np.sqrt(np.mean(want**2)), name
            first = times["minnow low"]
            cells = [
                f"{name} {1e3 * min(t):.2f} ({statistics.median(a / b for a, b in zip(t, first, strict=True)):.2f})"
                for name, t in times.items()
            ]
            products = 2 * LAYERS * rows * options.size**2
            print(
                f"{options.bits} bits/{options.block}, {rows} rows, {options.threads} threads: "
                + ", ".join(cells)
                + f"; ours {products / min(first) / 1e9:.0f} GFLOP/s",
                flush=True,
            )


if __name__ == "__main__":
    main()
