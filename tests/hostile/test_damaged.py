"""Damaged files of each format: whatever the bytes, they are read, or refused with an error of Minnow's.

`python tests/hostile/test_damaged.py SECONDS` looks for more for so long in each format, and counts what met the door.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
import traceback
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import minnow
from minnow.converter.file import door
from minnow.converter.tensorflow.message import GraphDef
from minnow.errors import FormatError, ModelError, UnsupportedError

Damage = Callable[[bytes, random.Random], bytes]

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "converter" / "tflite")]

from hostile.damage import graph_of, of_bytes, of_text, onnx_of  # noqa: E402
from hostile.make import const, function, onnx_file  # noqa: E402


def onnx_sample() -> bytes:
    """Layers, branches, a loop, a function, sequences, and constants of several types."""
    then = helper.make_graph([helper.make_node("Neg", ["r"], ["t"])], "a", [], [onnx.ValueInfoProto(name="t")])
    other = helper.make_graph([helper.make_node("Abs", ["r"], ["e"])], "b", [], [onnx.ValueInfoProto(name="e")])
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["d"]), helper.make_node("Mul", ["a", "k"], ["b"])],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("c", TensorProto.BOOL, []),
            helper.make_tensor_value_info("a", TensorProto.FLOAT, [1, 4, 3, 3]),
        ],
        [onnx.ValueInfoProto(name="d"), onnx.ValueInfoProto(name="b")],
    )
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["h"], kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("F", ["h"], ["r"], domain="my"),
        helper.make_node("ReduceSum", ["r"], ["s"], keepdims=0),
        helper.make_node("Greater", ["s", "k"], ["g"]),
        helper.make_node("If", ["g"], ["f"], then_branch=then, else_branch=other),
        helper.make_node("Loop", ["n", "", "f"], ["l"], body=body),
        helper.make_node("Shape", ["l"], ["z"]),
        helper.make_node("Gather", ["z", "zero"], ["first"]),
        helper.make_node("Concat", ["first", "minus"], ["target"], axis=0),
        helper.make_node("Reshape", ["l", "target"], ["flat"]),
        helper.make_node("SplitToSequence", ["flat"], ["q"], axis=1),
        helper.make_node("ConcatFromSequence", ["q"], ["back"], axis=0),
        helper.make_node("Resize", ["back3", "", "half"], ["y"], mode="linear"),
    ]
    nodes.insert(-1, helper.make_node("Unsqueeze", ["back", "zero"], ["back3"]))
    constants = [
        const("w", np.ones((4, 3, 3, 3), np.float32)),
        const("k", np.array(2, np.float32)),
        const("n", np.array(3)),
        const("zero", np.array([0])),
        const("minus", np.array([-1])),
        const("half", np.array([1, 2, 1], np.float32)),
    ]
    inside = [helper.make_node("Relu", ["x"], ["u"]), helper.make_node("Add", ["u", "x"], ["y"])]
    return onnx_file(nodes, constants, [function("F", inside)], dims=(1, 3, 6, 6))


def graph_sample() -> bytes:
    """A frozen graph with a function and a branch."""
    graph = GraphDef()
    graph.versions.producer = 1000

    def node(name: str, op: str, *inputs: str, to: Any = None) -> Any:
        made = (graph.node if to is None else to).add(name=name, op=op, input=inputs)
        made.attr["T"].type = 1
        return made

    x = graph.node.add(name="x", op="Placeholder")
    x.attr["dtype"].type = 1
    for d in (1, 6, 6, 3):
        x.attr["shape"].shape.dim.add(size=d)
    for name, array in (("w", np.ones((3, 3, 3, 4), np.float32)), ("axes", np.array([1, 2], np.int32))):
        made = graph.node.add(name=name, op="Const")
        code = 1 if array.dtype == np.float32 else 3
        made.attr["dtype"].type = code
        tensor = made.attr["value"].tensor
        tensor.dtype, tensor.tensor_content = code, array.tobytes()
        for d in array.shape:
            tensor.tensor_shape.dim.add(size=d)
    conv = node("conv", "Conv2D", "x", "w")
    conv.attr["strides"].list.i.extend([1, 2, 2, 1])
    conv.attr["padding"].s = b"SAME"
    conv.attr["data_format"].s = b"NHWC"
    node("relu", "Relu", "conv")
    call = graph.node.add(name="call", op="PartitionedCall", input=["relu"])
    call.attr["f"].func.name = "f"
    call.attr["Tin"].list.type.append(1)
    call.attr["Tout"].list.type.append(1)
    mean = node("mean", "Mean", "call", "axes")
    mean.attr["Tidx"].type = 3
    mean.attr["keep_dims"].b = False
    node("y", "Softmax", "mean")
    f = graph.library.function.add()
    f.signature.name = "f"
    f.signature.input_arg.add(name="a", type=1)
    f.signature.output_arg.add(name="b", type=1)
    node("neg", "Neg", "a", to=f.node_def)
    f.ret["b"] = "neg:y:0"
    return bytes(graph.SerializeToString())


def tflite_sample() -> bytes:
    from tflite_one import Tensor, constant, file_of

    w, b = np.ones((4, 3, 3, 3), np.int8), np.zeros(4, np.int32)
    return file_of(
        "CONV_2D",
        [Tensor((1, 6, 6, 3), np.int8, 0.1, 3), constant(w, [0.1] * 4, [0] * 4), constant(b, [0.01] * 4, [0] * 4)],
        [Tensor((1, 3, 3, 4), np.int8, 0.2, -1)],
        {"padding": 0, "stride_w": 2, "stride_h": 2, "fused_activation_function": 1},
        "Conv2DOptions",
    )


def caffe_sample() -> bytes:
    return b"""name: "net"
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 3 dim: 6 dim: 6 } } }
layer { name: "p" type: "Pooling" bottom: "x" top: "p"
  pooling_param { pool: MAX kernel_size: 3 stride: 2 pad: 1 } }
layer { name: "s" type: "Slice" bottom: "p" top: "s0" top: "s1" slice_param { axis: 1 slice_point: 1 } }
layer { name: "c" type: "Concat" bottom: "s1" bottom: "s0" top: "c" concat_param { axis: 1 } }
layer { name: "d" type: "DummyData" top: "d"
  dummy_data_param { shape { dim: 1 dim: 3 dim: 4 dim: 4 } data_filler { type: "constant" value: 2 } } }
layer { name: "e" type: "Eltwise" bottom: "c" bottom: "d" top: "e" eltwise_param { operation: SUM coeff: 1 coeff: -1 } }
layer { name: "b" type: "PriorBox" bottom: "e" bottom: "x" top: "b"
  prior_box_param { min_size: 2 max_size: 4 aspect_ratio: 2 step: 2 variance: 0.1 } }
layer { name: "r" type: "Reshape" bottom: "e" top: "r" reshape_param { shape { dim: 0 dim: -1 } } }
layer { name: "y" type: "Softmax" bottom: "r" top: "y" softmax_param { axis: 1 } }
"""


SAMPLES: dict[str, tuple[str, Callable[[], bytes], Damage]] = {
    "onnx": ("m.onnx", onnx_sample, onnx_of),
    "tensorflow": ("m.pb", graph_sample, graph_of),
    "tflite": ("m.tflite", tflite_sample, of_bytes),
    "caffe": ("m.prototxt", caffe_sample, of_text),
}
_SLOW = 5.0


def tried(framework: str, data: bytes, path: Path) -> str:
    """What becomes of a file: "read", or the name of the error, whose cause follows where the reader did not expect it.

    Anything but an error of ours fails the test that asks.
    """
    path.write_bytes(data)
    try:
        minnow.check(path, framework=framework)
    except (FormatError, ModelError, UnsupportedError) as e:
        cause = e.__cause__
        unexpected = e.message.startswith("the file is damaged, or holds what")
        return f"{type(e).__name__} of {type(cause).__name__}" if unexpected else type(e).__name__
    return "read"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("framework", SAMPLES)
def test_damage(framework: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "strict", False)
    name, make, damage = SAMPLES[framework]
    data, path, dice = make(), tmp_path / name, random.Random(zlib.crc32(framework.encode()))
    assert tried(framework, data, path) == "read"
    found = Counter(tried(framework, damage(data, dice), path) for _ in range(250))
    assert found["read"]
    assert found["FormatError"] + found["ModelError"] > 20


def test_tests_see_errors_as_they_are(tmp_path: Path) -> None:
    """Elsewhere in the tests, what a reader does not expect does not look like a damaged file."""

    def broken() -> None:
        with door.guarded(tmp_path):
            raise KeyError("x")

    with pytest.raises(KeyError):
        broken()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(door, "strict", False)
        with pytest.raises(FormatError, match="damaged") as e:
            broken()
    assert isinstance(e.value.__cause__, KeyError)


def search(seconds: float) -> None:
    """Damages files for so long in each format, and prints what became of them, and how what was unexpected came up."""
    for framework, (name, make, damage) in SAMPLES.items():
        data, dice, found = make(), random.Random(time.time()), Counter[str]()
        places: dict[str, str] = {}
        end = time.monotonic() + seconds
        with tempfile.TemporaryDirectory() as folder:
            while time.monotonic() < end:
                broken, begin = damage(data, dice), time.monotonic()
                try:
                    what = tried(framework, broken, Path(folder) / name)
                except Exception as e:  # noqa: BLE001  (this is what is looked for)
                    what = f"DEFECT {type(e).__name__}"
                    places[what] = traceback.format_exc()
                if time.monotonic() - begin > _SLOW:
                    what = f"SLOW {what}"
                    places[what] = broken.hex()
                if " of " in what and what not in places:
                    door.strict = True
                    try:
                        tried(framework, broken, Path(folder) / name)
                    except Exception:  # noqa: BLE001
                        places[what] = traceback.format_exc()
                    door.strict = False
                found[what] += 1
        print(framework, sum(found.values()), dict(found.most_common()))  # noqa: T201
        for what, text in places.items():
            print(what, "\n".join(text.splitlines()[-7:])[:3000], sep="\n")  # noqa: T201


if __name__ == "__main__":
    search(float(sys.argv[1]))
