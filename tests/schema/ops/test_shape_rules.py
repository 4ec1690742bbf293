"""Types where dimensions are symbols, unknown, or not even counted; and the errors for shapes that cannot be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from minnow.schema.errors import ModelError
from minnow.schema.ir import DType, TensorType
from minnow.schema.ir.text import parse
from minnow.schema.ops import Arg, get


def operand(text: Any, dtype: DType = DType.F32) -> Arg | None:
    """`N,3,?` is a float tensor of that shape, `i:2` one of int64, `*` has no rank; a list is a constant of int64."""
    if text is None:
        return None
    if isinstance(text, (list, float)):
        array = np.asarray(text, np.float32 if isinstance(text, float) else np.int64)
        return Arg(TensorType(DType.of(array.dtype), array.shape), array)
    if isinstance(text, np.ndarray):
        return Arg(TensorType(DType.of(text.dtype), text.shape), text)
    kind, _, dims = text.rpartition(":")
    dtype = {"i": DType.I64, "b": DType.BOOL, "": DType.F32}[kind]
    if dims == "*":
        return Arg(TensorType(dtype))
    return Arg(TensorType(dtype, tuple(int(d) if d.isdigit() else d for d in dims.split(",") if d)))


def window(n: int, **attrs: Any) -> dict[str, Any]:
    return {"strides": (1,) * n, "pads": (0,) * 2 * n, "dilations": (1,) * n, **attrs}


FAR = 2**63 - 1

RULES: list[tuple[str, list[Any], dict[str, Any], str | list[str]]] = [
    # convolution and pooling: extents of symbols survive only where they do not change
    ("Conv", ["N,3,H,W", "8,3,3,3"], window(2), "N,8,?,?"),
    ("Conv", ["N,3,H,W", "8,3,3,3"], window(2, pads=(1, 1, 1, 1)), "N,8,H,W"),
    ("Conv", ["N,3,H,W", "8,3,3,3"], window(2, pads=(1, 1, 1, 1), strides=(2, 1)), "N,8,?,W"),
    ("Conv", ["N,3,H,W", "8,3,3,2"], window(2, auto_pad="SAME_LOWER"), "N,8,H,W"),
    ("Conv", ["N,3,7,?", "8,3,3,2"], window(2, auto_pad="SAME_UPPER", strides=(2, 2)), "N,8,4,?"),
    ("Conv", ["*", "8,3,3,3"], window(2), "?,8,?,?"),
    ("Conv", ["N,3,9,9", "*"], window(2), "N,?,?,?"),
    ("Conv", ["N,C,9,9", "O,1,3,3", "6"], window(2, group=3), "N,6,7,7"),
    ("ConvTranspose", ["N,3,H,5", "3,4,1,2"], window(2, output_padding=(0, 0)), "N,4,H,6"),
    ("ConvTranspose", ["N,3,H,5", "3,4,2,2"], window(2, strides=(2, 2), output_padding=(0, 1)), "N,4,?,11"),
    ("MaxPool", ["N,C,H,9"], window(2, kernel=(3, 3), pads=(1, 0, 1, 0)), "N,C,H,7"),
    ("MaxPool", ["*"], window(2, kernel=(3, 3)), "?,?,?,?"),
    ("AveragePool", ["N,C,H,9"], window(2, kernel=(2, 2), strides=(2, 2), ceil_mode=True), "N,C,?,5"),
    ("GlobalAveragePool", ["N,C,H,W"], {}, "N,C,1,1"),
    # shapes
    ("Shape", ["N,3,?"], {"start": -2}, "i:2"),
    ("Shape", ["*"], {}, "i:?"),
    ("Reshape", ["N,4,5", [0, -1]], {}, "N,20"),
    ("Reshape", ["N,4,5", [-1, 20]], {}, "N,20"),
    ("Reshape", ["N,4,5", [-1, 10]], {}, "?,10"),
    ("Reshape", ["N,4,S,8", [0, 0, -1, 4]], {}, "N,4,?,4"),
    ("Reshape", ["N,S,8", [0, 0, 2, -1]], {}, "N,S,2,4"),
    ("Reshape", ["?,4,5", [0, -1]], {}, "?,20"),
    ("Reshape", ["N,S", [-1]], {}, "?"),
    ("Reshape", ["N,3", "i:2"], {}, "?,?"),
    ("Reshape", ["N,3", "i:?"], {}, "*"),
    ("Reshape", ["*", [2, 0, -1]], {}, "2,?,?"),
    ("Flatten", ["N,3,4"], {"axis": 1}, "N,12"),
    ("Flatten", ["*"], {}, "?,?"),
    ("Squeeze", ["N,1,S"], {"axes": (1,)}, "N,S"),
    ("Squeeze", ["N,1,S"], {"axes": (0,)}, "1,S"),
    ("Squeeze", ["N,1"], {}, "*"),
    ("Unsqueeze", ["N,3"], {"axes": (-1, 0)}, "1,N,3,1"),
    ("Squeeze", ["N,1,S", "i:2"], {}, "?"),
    ("Squeeze", ["N,1,S", [-2]], {}, "N,S"),
    ("Squeeze", ["N,1,S", "i:K"], {}, "*"),
    ("Unsqueeze", ["N,3", "i:2"], {}, "?,?,?,?"),
    ("Unsqueeze", ["N,3", [-1]], {}, "N,3,1"),
    ("Unsqueeze", ["N,3", "i:K"], {}, "*"),
    ("Expand", ["N,1", [1, 4]], {}, "N,4"),
    ("Expand", ["3,1", "i:3"], {}, "?,3,?"),
    ("Fill", ["i:2", 1.5], {}, "?,?"),
    ("Range", [[0], [7], "i:"], {}, "i:?"),
    ("OneHot", ["i:N,2", [5], "2"], {"axis": 1}, "N,5,2"),
    ("OneHot", ["i:N,2", "i:", "2"], {}, "N,2,?"),
    # movement
    ("Transpose", ["N,3,S"], {"perm": (2, 0, 1)}, "S,N,3"),
    ("Concat", ["N,3", "N,4"], {"axis": -1}, "N,7"),
    ("Concat", ["N,3", "M,3"], {"axis": 0}, "?,3"),
    ("Concat", ["N,3", "0,3"], {"axis": 0}, "N,3"),
    ("Concat", ["?,3", "4,?"], {"axis": 1}, "4,?"),
    ("Concat", ["*", "N,4"], {"axis": 1}, "N,?"),
    ("Split", ["N,S"], {"axis": 1, "sizes": (2, 3)}, ["N,2", "N,3"]),
    ("Split", ["N,S", "i:2"], {"axis": 1}, ["N,?", "N,?"]),
    ("Split", ["*", "i:K"], {"axis": 1}, ["*", "*", "*"]),
    ("Slice", ["N,S,9", [0, 1], [FAR, -1], [1, 2]], {}, "N,S,7"),
    ("Slice", ["N,S", [-1], [-FAR], [1], [-1]], {}, "N,S"),
    ("Slice", ["N,S", [1], [3], [1]], {}, "N,?"),
    ("Slice", ["N,9,4", "i:1", "i:1", [1]], {}, "N,?,4"),
    ("Slice", ["N,9,4", "i:1", "i:1"], {}, "?,9,4"),
    ("Slice", ["N,9", "i:1", "i:1", "i:1"], {}, "?,?"),
    ("Pad", ["N,3,S", [0, 0, 1, 2, 1, -1]], {}, "N,6,S"),
    ("Pad", ["N,S", [0, 0, 1, 0]], {}, "N,?"),
    ("Pad", ["N,S", "i:4"], {}, "?,?"),
    ("Pad", ["*", "i:4"], {}, "?,?"),
    ("Tile", ["N,3", [1, 2]], {}, "N,6"),
    ("Tile", ["N,3", [2, 0]], {}, "?,0"),
    ("DepthToSpace", ["N,8,H,3"], {"blocksize": 2}, "N,2,?,6"),
    ("SpaceToDepth", ["N,C,8,W"], {"blocksize": 1}, "N,C,8,W"),
    # indexing
    ("Gather", ["N,V,D", "i:B,S"], {"axis": 1}, "N,B,S,D"),
    ("Gather", ["*", "i:B"], {}, "*"),
    ("GatherElements", ["N,3", "i:*"], {"axis": 1}, "?,?"),
    ("GatherND", ["N,A,3", "i:N,7,1"], {"batch_dims": 1}, "N,7,3"),
    ("GatherND", ["N,3", "i:2,?"], {}, "*"),
    ("ScatterND", ["N,3", "i:2,1", "2,3"], {}, "N,3"),
    ("NonZero", ["N,3"], {}, "i:2,?"),
    ("Compress", ["N,3", np.array([True, False, True])], {"axis": 1}, "N,2"),
    ("Unique", ["N,3"], {"axis": 1}, ["N,?", "i:?", "i:3", "i:?"]),
    # interpolation
    ("Resize", ["N,C,H,4", None, np.array([1, 1, 2, 2], "f4")], {}, "N,C,?,8"),
    ("Resize", ["N,C,H,4", None, None, [1, 3, 7, 9]], {}, "1,3,7,9"),
    ("Resize", ["N,C,H,4", None, ":4"], {}, "?,?,?,?"),
    ("Resize", ["N,C,H,W", None, None, [7, 9]], {"axes": (2, 3)}, "N,C,7,9"),
    ("GridSample", ["N,3,H,W", "N,5,6,2"], {}, "N,3,5,6"),
    ("GridSample", ["*", "N,5,6,2"], {}, "N,?,5,6"),
    ("RoiAlign", ["N,3,H,W", "R,4", "i:R"], {"output_height": 2}, "R,3,2,1"),
]


@pytest.mark.parametrize(("name", "operands", "attrs", "expected"), RULES)
def test_what_is_known_of_the_result(name, operands, attrs, expected):
    n = len(expected) if isinstance(expected, list) else None
    types = get(name).infer([operand(o) for o in operands], attrs, n)
    wanted = [operand(e).type for e in (expected if n else [expected])]
    assert [str(t) for t in types] == [str(w) for w in wanted]


BAD: list[tuple[str, list[Any], dict[str, Any], str]] = [
    ("Conv", ["1,3,5,5", "8,4,3,3"], window(2), "input channels and weight channels times groups"),
    ("Conv", ["1,3,5,5", "8,3,7,3"], window(2), "a window of 7 elements is larger than 5 elements"),
    ("Conv", ["1,3,5", "8,3,3,3"], window(2), "the input has rank 3, not 4"),
    ("Conv", ["1,3,5,5", "8,3,3,3", "7"], window(2), "weight and bias"),
    ("Conv", ["1,4,5,5", "5,2,3,3"], window(2, group=2), "5 output channels cannot be split into 2 groups"),
    ("Conv", ["1,3,5,5", "8,3,3,3"], window(2, strides=(0, 1)), "strides (0, 1) has a number below 1"),
    ("Conv", ["1,3,5,5", "8,3,3,3"], window(2, pads=(0, 0)), "pads (0, 0) has 2 numbers, not 4"),
    ("Conv", ["1,3,5,5", "8,3,3,3"], window(2, auto_pad="VALID"), "attribute 'auto_pad' has the bad value 'VALID'"),
    ("Conv", ["1,3,5,5", "i:8,3,3,3"], window(2), "Conv does not take i64 for input 'w'"),
    ("Conv", ["1,3,5,5", "8,3,3,3"], {"pads": (0,) * 4}, "Conv needs the attribute 'strides'"),
    ("ConvTranspose", ["1,3,5,5", "3,4,3,3"], window(2, output_padding=(0,)), "output_padding (0,) needs 2 numbers"),
    (
        "ConvTranspose",
        ["1,3,1,1", "3,4,1,1"],
        window(2, pads=(1,) * 4, output_padding=(0, 0)),
        "take away more than all",
    ),
    ("MaxPool", ["1,3,5,5"], window(2, kernel=(3, 0)), "kernel (3, 0) has a number below 1"),
    ("GlobalMaxPool", ["1,3"], {}, "has no spatial axes"),
    ("Reshape", ["2,3", [4, -1]], {}, "cannot reshape (2, 3) to (4, -1)"),
    ("Reshape", ["2,3", [5]], {}, "cannot reshape (2, 3) to (5,)"),
    ("Reshape", ["2,3", [-1, -1]], {}, "cannot reshape"),
    ("Reshape", ["6", [2, 3, 0]], {}, "cannot reshape"),
    ("Reshape", ["N", [0, -2]], {}, "cannot reshape"),
    ("Squeeze", ["2,3"], {"axes": (0,)}, "cannot squeeze axis 0"),
    ("Unsqueeze", ["2,3"], {"axes": (1, 1)}, "names the same axis twice"),
    ("Unsqueeze", ["2,3"], {"axes": (4,)}, "axis 4 is out of range for rank 3"),
    ("Flatten", ["2,3"], {"axis": 3}, "axis 3 is out of range"),
    ("Expand", ["2,3", [2, 4]], {}, "cannot be broadcast"),
    ("Expand", ["2,3", [2, -1]], {}, "cannot expand"),
    ("Fill", [[2, -1], 1.5], {}, "cannot fill the shape (2, -1)"),
    ("Range", [[0], [7], [0]], {}, "delta is 0"),
    ("Range", [[0], 7.0, [1]], {}, "the operands are i64, f32, i64"),
    ("OneHot", ["i:3", [-1], "2"], {}, "depth is -1"),
    ("Transpose", ["2,3"], {"perm": (0, 0)}, "is not a permutation"),
    ("Concat", ["2,3", "3,3"], {"axis": 1}, "axis 0: dimensions 2, 3 differ"),
    ("Concat", ["2,3", "2"], {"axis": 0}, "the ranks of f32[2,3], f32[2] differ"),
    ("Concat", [], {"axis": 0}, "Concat needs an operand"),
    ("Split", ["7"], {"sizes": (3, 3)}, "add up to 6"),
    ("Squeeze", ["2,3", "i:3"], {}, "cannot squeeze 3 axes"),
    ("ReduceSum", ["2,3", "i:1"], {"axes": (0,)}, "given twice"),
    ("ReduceSum", ["2,3", "i:3"], {}, "3 axes are reduced, the input has only 2"),
    ("ReduceSum", ["2,3", [2]], {}, "2 is out of range for rank 2"),
    ("CumSum", ["2,3", [2]], {}, "axis 2 is out of range for rank 2"),
    ("CumSum", ["2,3", [0, 1]], {}, "not one number"),
    ("Slice", ["5", [0], [3], [0], [0]], {}, "a step of Slice is 0"),
    ("Slice", ["5", [0, 1], [3]], {}, "different lengths"),
    ("Slice", ["5", [0], [3], [1]], {}, "axis 1 is out of range for rank 1"),
    ("Pad", ["2,3", [1, 1]], {}, "pads has 2 numbers"),
    ("Pad", ["2", [-3, 0]], {}, "cannot pad"),
    ("Pad", ["0", [1, 0]], {"mode": "edge"}, "cannot pad"),
    ("Tile", ["2,3", [2]], {}, "repeats has 1 numbers"),
    ("DepthToSpace", ["1,6,2,2"], {"blocksize": 2}, "is not a multiple of 4"),
    ("ReverseSequence", ["5,2", [6, 0]], {}, "not within 0..5"),
    ("Gather", ["3,4", [3]], {}, "index 3 is out of range for an axis of 3 elements"),
    ("Gather", ["3,4", [-4]], {}, "index -4 is out of range"),
    ("GatherElements", ["3,4", "i:4,4"], {"axis": 1}, "reach beyond"),
    ("GatherND", ["3", "i:2,2"], {}, "name 2 axes"),
    ("ScatterND", ["3,4", "i:2,1", "2,5"], {}, "axis 1 of the updates"),
    ("Resize", ["1,1,4,4"], {}, "either scales or sizes"),
    ("Resize", ["1,1,4,4", None, None, [1, 1, 2]], {}, "has 3 numbers for 4 axes"),
    ("Resize", ["0,1,4,4", None, None, [1, 1, 2, 2]], {}, "it has no elements"),
    ("GridSample", ["1,1,4,4", "1,2,2,3"], {}, "the last axis of the grid"),
    ("RoiAlign", ["1,1,4,4", "2,4", [0, 1]], {}, "batch_indices names an image that is not within 0..0"),
]


@pytest.mark.parametrize(("name", "operands", "attrs", "message"), BAD)
def test_what_cannot_be_is_refused_with_the_place(name, operands, attrs, message):
    with pytest.raises(ModelError) as e:
        get(name).infer([operand(o) for o in operands], attrs, where="onnx:/the/node")
    assert message in f"{e.value.message} {e.value.why}"
    assert e.value.where == "onnx:/the/node"


BODY = """
graph body(%i: i64[], %go: bool[], %state: f32[N,3]) {
  %next: f32[N,3] = Abs(%state)
  %row: f32[3] = ReduceSum(%state) {axes=(0,), keepdims=False}
  return COND, %next, %row
}
"""


@pytest.mark.parametrize(
    ("cond", "trips", "start", "expected"),
    [
        ("%go", [4], None, ["N,3", "4,3"]),
        ("bool[](True)", [4], None, ["N,3", "4,3"]),
        ("bool[](False)", [4], None, ["N,3", "?,3"]),
        ("%go", "i:", None, ["N,3", "?,3"]),
        ("%go", [4], "b:", ["N,3", "?,3"]),
        ("%go", None, None, ["N,3", "?,3"]),
    ],
)
def test_a_loop_runs_a_known_number_of_times_only_if_nothing_can_end_it(cond, trips, start, expected):
    body = parse(BODY.replace("COND", cond))
    args = [operand(trips), operand(start), operand("N,3")]
    types = get("Loop").infer(args, {"body": body, "num_carried": 1}, 2)
    assert [str(t) for t in types] == [str(operand(e).type) for e in expected]


def test_what_goes_around_keeps_only_what_stays_the_same():
    body = parse(BODY.replace("COND", "%go"))
    types = get("Loop").infer([operand([4]), None, operand("M,3")], {"body": body, "num_carried": 1}, 2)
    assert types[0].shape == ("?", 3)


def test_branches_of_different_types_are_refused():
    then = parse("graph t(%x: f32[2]) { return %x }")
    other = parse("graph e(%x: f32[2]) { %y: i32[2] = Cast(%x) {to=i32} return %y }")
    with pytest.raises(ModelError, match="different outputs"):
        get("If").infer([operand("b:"), operand("2")], {"then_branch": then, "else_branch": other})
    with pytest.raises(ModelError, match="has 1 parameters, not 0"):
        get("If").infer([operand("b:")], {"then_branch": then, "else_branch": then})
