"""Sequences and optionals from an ONNX file to the engine and back to Python: beside onnxruntime."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper
from sequence_models import MODELS, Array, at, f32, i64

import minnow
from minnow.optimizer.pipeline import optimize
from minnow.runtime import _engine
from minnow.schema.errors import MinnowError, ModelError, UnsupportedError, UsageError
from minnow.schema.ir.sequence import pack
from minnow.schema.mnn import decode, encode


def parsed(text: str, opset: int = 18) -> onnx.ModelProto:
    """The model of a graph's text; "grow in a loop" reads two constants that text cannot hold."""
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> g {text}')
    for name, number in (("zeros", 0), ("ones", 1)):
        if any(name in node.input for node in model.graph.node):
            model.graph.initializer.append(onnx.numpy_helper.from_array(i64(number), name))
    return model


def converted(model: onnx.ModelProto, folder: Path, level: int = 2) -> minnow.Session:
    source, target = folder / "m.onnx", folder / "m.mnn"
    onnx.save(model, source)
    minnow.convert(source, output=target, optimize=level, verify=False)
    return minnow.load(target, threads=1)


def wanted(model: onnx.ModelProto, feed: dict[str, Any]) -> dict[str, Any]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return dict(zip([o.name for o in model.graph.output], session.run(None, feed), strict=True))


def assert_same(got: Any, want: Any, what: str) -> None:
    if isinstance(want, list):
        assert isinstance(got, list), what
        assert len(got) == len(want), what
        for i, (g, w) in enumerate(zip(got, want, strict=True)):
            assert_same(g, np.asarray(w), f"{what}[{i}]")
        return
    assert (got.dtype, got.shape) == (want.dtype, want.shape), what
    np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=1e-6, err_msg=what)


@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize("name", MODELS)
def test_like_onnxruntime(name: str, level: int, tmp_path: Path) -> None:
    text, feeds = MODELS[name]
    model = parsed(text)
    session = converted(model, tmp_path, level)
    for feed in [*feeds, feeds[0]]:  # the first one again: on plans made for others
        for key, want in wanted(model, feed).items():
            assert_same(session.run(feed)[key], want, f"{name}: {key}")


@pytest.mark.parametrize("name", MODELS)
def test_a_file_reads_back_as_the_same_model(name: str, tmp_path: Path) -> None:
    text, feeds = MODELS[name]
    converted(parsed(text), tmp_path)
    data = (tmp_path / "m.mnn").read_bytes()
    model = decode(data)
    again = encode(model)
    first, second = minnow.load(data, threads=1), minnow.load(again, threads=1)
    assert first.inputs == second.inputs
    assert first.outputs == second.outputs
    for key, want in first.run(feeds[0]).items():
        assert_same(second.run(feeds[0])[key], want, f"{name}: {key}")


@pytest.mark.parametrize("name", ["concatenate", "unbind", "map over rows"])
def test_nothing_is_left_of_sequences_that_are_known(name: str, tmp_path: Path) -> None:
    from minnow.converter import read

    model = parsed(MODELS[name][0])
    if name == "concatenate":
        del model.graph.output[2]  # which is one
    onnx.save(model, tmp_path / "m.onnx")
    read_in = read(tmp_path / "m.onnx")
    optimize(read_in)
    left = {node.op for graph in read_in.graph.walk() for node in graph if "Sequence" in node.op}
    assert not left
    assert not read_in.notices  # that MNN's own runtime cannot run it


def test_what_it_is_called(tmp_path: Path) -> None:
    text = "(seq(float[N, 3]) s) => (seq(float) y, int64 n) { y = Identity(s) n = SequenceLength(s) }"
    session = converted(parsed(text), tmp_path)
    assert str(session.inputs[0]) == "s: sequence(float32[N, 3])"
    assert (session.inputs[0].container, session.inputs[0].dtype) == ("sequence", "float32")
    assert str(session.outputs[0]) == "y: sequence(float32[...])"
    assert (session.outputs[1].container, session.outputs[1].shape) == ("", ())


# ---- optionals


def _optional(element: onnx.TypeProto, nodes: list[onnx.NodeProto], outputs: list[onnx.ValueInfoProto]) -> Any:
    x = helper.make_value_info("x", helper.make_optional_type_proto(element))
    graph = helper.make_graph(nodes, "g", [x], outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


TENSOR = helper.make_tensor_type_proto(1, [None, 3])
SEQUENCE = helper.make_sequence_type_proto(helper.make_tensor_type_proto(1, None))
HAS = helper.make_tensor_value_info("has", 9, [])


@pytest.mark.parametrize(
    ("element", "value"),
    [(TENSOR, f32(2, 3)), (TENSOR, None), (SEQUENCE, [f32(2), f32(0, 1)]), (SEQUENCE, []), (SEQUENCE, None)],
)
def test_optional_inputs_and_outputs(element: onnx.TypeProto, value: Any, tmp_path: Path) -> None:
    nodes = [helper.make_node("OptionalHasElement", ["x"], ["has"]), helper.make_node("Identity", ["x"], ["y"])]
    model = _optional(element, nodes, [HAS, helper.make_value_info("y", helper.make_optional_type_proto(element))])
    got = converted(model, tmp_path).run({"x": value})
    assert got["has"] == (value is not None)
    assert (got["y"] is None) == (value is None)
    if value is not None:
        assert_same(got["y"], value, "y")


def test_the_element_of_an_optional(tmp_path: Path) -> None:
    nodes = [helper.make_node("OptionalGetElement", ["x"], ["e"]), helper.make_node("Exp", ["e"], ["y"])]
    session = converted(_optional(TENSOR, nodes, [helper.make_tensor_value_info("y", 1, None)]), tmp_path)
    x = f32(2, 3)
    assert_same(session.run({"x": x})["y"], np.exp(x), "y")
    with pytest.raises(ModelError, match="empty"):
        session.run({"x": None})


@pytest.mark.parametrize("value", [None, f32(2, 3)])
def test_a_branch_for_nothing(value: Any, tmp_path: Path) -> None:
    def branch(name: str, *nodes: onnx.NodeProto) -> onnx.GraphProto:
        return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(name, 1, None)])

    default = helper.make_node("Constant", [], ["t"], value_floats=[1.0, 2.0])
    taken = helper.make_node("OptionalGetElement", ["x"], ["e"])
    nodes = [
        helper.make_node("OptionalHasElement", ["x"], ["has"]),
        helper.make_node("If", ["has"], ["y"], then_branch=branch("e", taken), else_branch=branch("t", default)),
    ]
    model = _optional(TENSOR, nodes, [helper.make_tensor_value_info("y", 1, None)])
    want = np.array([1, 2], np.float32) if value is None else value
    assert_same(converted(model, tmp_path).run({"x": value})["y"], want, "y")


def test_an_optional_of_known_content_vanishes(tmp_path: Path) -> None:
    model = parsed("""(float[N] x) => (float[N] y, bool h) {
      o = Optional(x) h = OptionalHasElement(o) e = OptionalGetElement(o) y = Neg(e)
    }""")
    session = converted(model, tmp_path)
    x = f32(3)
    assert_same(session.run({"x": x})["y"], -x, "y")
    assert "Sequence" not in str(decode((tmp_path / "m.mnn").read_bytes()).graph.nx().nodes)


# ---- what is refused

TAKE = MODELS["take"][0]
BIG = 2**40


@pytest.mark.parametrize(
    ("feed", "error", "why"),
    [
        ({"s": [f32(2)], "i": at(1)}, ModelError, "out of range"),
        ({"s": [f32(2)], "i": at(-2)}, ModelError, "out of range"),
        ({"s": [], "i": at(0)}, ModelError, "empty"),
        ({"s": f32(2), "i": at(0)}, UsageError, "pass a list"),
        ({"s": None, "i": at(0)}, UsageError, "pass a list"),
        ({"s": [f32(2), "text"], "i": at(0)}, UsageError, r"s\[1\]"),
        ({"s": [np.array([1j])], "i": at(0)}, UsageError, r"s\[0\]"),
    ],
)
def test_bad_inputs(feed: dict[str, Any], error: Any, why: str, tmp_path: Path) -> None:
    session = converted(parsed(TAKE), tmp_path)
    with pytest.raises(error) as caught:
        session.run(feed)
    assert re.search(why, f"{caught.value.message} {caught.value.hint}")


def test_declared_extents_hold_for_each_element(tmp_path: Path) -> None:
    session = converted(parsed("(seq(float[N, 3]) s) => (int64 n) { n = SequenceLength(s) }"), tmp_path)
    assert session.run({"s": [f32(2, 3), f32(0, 3)]})["n"] == 2
    for bad in (f32(2, 4), f32(3)):
        with pytest.raises(UsageError, match=r"s\[1\]"):
            session.run({"s": [f32(1, 3), bad]})


def test_wide_integers_are_never_cut(tmp_path: Path) -> None:
    model = parsed("""(seq(int64) s, int64[N] k) => (int64[] y) {
      z = Constant <value_int = 0> () a = SequenceAt(s, z) y = Add(a, k)
    }""")
    session = converted(model, tmp_path)
    assert session.run({"s": [i64(2**30)], "k": i64(1)})["y"] == 2**30 + 1
    outcome: Any = None
    try:
        outcome = session.run({"s": [i64(BIG)], "k": i64(1)})["y"].tolist()
    except UsageError as e:
        outcome = e.message
    # Depending on whether the file keeps its integers wide.
    assert outcome == [BIG + 1] or "32 bits" in outcome


TEXT = "string tensors|tensors of strings"


@pytest.mark.parametrize(
    "text",
    [
        "(string[N] x) => (string[N] y) { y = Identity(x) }",
        "(float[N] x) => (string[N] y) { y = Cast <to = 8> (x) }",
        "(float[N] x) => (bool[N] y) { s = Constant <value_strings = [\"a\", \"b\"]> () y = Equal(s, s) }",
        "(float[N] x) => (string[2] s) { s = Constant <value_strings = [\"a\", \"b\"]> () }",
        "(float[N] x) => (string y) { s = Constant <value_string = \"a\"> () y = Identity(s) }",
        "(float[N] x) => (float[1] y) { s = Constant <value_string = \"1\"> () y = Cast <to = 1> (s) }",
        "(string[N] x) => (bool[N] y) { y = RegexFullMatch <pattern = \"a\"> (x) }",
        "(string[N] x) => (string[N] y) { y = StringConcat(x, x) }",
        "(seq(string) x) => (int64 y) { y = SequenceLength(x) }",
    ],
)  # fmt: skip
def test_strings_are_refused_by_name(text: str, tmp_path: Path) -> None:
    onnx.save(parsed(text, 20), tmp_path / "m.onnx")
    with pytest.raises(UnsupportedError) as caught:
        minnow.convert(tmp_path / "m.onnx", output=tmp_path / "m.mnn", verify=False)
    said = " ".join([caught.value.message, *caught.value.items])
    assert any(part in said for part in TEXT.split("|")), said
    assert not (tmp_path / "m.mnn").exists()


def test_strings_that_nobody_reads_do_not_matter(tmp_path: Path) -> None:
    model = parsed("""(float[N] x) => (float[N] y, int64[1] n) {
      s = Constant <value_strings = ["a", "b"]> () t = Identity(s) n = Shape(t) y = Neg(x)
    }""")
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(["left", "over"], object), "names"))
    got = converted(model, tmp_path).run({"x": f32(3)})
    assert got["n"].tolist() == [2]


@pytest.mark.parametrize("kind", ["sequences", "map"])
def test_other_containers_are_refused_by_name(kind: str, tmp_path: Path) -> None:
    inner = SEQUENCE if kind == "sequences" else onnx.TypeProto()
    if kind == "map":
        inner.map_type.key_type = 7
        inner.map_type.value_type.CopyFrom(TENSOR)
    type = helper.make_sequence_type_proto(inner) if kind == "sequences" else inner
    infos = [helper.make_value_info(n, type) for n in "xy"]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", infos[:1], infos[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), tmp_path / "m.onnx")
    with pytest.raises(UnsupportedError, match=kind):
        minnow.convert(tmp_path / "m.onnx", output=tmp_path / "m.mnn", verify=False)


# ---- damage


def test_damaged_bytes_are_errors_and_never_a_crash() -> None:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, __file__, "4000"], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    ran, refused = map(int, done.stdout.split())
    assert refused > 1000
    assert ran > 10


def _damage(data: Array, rng: np.random.Generator) -> Array:
    changed = data.copy()
    numbers = [0, 1, -1, 2, 7, 2**31, 2**62, 2**63 - 1, -(2**63), int(rng.integers(-300, 300))]
    for _ in range(int(rng.integers(1, 4))):
        what = rng.random()
        if what < 0.4 and changed.size:
            changed[rng.integers(changed.size)] ^= np.uint8(1 << rng.integers(8))
        elif what < 0.8 and changed.size >= 8:
            place = int(rng.integers(changed.size // 8)) * 8
            changed[place : place + 8] = np.frombuffer(np.int64(numbers[rng.integers(10)]).tobytes(), np.uint8)
        elif what < 0.9:
            changed = changed[: int(rng.integers(changed.size + 1))]
        else:
            changed = np.concatenate([changed, rng.integers(0, 256, int(rng.integers(1, 99))).astype(np.uint8)])
    return changed


def _fuzz(count: int) -> None:
    rng = np.random.default_rng(11)
    good = pack([f32(2, 3), f32(2, 1), f32(2, 0)])
    calls: list[tuple[str, list[Any], dict[str, Any]]] = [
        ("SequenceAt", [at(1)], {"dtype": "f32"}),
        ("SequenceAt", [at(-1)], {"dtype": "i32"}),
        ("SequenceAt", [at(0)], {"dtype": "f32", "shape": (2, 3)}),
        ("SequenceInsert", [f32(3), at(2)], {}),
        ("SequenceInsert", [f32(3)], {}),
        ("SequenceErase", [at(-2)], {}),
        ("SequenceLength", [], {}),
        ("ConcatFromSequence", [], {"axis": 1, "dtype": "f32"}),
        ("ConcatFromSequence", [], {"axis": 0, "new_axis": True, "dtype": "f16"}),
        ("ConcatFromSequence", [], {"axis": 1, "dtype": "f32", "shape": (2, 4)}),
    ]
    from minnow.schema.ir import DType

    outcomes = [0, 0]
    for k in range(count):
        name, rest, attrs = calls[k % len(calls)]
        plain = {key: DType(v) if key == "dtype" else v for key, v in attrs.items()}
        # At an odd address: nobody promises an alignment.
        damaged = _damage(good, rng)
        shifted = np.zeros(damaged.size + 1, np.uint8)[1:]
        shifted[:] = damaged
        try:
            (got,) = _engine.run_op(name, plain, [shifted, *rest], 1)
            if got.dtype == np.uint8:
                _engine.run_op("SequenceLength", {}, [got], 1)
            outcomes[0] += 1
        except MinnowError:
            outcomes[1] += 1
    print(*outcomes)  # noqa: T201


if __name__ == "__main__":
    _fuzz(int(sys.argv[1]))
