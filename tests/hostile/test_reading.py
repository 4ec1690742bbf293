"""Files of other formats than ONNX that ask for far more than they are: time, memory, a device in place of a file."""

from __future__ import annotations

import ast
import copy
import os
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import pytest
from hostile.make import onnx_file
from hostile.test_models import Bounded
from onnx import TensorProto, helper

import minnow
from minnow.converter.file import door
from minnow.converter.tensorflow.file.checksum import crc32c, mask
from minnow.converter.tensorflow.message import GraphDef, SavedModel
from minnow.errors import MinnowError
from minnow.schema.limit import file_bytes


@pytest.fixture(autouse=True)
def as_users_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "strict", False)


def refused(path: Path, match: str) -> None:
    """Both commands say so, soon and in little memory, and write nothing."""
    before = sorted(path.parent.iterdir())
    for attempt in (minnow.check, lambda p: minnow.convert(p, output=p.with_name("out.mnn"), verify=False)):
        with Bounded(), pytest.raises(MinnowError, match=match) as e:
            attempt(path)
        assert e.value.exit_code in (3, 6)
        assert not isinstance(e.value.__cause__, MemoryError)
    assert sorted(path.parent.iterdir()) == before


# ---- Caffe

NET = b"""layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 3 } } }
layer { name: "y" type: "ReLU" bottom: "x" top: "y" }
"""
DETECTION = b"""layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 48 } } }
layer { name: "y" type: "Input" top: "y" input_param { shape { dim: 1 dim: 36 } } }
layer { name: "z" type: "Input" top: "z" input_param { shape { dim: 1 dim: 2 dim: 48 } } }
layer { name: "d" type: "DetectionOutput" bottom: "x" bottom: "y" bottom: "z" top: "d"
        detection_output_param { num_classes: 2147483647 share_location: true } }
"""
REGIONS = b"""layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2147483648 dim: 8 dim: 6 dim: 6 } } }
layer { name: "r" type: "Input" top: "r" input_param { shape { dim: 2 dim: 5 } } }
layer { name: "p" type: "PSROIPooling" bottom: "x" bottom: "r" top: "p"
        psroi_pooling_param { spatial_scale: 1 output_dim: 2 group_size: 2 } }
"""
TEXTS = {
    "images": (REGIONS, "more than 256 MiB of constants"),
    "classes": (DETECTION, "more than 256 MiB of constants"),
    "spaces": (NET + b"layers" + b" " * 300_000 + b"x", "not the definition of a net"),
    "spaces after a license": (b"a: 1 #" + b" " * 5000 + b"\nlayers" + b" " * 300_000 + b"x", "not in a format"),
    "open text": (NET + b'"' + b'\\"' * 200_000, "not the definition of a net"),
    "deep": (NET + b"a {" * 100_000, "not the definition of a net"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_text_of_caffe(name: str, tmp_path: Path) -> None:
    """No pattern looks at the same characters again and again."""
    text, match = TEXTS[name]
    path = tmp_path / "m.prototxt"
    path.write_bytes(text)
    refused(path, match)


# ---- TensorFlow


def graph() -> Any:
    made = GraphDef()
    made.versions.producer = 1000
    x = made.node.add(name="x", op="Placeholder")
    x.attr["dtype"].type = 1
    x.attr["shape"].shape.dim.add(size=2)
    return made


def test_two_numbers_for_a_large_shape(tmp_path: Path) -> None:
    made = graph()
    tensor = made.node.add(name="c", op="Const").attr["value"].tensor
    tensor.dtype = 4
    tensor.tensor_shape.dim.add(size=(1 << 33) - 8)
    tensor.int_val.extend([1, 2])
    made.node[-1].attr["dtype"].type = 4
    cast = made.node.add(name="f", op="Cast", input=["c"])
    cast.attr["SrcT"].type, cast.attr["DstT"].type = 4, 1
    made.node.add(name="y", op="AddV2", input=["x", "f"]).attr["T"].type = 1
    path = tmp_path / "m.pb"
    path.write_bytes(made.SerializeToString())
    refused(path, "far larger than its file")


def test_names_of_calls(tmp_path: Path) -> None:
    """A function of many nodes, called under a long name."""
    made, name = graph(), "C" * 1_000_000
    inner = made.library.function.add()
    inner.signature.name = "f"
    inner.signature.input_arg.add(name="a", type=1)
    inner.signature.output_arg.add(name="b", type=1)
    last = "a"
    for i in range(1500):
        inner.node_def.add(name=f"n{i}", op="Neg", input=[last]).attr["T"].type = 1
        last = f"n{i}:y:0"
    inner.ret["b"] = last
    call = made.node.add(name=name, op="PartitionedCall", input=["x"])
    call.attr["f"].func.name = "f"
    call.attr["Tin"].list.type.append(1)
    call.attr["Tout"].list.type.append(1)
    made.node.add(name="y", op="Neg", input=[name]).attr["T"].type = 1
    path = tmp_path / "m.pb"
    path.write_bytes(made.SerializeToString())
    refused(path, "far larger than its file")


def varint(number: int) -> bytes:
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + varint(number >> 7)


class Table:
    """A table of variables, written block by block."""

    def __init__(self) -> None:
        self.data = b""

    def block(self, entries: list[tuple[int, bytes, bytes]]) -> bytes:
        """Adds one; entries: how much of the last key begins the next, the rest of it, the value. Where it is."""
        rows = b"".join(varint(n) + varint(len(k)) + varint(len(v)) + k + v for n, k, v in entries)
        content = rows + struct.pack("<II", 0, 1) + b"\0"
        place = varint(len(self.data)) + varint(len(content) - 1)
        self.data += content + struct.pack("<I", mask(crc32c(content)))
        return place

    def file(self, index: bytes) -> bytes:
        return self.data + (varint(0) + varint(0) + index).ljust(40, b"\0") + struct.pack("<Q", 0xDB4775248B80FB57)


def growing_keys() -> bytes:
    """Each key is the one before and a letter: kilobytes stand for gigabytes."""
    table = Table()
    return table.file(table.block([(0, b"z", table.block([(i, b"a", b"") for i in range(60_000)]))]))


def repeated_blocks() -> bytes:
    table = Table()
    place = table.block([(0, b"a" * 200, b"b" * 200)] * 400)
    return table.file(table.block([(0, b"z", place)] * 5000))


def saved_model(folder: Path) -> Path:
    """A SavedModel that adds a variable to its input; returns where its table of variables belongs."""
    model = SavedModel()
    meta = model.meta_graphs.add()
    meta.meta_info_def.tags.append("serve")
    made = graph()
    variable = made.node.add(name="v", op="VarHandleOp")
    variable.attr["dtype"].type = 1
    variable.attr["shape"].shape.dim.add(size=2)
    made.node.add(name="r", op="ReadVariableOp", input=["v"]).attr["dtype"].type = 1
    made.node.add(name="y", op="AddV2", input=["x", "r"]).attr["T"].type = 1
    meta.graph_def.CopyFrom(made)
    signature = meta.signature_def["serving_default"]
    signature.inputs["x"].name, signature.outputs["y"].name = "x:0", "y:0"
    signature.inputs["x"].dtype = 1
    signature.inputs["x"].tensor_shape.dim.add(size=2)
    (folder / "variables").mkdir(parents=True)
    (folder / "saved_model.pb").write_bytes(model.SerializeToString())
    return folder / "variables" / "variables.index"


@pytest.mark.parametrize("make", [growing_keys, repeated_blocks], ids=lambda f: f.__name__)
def test_tables_of_variables(make: Callable[[], bytes], tmp_path: Path) -> None:
    saved_model(tmp_path / "m").write_bytes(make())
    refused(tmp_path / "m", "the table of variables is damaged")


@pytest.mark.parametrize("kind", ["fifo", "device"])
def test_variables_are_a_plain_file(kind: str, tmp_path: Path) -> None:
    """Archives hold pipes and links, too. A pipe that nobody writes to would be waited for without end."""
    path = saved_model(tmp_path / "m")
    if kind == "fifo":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    refused(tmp_path / "m", "not a regular file")


def test_texts_that_stand_for_many(tmp_path: Path) -> None:
    """Constants of one text and a large shape, from which thousands of variables are restored."""
    path = saved_model(tmp_path / "m")
    table = Table()
    path.write_bytes(table.file(table.block([(0, b"z", table.block([(0, b"w", b"")]))])))
    model = SavedModel.FromString((tmp_path / "m" / "saved_model.pb").read_bytes())
    nodes = model.meta_graphs[0].graph_def.node
    for name in ("file", "keys", "parts"):
        tensor = nodes.add(name=name, op="Const").attr["value"].tensor
        tensor.dtype = 7
        tensor.tensor_shape.dim.add(size=1_000_000)
        tensor.string_val.append(b"w")
    nodes.add(name="restore", op="RestoreV2", input=["file", "keys", "parts"])
    every = nodes.add(name="all", op="NoOp")
    for i in range(2000):
        nodes.add(name=f"a{i}", op="AssignVariableOp", input=["v", f"restore:{i}"])
        every.input.append(f"^a{i}")
    model.meta_graphs[0].saver_def.restore_op_name = "all"
    (tmp_path / "m" / "saved_model.pb").write_bytes(model.SerializeToString())
    refused(tmp_path / "m", "does not fit its variable")


def test_holes_in_files_allow_nothing(tmp_path: Path) -> None:
    """The limits grow with a file; a hole of a terabyte in it costs whoever makes it nothing."""
    (tmp_path / "plain").write_bytes(bytes(range(256)) * (5 << 12))
    with (tmp_path / "hole").open("wb") as file:
        file.truncate(1 << 40)
    assert file_bytes(tmp_path / "plain") == 5 << 20
    assert file_bytes(tmp_path / "hole") <= 1 << 20
    assert file_bytes(tmp_path) <= 6 << 20


@pytest.mark.parametrize("read_as", ["onnx", "tflite"])
def test_weights_that_overlap(read_as: str, tmp_path: Path) -> None:
    """Tensors that begin a few bytes apart in a file share nearly all of it; what is written of them shares nothing."""
    count, size = 1200, 1 << 20
    if read_as == "onnx":
        (tmp_path / "data").write_bytes(bytes(4 * count + size))
        tensors = []
        for i in range(count):
            tensor = TensorProto(name=f"w{i}", data_type=1, dims=[size // 4], data_location=TensorProto.EXTERNAL)
            for key, value in {"location": "data", "offset": str(4 * i)}.items():
                tensor.external_data.add(key=key, value=value)
            tensors.append(tensor)
        nodes = [helper.make_node("Add", [f"w{i}", f"y{i}" if i else "x"], [f"y{i + 1}"]) for i in range(count)]
        path = tmp_path / "m.onnx"
        path.write_bytes(onnx_file(nodes, tensors, result=f"y{count}", dims=(size // 4,)))
    else:
        path = tmp_path / "m.tflite"
        path.write_bytes(overlapping_buffers(count, size))
    refused(path, "far larger than its file")


def overlapping_buffers(count: int, size: int) -> bytes:
    """A TFLite file of sums whose constants lie behind the tables, a few bytes apart."""
    from ai_edge_litert import schema_py_generated as fbs
    from tflite_one import Tensor, constant, file_of

    data = file_of("ADD", [Tensor((4,)), constant(np.ones(4, np.float32))], [Tensor((4,))], {}, "AddOptions")
    model = fbs.ModelT.InitFromObj(fbs.Model.GetRootAs(data, 0))
    (graph,) = model.subgraphs
    given, weight, result = graph.tensors
    graph.tensors, graph.operators, first = [given], [], graph.operators[0]
    for i in range(count):
        a, b, operator = copy.copy(weight), copy.copy(result), copy.copy(first)
        a.name, b.name, a.buffer, b.buffer = f"w{i}", f"y{i}", len(model.buffers), 0
        a.shape = b.shape = given.shape = np.array([size // 4], np.int32)
        graph.tensors += [a, b]
        operator.inputs = np.array([2 * i, 2 * i + 1], np.int32)
        operator.outputs = np.array([2 * i + 2], np.int32)
        graph.operators.append(operator)
        buffer = fbs.BufferT()
        buffer.offset, buffer.size = 1 << 20, size
        model.buffers.append(buffer)
    graph.outputs = np.array([2 * count], np.int32)
    for i, buffer in enumerate(model.buffers[-count:]):
        buffer.offset = (1 << 20) + 4 * i
    builder = flatbuffers.Builder(1 << 20)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output()).ljust(1 << 20, b"\0") + bytes(4 * count + size)


# ---- PyTorch


@pytest.fixture(scope="module")
def archive() -> bytes:
    pytest.importorskip("torch")
    from fuzz.samples import archives

    return archives()[0]


@pytest.mark.slow
def test_packed_zeros(archive: bytes, tmp_path: Path) -> None:
    """Two megabytes that unpack to two gigabytes."""
    from torch_damage import files_of

    files = files_of(archive)
    with zipfile.ZipFile(tmp_path / "m.pt2", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as made:
        for name, data in files.items():
            if not name.endswith("/weight_0"):
                made.writestr(name, data)
                continue
            with made.open(name, "w", force_zip64=True) as out:
                for _ in range(1100):
                    out.write(bytes(1 << 20))
    refused(tmp_path / "m.pt2", "too large")


@pytest.mark.slow
def test_steps_along_an_axis_of_one(archive: bytes, tmp_path: Path) -> None:
    """No number of the file reaches numpy that does not fit there; which step such an axis has does not matter."""
    from torch_damage import edited

    from minnow.converter.torch.program.exported import read_program

    def change(document: Any) -> None:
        for name in ("linear.weight", "linear.bias"):
            meta = document["config"][name]["tensor_meta"]
            meta["strides"][0], meta["sizes"][0] = {"as_int": 1 << 62}, {"as_int": 1}

    path = tmp_path / "m.pt2"
    path.write_bytes(edited(archive, "weights_config.json", change))
    stored = read_program(path).bound["p_linear_weight"]
    assert stored.load().shape == (1, 4)


def code(count: int, method: str) -> str:
    calls = "\n".join("    self.g(x)" for _ in range(count))
    return f"class M(Module):\n  def {method}(self: __torch__.M, x: Tensor) -> Tensor:\n{calls}\n    return x\n"


def test_code_is_looked_at_once() -> None:
    """The time for the checks of a program grows with its size, not with its square."""
    from minnow.converter.torch.program.script_vetting import _only_packs, vet

    inner = "  def g(self: __torch__.M, x: Tensor) -> Tensor:\n" + "    a = x\n" * 3000 + "    return x\n"
    with Bounded():
        text = code(3000, "forward") + inner
        assert not vet(["code/__torch__.py"], lambda _: text.encode(), lambda _: True).refused
        text = code(3000, "__setstate__") + inner
        kind = ast.parse(text).body[0]
        assert isinstance(kind, ast.ClassDef)
        assert _only_packs("__setstate__", {f.name: f for f in kind.body if isinstance(f, ast.FunctionDef)}, {})


# ---- .mnn


def test_results_of_a_branch(tmp_path: Path) -> None:
    """Tens of thousands of results are found by their names, each at once."""
    from hostile_files import extra, given, if_, net, subgraph

    n = 10_000
    inner = [given(0, [1]), given(1, [1]), *(extra("Neg", [1], [i + 2]) for i in range(n))]
    body = subgraph("g", inner, ["c", "a", *(f"z{i}" for i in range(n))], [0, 1], list(range(2, 2 + n)))
    call = if_([0, 1], 2, "g", "g", [["c"], ["a"]])
    call["outputIndexes"] = list(range(2, 2 + n))
    call["main"]["aliases_outputs"] = [{"data": [f"z{k}", f"z{k}"]} for k in range(n)]
    ops = [given(0, [1]), given(1, [1]), call]
    path = tmp_path / "m.mnn"
    path.write_bytes(net(ops, ["c", "x", *(f"y{k}" for k in range(n))], "y0", [body]))
    from minnow.converter import read

    with Bounded():
        assert read(path).outputs[0][0] == "y0"


def test_an_unknown_op_without_inputs(tmp_path: Path) -> None:
    """What nobody knows, and nothing feeds, is kept as it stands."""
    from hostile_files import extra, given, net, op

    path = tmp_path / "m.mnn"
    ops = [given(0, [2]), op("ZeroGrad", [], [1]), extra("Neg", [0], [2])]
    path.write_bytes(net(ops, ["x", "a", "y"], "y a"))
    assert minnow.convert(path, output=tmp_path / "out.mnn", verify=False).nodes_after["Raw"] == 1
