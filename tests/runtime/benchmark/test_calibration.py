"""Schemes are chosen by what a benchmark has measured of the machine, where it has; the profile tells between what."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import minnow
from minnow.runtime import _engine
from minnow.runtime.benchmark.roofline import _processor

SCRIPT = """
import json, sys
import numpy as np
import minnow
session = minnow.load(sys.argv[1], threads=1)
x = np.ones((1, 64, 14, 14), np.float32)
(row,) = (r for r in session.profile({"x": x}, 1) if r["op"] == "Conv")
print(json.dumps([row["scheme"], row["considered"]]))
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A convolution of 3x3 between packed images."""
    rng = np.random.default_rng(1)
    weights = numpy_helper.from_array(rng.standard_normal((64, 64, 3, 3)).astype(np.float32), "w")
    nodes = [
        helper.make_node("Sqrt", ["x"], ["root"]),
        helper.make_node("Conv", ["root", "w"], ["y"], pads=[1, 1, 1, 1]),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 64, 14, 14])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 64, 14, 14])]
    graph = helper.make_graph(nodes, "g", inputs, outputs, [weights])
    folder = tmp_path_factory.mktemp("model")
    source = folder / "m.onnx"
    source.write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    )
    minnow.convert(source, output=folder / "m.mnn", verify=False)
    return folder / "m.mnn"


def chosen(model, cache, text=None, **variables):
    """The scheme, and the estimates: {scheme: milliseconds}."""
    if text is not None:
        (cache / "minnow").mkdir()
        (cache / "minnow" / "roofline.json").write_text(text)
    env = {k: v for k, v in os.environ.items() if k != "MINNOW_CALIBRATION"}
    env |= {"XDG_CACHE_HOME": str(cache), **variables}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(model)], env=env, capture_output=True, text=True, check=True
    )
    scheme, considered = json.loads(done.stdout)
    return scheme, {name: float(ms) for name, ms in (pair.split(" ") for pair in considered.split(", "))}


def limits(flops, size, threads=1, version=minnow.__version__):
    return json.dumps({f"{_processor()} {_engine.isa()} {threads} {version}": {"flops": flops, "bytes": size}})


def test_the_default_is_the_least_estimate(model, tmp_path):
    scheme, estimates = chosen(model, tmp_path)
    assert set(estimates) == {"direct_band", "winograd_f4", "winograd_f2"}
    assert scheme == min(estimates, key=lambda name: estimates[name])


def test_slow_memory_makes_small_weights_win(model, tmp_path):
    scheme, estimates = chosen(model, tmp_path, limits(1e15, 1e9))
    assert scheme == "direct_band"
    # 64 x 64 x 9 floats in a billionth of a second each; 16 and 36 points instead of 9
    assert estimates["direct_band"] == pytest.approx(0.147, abs=0.002)
    assert estimates["winograd_f2"] == pytest.approx(0.262, abs=0.002)
    assert estimates["winograd_f4"] == pytest.approx(0.590, abs=0.002)


def test_slow_arithmetic_makes_few_products_win(model, tmp_path):
    assert chosen(model, tmp_path, limits(1e9, 1e15))[0] == "winograd_f4"


def test_what_several_threads_do_is_shared(model, tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    assert chosen(model, one, limits(1e11, 1e10)) == chosen(model, two, limits(2e11, 2e10, threads=2))


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"x": 1}', limits(0, 1e9), limits("a", 1e9), limits(1e15, 1e9, version="0.0"), "[" * 100],
)
def test_other_files_change_nothing(model, tmp_path, text):
    empty = tmp_path / "empty"
    empty.mkdir()
    assert chosen(model, tmp_path, text) == chosen(model, empty)


def test_it_can_be_switched_off(model, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    assert chosen(model, tmp_path, limits(1e15, 1e9), MINNOW_CALIBRATION="off") == chosen(model, empty)
