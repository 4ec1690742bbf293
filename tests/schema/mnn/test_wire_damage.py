"""Damaged files: a FormatError or a dict, never anything else; and the same verdict as FlatBuffers' own verifier."""

import random
import re
import shutil
import subprocess
from pathlib import Path

import flatbuffers
import numpy as np
import pytest
from engine_oracle import model_of

import minnow
from minnow.schema.errors import FormatError, MinnowError, UnsupportedError
from minnow.schema.ir import DType, Graph, TensorType
from minnow.schema.mnn import decode, decoder, encode, wire, wire_read, wire_write
from minnow.schema.ops import Builder
from minnow.schema.registry.builder import infer_node

ROOT = Path(__file__).parents[3]
MODELS = sorted((ROOT / ".." / "shared" / "models" / "mnn").glob("*/*.mnn"))


def sample() -> bytes:
    """A small file with every kind of field at every kind of place."""
    attributes = [
        {"key": "a", "s": "text", "i": -1, "b": True, "type": "DT_HALF", "f": 0.5},
        {"key": "b", "tensor": {"dims": [2], "strings": ["p", "q"]}},
        {"key": "c", "list": {"s": ["x"], "i": [1, 2], "f": [0.5], "b": [True, False], "type": ["DT_INT8", 99]}},
        {"key": "d", "func": {"name": "f", "attr": [{"key": "e"}]}},
    ]
    ops = [
        {"type": "Input", "main_type": "Input", "main": {"dims": [1, 3]}, "outputIndexes": [0]},
        {"type": "Const", "main_type": "Blob", "main": {"int64s": [1, 2, 3], "uint8s": b"12345"}, "name": "c"},
        {"type": "Extra", "main_type": "Extra", "main": {"engine": "e", "info": b"\1\2", "attr": attributes}},
        {"type": "Convolution", "main_type": "Convolution2D", "main": {"common": {"kernelX": 3}, "weight": [1.0, 2]}},
        {"type": "While", "main_type": "WhileParam", "main": {"aliases_inputs": [{"data": ["x", ""]}, {}]}},
        {"type": "Rank", "main_type": "Rank", "main": {}},
    ]
    return wire.write(
        {
            "bizCode": "b",
            "oplists": ops,
            "tensorName": ["x", "y"],
            "extraInfo": {"version": "1", "buffer": wire.write_nested("Extra", {"attr": attributes})},
            "subgraphs": [{"name": "body", "nodes": ops[:2], "tensors": ["x"]}],
            "extraTensorDescribe": [{"quantInfo": {"scale": 2.0}, "regions": [{"src": {"stride": [1, 2, 3]}}]}],
        }
    )


def damaged(data: bytes, count: int, seed: int):
    """The file with one to three bytes or words changed, mostly to what hurts: small numbers, limits, other offsets."""
    dice = random.Random(seed)
    for _ in range(count):
        copy = bytearray(data)
        for _ in range(dice.randint(1, 3)):
            at = dice.randrange(len(copy))
            word = dice.choice(
                [0, 1, 2, 4, 5, 8, 2**31 - 1, 2**31, 2**32 - 1, 2**32 - 4, len(data), dice.getrandbits(12)]
            )
            change = bytes([dice.getrandbits(8)]) if dice.random() < 0.4 else word.to_bytes(4, "little")
            at -= at % len(change)
            copy[at : at + len(change)] = change
        yield bytes(copy[: len(data)])


def accepts(data: bytes) -> bool:
    """Whether the bytes are read; anything but a dict or a FormatError fails the test."""
    try:
        net = wire.read(data)
    except FormatError as error:
        return not is_clear(error)
    assert isinstance(net, dict)
    return True


def is_clear(error: FormatError) -> bool:
    """Whether the error tells the path, the byte and the reason; it must."""
    assert re.fullmatch(r"Net[\w.\[\]]*, byte \d+", error.where)
    assert error.why
    return True


FILES = [pytest.param(sample(), id="sample"), *(pytest.param(path.read_bytes(), id=path.stem) for path in MODELS)]


@pytest.mark.parametrize("data", FILES)
def test_truncated_anywhere(data):
    assert accepts(data)
    for part in range(97):
        # A file is written from its end, so a shorter one always lacks something.
        assert not accepts(data[: len(data) * part // 97])


def test_truncated_everywhere():
    data = sample()
    padding = [size for size in range(len(data)) if accepts(data[:size])]
    assert padding == list(range(len(data) - len(padding), len(data)))
    assert len(padding) < 4


@pytest.mark.sampled(2)
@pytest.mark.parametrize("data", FILES)
def test_changed_bytes(data):
    verdicts = [accepts(copy) for copy in damaged(data, 300, seed=1)]
    assert any(verdicts)
    assert not all(verdicts) or len(data) > 100_000


def test_noise():
    dice = random.Random(2)
    for _ in range(2000):
        assert accepts(dice.randbytes(dice.randrange(200))) in (True, False)


def test_the_fault_is_named():
    data = bytearray(sample())
    weight = wire.read(data)["oplists"][3]["main"]["weight"]
    at = weight.ctypes.data - np.frombuffer(data, np.uint8).ctypes.data
    del weight
    data[at - 4 : at] = (2**20).to_bytes(4, "little")
    with pytest.raises(FormatError) as caught:
        wire.read(bytes(data))
    assert caught.value.where == f"Net.oplists[3].main.weight, byte {at - 4}"
    assert "1048576 elements of 4 bytes" in caught.value.why


def test_limits_of_depth_and_number(monkeypatch):
    monkeypatch.setattr(wire_write, "MAX_DEPTH", 1000)
    attribute = {"key": "k"}
    for depth in range(1, 64, 2):
        assert wire.read_nested("Attribute", wire.write_nested("Attribute", attribute))["key"] == "k", depth
        attribute = {"key": "k", "func": {"attr": [attribute]}}
    with pytest.raises(FormatError, match="nested more than 64 deep"):
        wire.read_nested("Attribute", wire.write_nested("Attribute", attribute))
    data = wire.write({"oplists": [{}] * 10})
    monkeypatch.setattr(wire_read, "MAX_TABLES", 11)
    assert len(wire.read(data)["oplists"]) == 10
    monkeypatch.setattr(wire_read, "MAX_TABLES", 10)
    with pytest.raises(FormatError, match="more than 10 tables"):
        wire.read(data)


def many_to_one(outer: int, inner: int) -> bytes:
    """`outer` subgraphs, all the same one, which has `inner` tensors, all of the same long name."""
    builder = flatbuffers.Builder(1024)

    def vector(places):
        builder.StartVector(4, len(places), 4)
        for place in places:
            builder.PrependUOffsetTRelative(place)
        return builder.EndVector()

    def table(slots, slot, place):
        builder.StartObject(slots)
        builder.PrependUOffsetTRelativeSlot(slot, place, 0)
        return builder.EndObject()

    names = vector([builder.CreateString("x" * 10_000)] * inner)
    subgraph = table(6, wire.tables["SubGraphProto"].fields["tensors"].slot, names)
    subgraphs = vector([subgraph] * outer)
    builder.Finish(table(12, wire.tables["Net"].fields["subgraphs"].slot, subgraphs))
    return bytes(builder.Output())


def test_a_small_file_cannot_fill_the_memory():
    shared = wire.read(many_to_one(2, 5000))["subgraphs"][1]["tensors"]
    assert len(shared) == 5000
    assert len({id(name) for name in shared}) == 1, "a string used often is decoded once"
    with pytest.raises(FormatError, match="again and again"):
        wire.read(many_to_one(50_000, 50_000))


VERIFIER = """
#include <cstdint>
#include <cstdio>
#include <vector>
#include "mnn_generated.h"
int main() {
  std::uint32_t size;
  while (std::fread(&size, 4, 1, stdin) == 1) {
    std::vector<std::uint8_t> data(size);
    if (size && std::fread(data.data(), 1, size, stdin) != size) return 1;
    flatbuffers::Verifier verifier(data.data(), size);
    std::putchar(minnow::wire::VerifyNetBuffer(verifier) ? '1' : '0');
  }
}
"""


@pytest.fixture(scope="module")
def verify(tmp_path_factory):
    """FlatBuffers' own verifier, from the code that flatc makes of our schema: which of the buffers it accepts."""
    compiler = shutil.which("c++") or shutil.which("g++")
    if not (shutil.which("flatc") and compiler):
        pytest.skip("needs flatc and a C++ compiler")
    folder = tmp_path_factory.mktemp("verifier")
    (folder / "verify.cpp").write_text(VERIFIER)
    schema = ROOT / "schema" / "mnn" / "mnn.fbs"
    subprocess.run(["flatc", "--cpp", "-o", folder, schema], check=True, capture_output=True)
    subprocess.run([compiler, "-std=c++17", "-o", folder / "verify", folder / "verify.cpp"], check=True)

    def run(buffers):
        stream = b"".join(len(data).to_bytes(4, "little") + data for data in buffers)
        done = subprocess.run([folder / "verify"], input=stream, capture_output=True, check=True)
        return [digit == ord("1") for digit in done.stdout]

    return run


def refusal(data: bytes) -> str:
    try:
        wire.read(data)
    except FormatError as error:
        return error.why
    return ""


def test_same_verdict_as_the_verifier(verify):
    data = sample()
    buffers = [data, data[:-1], data[:-2], *(path.read_bytes() for path in MODELS)]
    buffers += [data[:size] for size in range(0, len(data), 13)]
    buffers += damaged(data, 4000, seed=3)
    theirs = verify(buffers)
    assert len(theirs) == len(buffers)
    assert theirs[0]
    accepted = 0
    for buffer, expected in zip(buffers, theirs, strict=True):
        why = refusal(buffer)
        accepted += not why
        # The one thing we are stricter about: a vector of references is never meant to hold a zero.
        assert expected == (not why) or (expected and "the offset 0 " in why), why
    assert len(buffers) // 10 < accepted < len(buffers) * 9 // 10, "the damage should hit about half of the time"


def test_same_verdict_as_the_engine():
    data = sample()
    buffers = [data, *(data[:size] for size in range(1, len(data), 13)), *damaged(data, 2000, seed=4)]
    refused = 0
    for buffer in buffers:
        with pytest.raises(MinnowError) as caught:  # the engine has no such ops
            minnow.load(buffer)
        why = refusal(buffer)
        # As above.
        assert ("damaged or cut off" in str(caught.value)) == bool(why) or "the offset 0 " in why, why
        refused += bool(why)
    assert len(buffers) // 10 < refused < len(buffers) * 9 // 10


@pytest.mark.parametrize(
    ("listed", "message"),
    [
        ([0, 0], "names a tensor twice"),
        ([0, -1], "names a tensor twice, or none"),
        ([0], "the input 'b' is read, but not in its list"),
        ([0, 2], "names 'sum', which is no input"),
        ([0, 7], "tensor 7 does not exist"),
    ],
)
def test_the_inputs_of_a_subgraph(listed: list[int], message: str) -> None:
    inner, graph = Graph("body"), Graph()
    names = "ab"
    b = Builder(inner)
    inner.outputs = [b.Add(*(inner.add_param(TensorType(DType.F32, (3,)), name) for name in names))]
    x = [graph.add_param(TensorType(DType.F32, (3,)), name) for name in "xy"]
    graph.outputs = list(Builder(graph).node("Fused", x, {"body": inner}, 1).outputs)
    net = wire.read(encode(model_of(graph)))
    (table,) = net["subgraphs"]
    assert [table["tensors"][i] for i in table["inputs"]] == [f"body/{name}" for name in names]
    table["tensors"] = ["a", "b", "sum"]
    decode(wire.write(net))
    table["inputs"] = listed
    with pytest.raises(FormatError, match=message):
        decode(wire.write(net))


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([0], "no input of the If feeds 'then_branch/x'"),
        ([], "the If has no condition"),
        ([0, -1], "an input is missing"),
    ],
)
def test_the_inputs_of_an_if(inputs: list[int], message: str) -> None:
    """A name beside an input that the op does not have feeds nothing."""
    graph = Graph()
    test, x = graph.add_param(TensorType(DType.BOOL, ()), "c"), graph.add_param(TensorType(DType.F32, (3,)), "x")
    branches = {}
    for name in ("then_branch", "else_branch"):
        branch = branches[name] = Graph(name)
        branch.outputs = [Builder(branch).Neg(branch.add_param(TensorType(DType.F32, (3,)), "x"))]
    graph.outputs = list(Builder(graph).node("If", [test, x], branches, 1).outputs)
    net = wire.read(encode(model_of(graph)))
    decode(wire.write(net))
    (table,) = [t for t in net["oplists"] if t["type"] == "If"]
    table["inputIndexes"] = inputs
    with pytest.raises(FormatError, match=message):
        decode(wire.write(net))


def test_an_unknown_op_whose_first_input_is_missing() -> None:
    """What is inferred of it comes from the first input that there is."""
    raw, graph = {"type": "Im2Col", "main_type": "Convolution2D", "main": {}}, Graph()
    x = graph.add_param(TensorType(DType.I32, (3,)), "x")
    node = Builder(graph).node("Raw", [None, x], raw, 1)
    assert infer_node(node)[0].dtype is DType.I32


@pytest.mark.parametrize("name", ["if_bomb_16", "if_bomb_40"])
def test_branches_of_branches_are_counted_before_they_are_copied(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them calls the next one twice: copies of the first levels took seconds before they were too many."""
    data = (ROOT / "tests" / "hostile" / f"{name}.mnn").read_bytes()
    monkeypatch.setattr(decoder._Reader, "op", lambda *_: pytest.fail("an op is read"))
    with pytest.raises(UnsupportedError, match="come to more than"):
        decode(data)
