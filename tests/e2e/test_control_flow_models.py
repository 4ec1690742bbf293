"""If, Loop and Scan of ONNX files against onnxruntime: captures from several levels, no rounds, all axes of Scan."""

from __future__ import annotations

import os
from itertools import product
from pathlib import Path
from typing import Any

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import minnow
from minnow.errors import ModelError

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(11)
FLOAT, INT, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def normal(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def value(name: str, shape: Any, dtype: int = FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def const(name: str, array: Any) -> onnx.TensorProto:
    return numpy_helper.from_array(np.asarray(array), name)


def save(path: Path, nodes, inputs, outputs, initializers=(), opset=17) -> Path:
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(initializers))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.save(model, str(path))
    return path


def onnxruntime_of(path: Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def judged(path: Path, feeds: list[dict[str, Array]], level: int = 2) -> minnow.Session:
    """All runs give what onnxruntime gives."""
    target = path.with_suffix(".mnn")
    minnow.convert(path, output=target, optimize=level, verify=False)
    session, judge = minnow.load(target, threads=1), onnxruntime_of(path)
    for feed in feeds:
        want = judge.run(None, feed)
        got = session.run(feed)
        for info, w in zip(judge.get_outputs(), want, strict=True):
            g = got[info.name]
            assert (g.dtype, g.shape) == (w.dtype, w.shape), info.name
            scale = 1 + float(np.abs(w).max(initial=0))
            np.testing.assert_allclose(g, w, rtol=1e-5, atol=1e-5 * scale, err_msg=info.name)
    return session


# ---- generated models


class Writer:
    """Writes a random model: nested If, Loop and Scan, whose bodies read whatever is visible around them.

    All values are vectors of three floats, but for conditions and counts; `n` is an input that counts rounds.
    """

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.count = 0

    def name(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}"

    def pick(self, names: list[str]) -> str:
        # What is far outside is picked as often as what is near.
        return names[self.rng.integers(len(names))]

    def block(self, visible: list[str], depth: int, n: int) -> tuple[list[onnx.NodeProto], list[str]]:
        """Nodes, and the values they add."""
        nodes: list[onnx.NodeProto] = []
        added: list[str] = []
        for _ in range(n):
            makers = [self.arithmetic] + [self.branch, self.loop, self.scan] * (depth > 0)
            made, out = makers[self.rng.integers(len(makers))]([*visible, *added], depth)
            nodes += made
            added += out
        return nodes, added

    def arithmetic(self, visible: list[str], depth: int) -> tuple[list[onnx.NodeProto], list[str]]:
        out, half = self.name("v"), self.name("h")
        op = ("Add", "Sub", "Mul", "Max")[self.rng.integers(4)]
        operands = [self.pick(visible), self.pick(visible)]
        return [helper.make_node(op, operands, [half]), helper.make_node("Tanh", [half], [out])], [out]

    def condition(self, visible: list[str]) -> tuple[list[onnx.NodeProto], str]:
        total, out = self.name("t"), self.name("c")
        return [
            helper.make_node("ReduceSum", [self.pick(visible)], [total], keepdims=0),
            helper.make_node("Greater", [total, "zero"], [out]),
        ], out

    def branch(self, visible: list[str], depth: int) -> tuple[list[onnx.NodeProto], list[str]]:
        nodes, cond = self.condition(visible)
        branches = {}
        for which in ("then_branch", "else_branch"):
            inner, added = self.block(visible, depth - 1, int(self.rng.integers(3)))
            # Either what was computed inside, or something from outside as it is.
            result, out = self.pick(added or visible), self.name("b")
            inner.append(helper.make_node("Identity", [result], [out]))
            branches[which] = helper.make_graph(inner, self.name("branch"), [], [value(out, [3])])
        out = self.name("v")
        return [*nodes, helper.make_node("If", [cond], [out], **branches)], [out]

    def loop(self, visible: list[str], depth: int) -> tuple[list[onnx.NodeProto], list[str]]:
        i, cond, state = self.name("i"), self.name("cond"), self.name("state")
        inner, added = self.block([*visible, state], depth - 1, int(self.rng.integers(1, 3)))
        again, new, row = self.name("again"), self.name("new"), self.name("row")
        if self.rng.integers(2):
            more, go = self.condition([*visible, *added])
            inner += [*more, helper.make_node("Identity", [go], [again])]
        else:
            inner.append(helper.make_node("Identity", [cond], [again]))
        inner.append(helper.make_node("Identity", [self.pick([state, *added])], [new]))
        inner.append(helper.make_node("Add", [self.pick([*visible, *added]), new], [row]))
        body = helper.make_graph(
            inner, self.name("body"), [value(i, [], INT), value(cond, [], BOOL), value(state, [3])],
            [value(again, [], BOOL), value(new, [3]), value(row, [3])],
        )  # fmt: skip
        trips = ("n", "two", "none")[self.rng.integers(3)]
        last, rows, total = self.name("v"), self.name("rows"), self.name("v")
        return [
            helper.make_node("Loop", [trips, "", self.pick(visible)], [last, rows], body=body),
            helper.make_node("ReduceSum", [rows, "first"], [total], keepdims=0),
        ], [last, total]

    def scan(self, visible: list[str], depth: int) -> tuple[list[onnx.NodeProto], list[str]]:
        state, x = self.name("state"), self.name("x")
        inner, added = self.block([*visible, state, x], depth - 1, int(self.rng.integers(1, 3)))
        new, row = self.name("new"), self.name("row")
        inner.append(helper.make_node("Add", [self.pick([state, *added]), x], [new]))
        inner.append(helper.make_node("Identity", [self.pick(added)], [row]))
        body = helper.make_graph(
            inner, self.name("body"), [value(state, [3]), value(x, [3])], [value(new, [3]), value(row, [3])]
        )
        matrix, last, rows, total = self.name("m"), self.name("v"), self.name("rows"), self.name("v")
        attrs = {"num_scan_inputs": 1, "scan_input_directions": [int(self.rng.integers(2))],
                 "scan_output_directions": [int(self.rng.integers(2))], "scan_input_axes": [1]}  # fmt: skip
        return [
            helper.make_node("Expand", [self.pick(visible), "3xn"], [matrix + "_"]),
            helper.make_node("Transpose", [matrix + "_"], [matrix], perm=[1, 0]),
            helper.make_node("Scan", [self.pick(visible), matrix], [last, rows], body=body, **attrs),
            helper.make_node("ReduceSum", [rows, "first"], [total], keepdims=0),
        ], [last, total]

    def write(self, path: Path) -> Path:
        nodes, added = self.block(["x", "y"], 3, 4)
        rows = [
            # onnxruntime divides by zero in a Scan of no rounds.
            helper.make_node("Add", ["n", "one"], ["more"]),
            helper.make_node("Reshape", ["more", "first_"], ["n1"]),
            helper.make_node("Concat", ["n1", "three"], ["3xn"], axis=0),
        ]
        constants = [const("zero", np.float32(0)), const("two", 2), const("none", 0), const("one", 1)]
        constants += [const("first", [0]), const("first_", [-1]), const("three", [3])]
        inputs = [value("x", [3]), value("y", [3]), value("n", [], INT)]
        return save(path, [*rows, *nodes], inputs, [value(v, [3]) for v in added], constants)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(60))
def test_generated(seed, tmp_path):
    path = Writer(seed).write(tmp_path / "m.onnx")
    feeds = [{"x": normal(3), "y": normal(3), "n": np.array(n)} for n in (2, 0, 1, 3)]
    judged(path, feeds, level=seed % 4)


# ---- Scan


def scan_body() -> onnx.GraphProto:
    """(total, count, a, b) -> (total + a * weight, count + 1, total * a, b): `weight` and `names` are captured."""
    return helper.make_graph(
        [
            helper.make_node("Mul", ["a", "weight"], ["w"]),
            helper.make_node("Add", ["total", "w"], ["total_"]),
            helper.make_node("Add", ["count", "one"], ["count_"]),
            helper.make_node("Mul", ["total", "a"], ["p"]),
            helper.make_node("Unsqueeze", ["p", "last"], ["p2"]),
            helper.make_node("Mul", ["p2", "names"], ["product"]),
            helper.make_node("Identity", ["b"], ["b_"]),
        ],
        "body",
        [value("total", [2]), value("count", []), value("a", [2]), value("b", ["K"])],
        [value("total_", [2]), value("count_", []), value("product", [2, 4]), value("b_", ["K"])],
    )


@pytest.mark.sampled(3)
@pytest.mark.parametrize("backwards", list(product((0, 1), repeat=2)), ids=str)
@pytest.mark.parametrize("axes", [(0, 0), (1, -1), (-2, 1)], ids=str)
@pytest.mark.parametrize(
    ("out_axes", "out_backwards"), [((0, 0), (0, 0)), ((1, -1), (1, 0)), ((2, -2), (0, 1))], ids=str
)
def test_scan_along_all_axes_in_all_directions(axes, backwards, out_axes, out_backwards, tmp_path):
    node = helper.make_node(
        "Scan", ["total", "count", "a", "b"], ["t", "c", "p", "bs"], body=scan_body(), num_scan_inputs=2,
        scan_input_axes=axes, scan_input_directions=backwards, scan_output_axes=out_axes,
        scan_output_directions=out_backwards,
    )  # fmt: skip
    shapes = [["T", 2] if axes[0] in (0, -2) else [2, "T"], ["T", "K"] if axes[1] in (0, -2) else ["K", "T"]]
    path = save(
        tmp_path / "m.onnx",
        [node],
        [value("total", [2]), value("count", []), value("a", shapes[0]), value("b", shapes[1]), value("weight", [2])],
        [value("t", [2]), value("c", []), value("p", None), value("bs", None)],
        [const("one", np.float32(1)), const("last", [-1]), const("names", normal(4))],
    )
    feeds = []
    for length, k in ((3, 5), (1, 1), (5, 3)):
        sizes = {"T": length, "K": k}
        a, b = (normal(*(sizes.get(d, d) for d in shape)) for shape in shapes)
        feeds.append({"total": normal(2), "count": np.float32(0), "a": a, "b": b, "weight": normal(2)})
    judged(path, [{k: np.asarray(v) for k, v in feed.items()} for feed in feeds])


@pytest.mark.parametrize("lens", [False, True])
@pytest.mark.parametrize("directions", [(0, 0), (1, 0), (1, 1)], ids=str)
@pytest.mark.parametrize("symbolic", [False, True])
def test_scan_with_a_batch_axis(lens, directions, symbolic, tmp_path):
    body = helper.make_graph(
        [
            helper.make_node("Mul", ["a", "weight"], ["w"]),
            helper.make_node("Add", ["total", "w"], ["total_"]),
            helper.make_node("Sub", ["total_", "b"], ["row"]),
        ],
        "body",
        [value("total", [2]), value("a", [2]), value("b", [2])],
        [value("total_", [2]), value("row", [2])],
    )
    node = helper.make_node(
        "Scan", ["lens" if lens else "", "total", "a", "b"], ["t", "rows"], body=body, num_scan_inputs=2,
        directions=directions,
    )  # fmt: skip
    n, s = ("N", "S") if symbolic else (3, 5)
    inputs = [value("total", [n, 2]), value("a", [n, s, 2]), value("b", [n, s, 2]), value("weight", [2])]
    path = save(
        tmp_path / "m.onnx", [node], [*inputs, *([value("lens", [n], INT)] if lens else [])],
        [value("t", [n, 2]), value("rows", [n, s, 2])], opset=8,
    )  # fmt: skip
    feeds = []
    for batch, length in ((3, 5), (1, 1), (4, 2)) if symbolic else ((3, 5),):
        feed = {"total": normal(batch, 2), "weight": normal(2)}
        feed |= {name: normal(batch, length, 2) for name in "ab"}
        if lens:
            feed["lens"] = RNG.integers(1, length + 1, batch)
        feeds.append(feed)
    judged(path, feeds)


@pytest.mark.parametrize("opset", [8, 17])
def test_scan_of_nothing(opset, tmp_path):
    """onnxruntime divides by zero there; the states stay as they are, and nothing is stacked."""
    body = helper.make_graph(
        [helper.make_node("Add", ["s", "x"], ["s_"]), helper.make_node("Mul", ["s", "x"], ["row"])],
        "body",
        [value("s", [2]), value("x", [2])],
        [value("s_", [2]), value("row", [2])],
    )
    batch = ["N"] if opset == 8 else []
    operands = ["", "s", "xs"] if opset == 8 else ["s", "xs"]
    path = save(
        tmp_path / "m.onnx",
        [helper.make_node("Scan", operands, ["last", "rows"], body=body, num_scan_inputs=1)],
        [value("s", [*batch, 2]), value("xs", [*batch, "T", 2])],
        [value("last", [*batch, 2]), value("rows", [*batch, "T", 2])],
        opset=opset,
    )
    minnow.convert(path, output=tmp_path / "m.mnn", verify=False)
    session = minnow.load(tmp_path / "m.mnn")
    for n, length in [(3, 0), (0, 4), (0, 0), (1, 2)] if batch else [(0, 0), (0, 3)]:
        lead = (n,) if batch else ()
        feed = {"s": normal(*lead, 2), "xs": normal(*lead, length, 2)}
        got = session.run(feed)
        assert got["rows"].shape == (*lead, length, 2)
        np.testing.assert_allclose(got["last"], feed["s"] + feed["xs"].sum(len(lead)), rtol=1e-5, atol=1e-6)


# ---- what can go wrong, and what must not


def test_an_invalid_branch_is_told_only_when_it_is_taken(tmp_path):
    """The matrix product fits one width only, the sum any: a fixed width leaves one branch that is no model."""
    then = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["a"], name="bad")], "then", [], [value("a", None)]
    )
    other = helper.make_graph([helper.make_node("Mul", ["x", "x"], ["b"])], "else", [], [value("b", None)])
    path = save(
        tmp_path / "m.onnx",
        [helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other)],
        [value("x", [2, "W"]), value("c", [], BOOL)],
        [value("y", [2, "V"])],
        [const("w", normal(5, 7))],
    )
    judged(path, [{"x": normal(2, 5), "c": np.array(True)}, {"x": normal(2, 3), "c": np.array(False)}])
    for level in range(4):
        minnow.convert(path, output=tmp_path / "m.mnn", inputs={"x": (2, 3)}, verify=False, optimize=level)
        session = minnow.load(tmp_path / "m.mnn")
        x = normal(2, 3)
        np.testing.assert_allclose(session.run({"x": x, "c": np.array(False)})["y"], x * x, rtol=1e-6)
        with pytest.raises(ModelError, match=r"branch of an If is invalid.*bad"):
            session.run({"x": x, "c": np.array(True)})


def test_both_branches_invalid_is_an_invalid_model(tmp_path):
    branches = {
        f"{which}_branch": helper.make_graph([helper.make_node("MatMul", ["x", "w"], [which])], which, [],
                                             [value(which, None)])
        for which in ("then", "else")
    }  # fmt: skip
    path = save(tmp_path / "m.onnx", [helper.make_node("If", ["c"], ["y"], **branches)],
                [value("x", [2, 3]), value("c", [], BOOL)], [value("y", None)], [const("w", normal(5, 7))])  # fmt: skip
    with pytest.raises(ModelError):
        minnow.convert(path, output=tmp_path / "m.mnn")


def test_no_rounds(tmp_path):
    """What a loop stacks has the shape [0, ...] then; dimensions that only a round would tell are 0."""
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["on"]),
            helper.make_node("Identity", ["s"], ["s_"]),
            helper.make_node("NonZero", ["s"], ["places"]),
            helper.make_node("Cast", ["places"], ["unknown"], to=FLOAT),
            helper.make_node("Unsqueeze", ["s", "zero"], ["known"]),
        ],
        "body",
        [value("i", [], INT), value("go", [], BOOL), value("s", [3])],
        [value("on", [], BOOL), value("s_", [3]), value("unknown", [1, "M"]), value("places", [1, "M"], INT),
         value("known", [1, 3])],
    )  # fmt: skip
    path = save(
        tmp_path / "m.onnx",
        [helper.make_node("Loop", ["n", "go", "s"], ["last", "u", "p", "k"], body=body)],
        [value("n", [], INT), value("go", [], BOOL), value("s", [3])],
        [value("last", [3]), value("u", ["R", 1, "M"]), value("p", ["R", 1, "M"], INT), value("k", ["R", 1, 3])],
        [const("zero", [0])],
    )
    feeds = [
        {"n": np.array(n), "go": np.array(go), "s": np.array(s, np.float32)}
        for n in (0, 2) for go in (True, False) for s in ([1, 0, 2], [0, 0, 0])
    ]  # fmt: skip
    judged(path, feeds)
