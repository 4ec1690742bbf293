"""Peak memory of models whose weights are of few bits, relative to their files, each in a fresh process.

    python bench/packed_memory.py [NAME ...] [--scale 1]

The models are built here: layers of random weights. MB from before loading until after a run with one thread.
`--scale 2` doubles the channels of all layers.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import minnow

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
FORMS: dict[str, dict[str, Any]] = {
    "4 bits": {"weights": "int4"},
    "4 bits, blocks of 32": {"weights": "int4", "block": "32", "scale_bits": 16},
    "8 bits": {"weights": "int8"},
}
PEAK = """
import sys
import numpy as np
import minnow

def memory(name):
    return next(1024 * int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name))

x = np.ones([int(n) for n in sys.argv[2:]], np.float32)
before = memory("VmRSS")
open("/proc/self/clear_refs", "w").write("5")
minnow.load(sys.argv[1], threads=1).run({"x": x})
print(memory("VmHWM") - before)
"""


class Builder:
    """A chain of layers from x to y."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(0)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.last = "x"

    def constant(self, array: np.ndarray) -> str:
        self.weights.append(numpy_helper.from_array(array, f"w{len(self.weights)}"))
        return str(self.weights[-1].name)

    def floats(self, *shape: int, fan: int) -> str:
        return self.constant((self.random.standard_normal(shape) / np.sqrt(fan)).astype(np.float32))

    def add(self, op: str, *inputs: str, **attributes: Any) -> None:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, [self.last, *inputs], [name], **attributes))
        self.last = name

    def model(self, shape: Sequence[int]) -> bytes:
        self.nodes.append(helper.make_node("Identity", [self.last], ["y"]))
        ends = [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, shape),
            helper.make_tensor_value_info("y", TensorProto.FLOAT, None),
        ]
        graph = helper.make_graph(self.nodes, "chain", ends[:1], ends[1:], self.weights)
        opsets = [helper.make_opsetid("", 17)]
        return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())


def recurrent(b: Builder, op: str, layers: int, units: int, directions: int = 1) -> list[int]:
    width = units
    for _ in range(layers):
        weights = [b.floats(directions, GATES[op] * units, n, fan=n) for n in (width, units)]
        direction = "bidirectional" if directions == 2 else "forward"
        b.add(op, *weights, hidden_size=units, direction=direction)
        b.add("Transpose", perm=[0, 2, 1, 3])
        width = directions * units
        b.add("Reshape", b.constant(np.array([0, 0, width], np.int64)))
    return [8, 1, units]


def stacks(b: Builder, layers: int, matrices: int, size: int) -> list[int]:
    for _ in range(layers):
        b.add("MatMul", b.floats(matrices, size, size, fan=size))
    return [matrices, 1, size]


def transposed(b: Builder, layers: int, channels: int) -> list[int]:
    for i in range(layers):
        w = b.floats(channels >> i, channels >> (i + 1), 4, 4, fan=4 * channels >> i)
        b.add("ConvTranspose", w, strides=[2, 2], pads=[1, 1, 1, 1])
    return [1, channels, 4, 4]


def convolutions(b: Builder, layers: int, channels: int, group: int = 1) -> list[int]:
    for _ in range(layers):
        w = b.floats(channels, channels // group, 3, 3, fan=9 * channels // group)
        b.add("Conv", w, pads=[1, 1, 1, 1], group=group)
    return [1, channels, 7, 7]


MODELS: dict[str, Callable[[Builder, int], list[int]]] = {
    "4 LSTM layers, 1024 units": lambda b, s: recurrent(b, "LSTM", 4, 1024 * s),
    "2 LSTM layers both ways, 1024 units": lambda b, s: recurrent(b, "LSTM", 2, 1024 * s, 2),
    "4 GRU layers, 1024 units": lambda b, s: recurrent(b, "GRU", 4, 1024 * s),
    "8 RNN layers, 1024 units": lambda b, s: recurrent(b, "RNN", 8, 1024 * s),
    "4 products with 16 matrices, 512 x 512": lambda b, s: stacks(b, 4, 16, 512 * s),
    "3 transposed convolutions, 1024 to 128 channels": lambda b, s: transposed(b, 3, 1024 * s),
    "8 convolutions in 4 groups, 1024 channels": lambda b, s: convolutions(b, 8, 1024 * s, 4),
    "8 convolutions, 512 channels": lambda b, s: convolutions(b, 8, 512 * s),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of names of models; by default all")
    parser.add_argument("--scale", type=int, default=1)
    options = parser.parse_args()
    print("| model | weights | file | peak memory | ratio |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "model.onnx", Path(folder) / "model.mnn"
        for name, build in MODELS.items():
            if options.names and not any(part in name for part in options.names):
                continue
            b = Builder()
            shape = build(b, options.scale)
            source.write_bytes(b.model(shape))
            for form, arguments in FORMS.items():
                more = {"target": "minnow"} if "GRU" in name else {}
                minnow.quantize(source, output=target, method="rtn", verify=False, measure=False, **arguments, **more)
                command = [sys.executable, "-c", PEAK, str(target), *map(str, shape)]
                peak = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
                size = target.stat().st_size
                print(f"| {name} | {form} | {size / 1e6:.1f} | {peak / 1e6:.1f} | {peak / size:.2f} |", flush=True)


if __name__ == "__main__":
    main()
