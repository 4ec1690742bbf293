"""Models that are large: more than a file can hold, more nodes than anybody draws."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from minnow.runtime.session import load
from minnow.schema.mnn import side_path

# The child measures itself, without what ru_maxrss takes over from the process that starts it: that one has the memory
# of all tests before.
_CONVERT = """
import sys, minnow
minnow.convert(sys.argv[1], output=sys.argv[2])
print(next(1024 * int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


@pytest.mark.slow
def test_more_weights_than_a_file_holds_are_never_in_memory_twice(tmp_path):
    n, layers = 7000, 12
    size = 4 * n * n
    nodes, weights, x = [], [], "x"
    with (tmp_path / "m.data").open("wb") as file:
        for i in range(layers):
            weight = TensorProto(name=f"w{i}", data_type=TensorProto.FLOAT, dims=[n, n])
            weight.data_location = TensorProto.EXTERNAL
            for key, value in {"location": "m.data", "offset": i * size, "length": size}.items():
                weight.external_data.add(key=key, value=str(value))
            # The same rows again and again, but on the disk: a file with holes counts as what it takes there.
            rows = np.random.default_rng(i).standard_normal((20, n), np.float32)
            for _ in range(n // len(rows)):
                file.write(rows)
            weights.append(weight)
            # One kind goes into the file as it is, the other one turned.
            nodes.append(helper.make_node("Gemm", [x, f"w{i}"], [f"y{i}"], transB=i % 2))
            nodes.append(helper.make_node("Tanh", [f"y{i}"], [f"z{i}"]))
            x = f"z{i}"
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", n]) for name in ("x", x)]
    graph = helper.make_graph(nodes, "large", info[:1], info[1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    target = tmp_path / "m.mnn"
    done = subprocess.run(
        [sys.executable, "-c", _CONVERT, str(tmp_path / "m.onnx"), str(target)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert target.stat().st_size < 2**20 < 2**31 < side_path(target).stat().st_size
    # Verification included, which runs the source and the result.
    assert int(done.stdout) < 1.5 * layers * size


@pytest.mark.slow
def test_a_hundred_thousand_nodes(tmp_path):
    nodes = [helper.make_node("Add", ["x", "x"], ["a0"])]
    for i in range(1, 100_000):
        op = ("Add", "Mul", "Sub", "Max")[i % 4] if i % 7 else "Tanh"
        operands = [f"a{i - 1}"] if op == "Tanh" else [f"a{i - 1}", f"a{max(0, i - 17)}"]
        nodes.append(helper.make_node(op, operands, [f"a{i}"]))
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in ("x", "a99999")]
    graph = helper.make_graph(nodes, "long", info[:1], info[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "m.onnx")
    done = subprocess.run(
        [sys.executable, "-c", _CONVERT, str(tmp_path / "m.onnx"), str(tmp_path / "m.mnn")],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    (result,) = load(tmp_path / "m.mnn").run({"x": np.ones((2, 3), np.float32)}).values()
    assert result.shape == (2, 3)
    assert int(done.stdout) < 2 * 2**30
