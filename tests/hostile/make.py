"""Model files made to do harm: small ones that stand for more than any machine holds, ones that lie of themselves.

`python tests/hostile/make.py FOLDER` writes all of them. Each function is one file, named as it says it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FILES: dict[str, Callable[[], bytes]] = {}
REFUSED: set[str] = set()
"""Those that no program can do anything with; the others are valid, and only must not explode."""

_ONNX = TensorProto.FLOAT


def hostile(name: str, refused: bool = True) -> Callable[[Callable[[], bytes]], Callable[[], bytes]]:
    def add(function: Callable[[], bytes]) -> Callable[[], bytes]:
        FILES[name] = function
        if refused:
            REFUSED.add(name)
        return function

    return add


# ---- ONNX


def onnx_file(
    nodes: Sequence[Any],
    constants: Sequence[Any] = (),
    functions: Sequence[Any] = (),
    result: str = "y",
    dims: Sequence[int | str] = (2,),
) -> bytes:
    x = helper.make_tensor_value_info("x", _ONNX, dims)
    y = onnx.ValueInfoProto(name=result)
    graph = helper.make_graph(nodes, "g", [x], [y], initializer=constants)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my", 1)]
    model = helper.make_model(graph, opset_imports=opsets, functions=functions)
    model.ir_version = 9
    return model.SerializeToString()


def const(name: str, array: Any) -> Any:
    return numpy_helper.from_array(np.asarray(array), name)


def function(name: str, nodes: Sequence[Any], attributes: Sequence[str] = ()) -> Any:
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my", 1)]
    return helper.make_function("my", name, ["x"], ["y"], nodes, opsets, list(attributes))


def call(op: str, inputs: Sequence[str], outputs: Sequence[str], **attrs: Any) -> Any:
    return helper.make_node(op, list(inputs), list(outputs), domain="my", **attrs)


def reduced(last: str) -> list[Any]:
    """x plus the sum of a tensor."""
    return [
        helper.make_node("ReduceSum", [last], ["sum"], keepdims=0),
        helper.make_node("Add", ["x", "sum"], ["y"]),
    ]


@hostile("functions.onnx")
def _() -> bytes:
    """Functions that each call the next one twice."""
    chain = [function("F0", [helper.make_node("Neg", ["x"], ["y"])])]
    chain += [function(f"F{i + 1}", [call(f"F{i}", "x", "t"), call(f"F{i}", "t", "y")]) for i in range(40)]
    return onnx_file([call("F40", "x", "y")], functions=chain)


@hostile("empty_functions.onnx")
def _() -> bytes:
    """The same, and at the end there is nothing."""
    chain = [function("F0", [helper.make_node("Identity", ["x"], ["y"])])]
    chain += [function(f"F{i + 1}", [call(f"F{i}", "x", "t"), call(f"F{i}", "x", "y")]) for i in range(40)]
    return onnx_file([call("F40", "x", "y")], functions=chain)


@hostile("large_function.onnx")
def _() -> bytes:
    """Many calls of a function with a large graph in its only node."""
    count = 2500
    many = [helper.make_node("Neg", ["z"], [f"u{i}"]) for i in range(count)]
    nodes = [helper.make_node("Neg", ["x"], ["z"]), *many]
    branch = helper.make_graph(nodes, "b", [], [onnx.ValueInfoProto(name="z")])
    condition = helper.make_node("Constant", [], ["c"], value=const("", np.array(True)))
    body = [condition, helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)]
    return onnx_file([call("F", "x", [f"y{i}"]) for i in range(count)], functions=[function("F", body)], result="y0")


@hostile("long_names.onnx")
def _() -> bytes:
    """A function of many nodes, called under a long name, which all of them get in front of theirs."""
    many = [helper.make_node("Neg", ["x"], [f"u{i}"]) for i in range(20_000)]
    body = function("F", [*many, helper.make_node("Identity", ["u0"], ["y"])])
    return onnx_file([call("F", "x", "y", name="A" * 1_000_000)], functions=[body])


@hostile("long_formula.onnx", refused=False)
def _() -> bytes:
    """A dimension whose name is a sum of thousands of products."""
    nodes = [helper.make_node("Add", ["x", "x"], ["t"]), helper.make_node("Reshape", ["t", "k"], ["y"])]
    name = "+".join(f"a{i}*b{i}" for i in range(20_000))
    return onnx_file(nodes, [const("k", np.array([-1]))], dims=(name, 2))


@hostile("graph_attributes.onnx")
def _() -> bytes:
    """Functions that take a graph, and hand on one that holds it twice."""

    def referring(node: Any, name: str, kind: int) -> Any:
        a = node.attribute.add()
        a.name, a.ref_attr_name, a.type = name, "g", kind
        return node

    graph_kind = onnx.AttributeProto.GRAPH
    inner = helper.make_graph([helper.make_node("Neg", ["x0"], ["z"])], "b", [], [onnx.ValueInfoProto(name="z")])
    cond = helper.make_node("Constant", [], ["c"], value=const("", np.array(True)))

    def both(name: str) -> Any:
        node = helper.make_node("If", ["c"], [name])
        return referring(referring(node, "then_branch", graph_kind), "else_branch", graph_kind)

    chain = [function("F0", [cond, both("y")], ["g"])]
    for i in range(30):
        twice = helper.make_graph([both("z")], "b", [], [onnx.ValueInfoProto(name="z")])
        chain.append(function(f"F{i + 1}", [cond, call(f"F{i}", "x", "y", g=twice)], ["g"]))
    nodes = [helper.make_node("Neg", ["x"], ["x0"]), call("F30", ["x0"], ["y"], g=inner)]
    return onnx_file(nodes, functions=chain)


@hostile("joined_constants.onnx")
def _() -> bytes:
    """Constants that are joined with themselves, again and again."""
    nodes = [helper.make_node("Concat", [f"v{i}", f"v{i}"], [f"v{i + 1}"], axis=0) for i in range(40)]
    return onnx_file([*nodes, *reduced("v40")], [const("v0", np.ones(2, np.float32))])


@hostile("joined_copies.onnx")
def _() -> bytes:
    """Constants that are joined with copies of themselves, so that no operand is there twice."""
    nodes = []
    for i in range(40):
        nodes.append(helper.make_node("Transpose", [f"v{i}"], [f"t{i}"], perm=[1, 0, 2]))
        nodes.append(helper.make_node("Transpose", [f"t{i}"], [f"u{i}"], perm=[1, 0, 2]))
        nodes.append(helper.make_node("Concat", [f"v{i}", f"u{i}"], [f"v{i + 1}"], axis=2))
    return onnx_file([*nodes, *reduced("v40")], [const("v0", np.ones((2, 3, 900), np.float32))])


@hostile("turned_constants.onnx", refused=False)
def _() -> bytes:
    """Constants of one size, each made of the one before, which it reads twice: 2^60 steps, taken one by one."""
    nodes = []
    for i in range(60):
        nodes.append(helper.make_node("Split", [f"v{i}"], [f"a{i}", f"b{i}"], axis=0))
        nodes.append(helper.make_node("Concat", [f"b{i}", f"a{i}"], [f"v{i + 1}"], axis=0))
    return onnx_file([*nodes, *reduced("v60")], [const("v0", np.arange(6000, dtype=np.float32))])


@hostile("chain_of_constants.onnx", refused=False)
def _() -> bytes:
    """A thousand constants, each the one before on its side."""
    nodes = [helper.make_node("Transpose", [f"v{i}"], [f"v{i + 1}"], perm=[2, 0, 1]) for i in range(1000)]
    values = np.arange(20 * 21 * 22, dtype=np.float32).reshape(20, 21, 22)
    return onnx_file([*nodes, *reduced("v1000")], [const("v0", values)])


@hostile("joined_inputs.onnx", refused=False)
def _() -> bytes:
    """What the input gives, joined with itself: 4 TiB for an input of two numbers."""
    nodes = [helper.make_node("Concat", [f"v{i}" if i else "x"] * 2, [f"v{i + 1}"], axis=0) for i in range(39)]
    return onnx_file([*nodes, *reduced("v39")])


def _made_of_a_size(op: str, inputs: Sequence[str], constants: Sequence[Any], **attrs: Any) -> bytes:
    node = helper.make_node(op, list(inputs), ["big"], **attrs)
    cast = helper.make_node("Cast", ["big"], ["f"], to=_ONNX)
    return onnx_file([node, cast, *reduced("f")], constants)


@hostile("fill.onnx")
def _() -> bytes:
    return _made_of_a_size("ConstantOfShape", ["n"], [const("n", np.array([1 << 20, 1 << 20]))])


@hostile("expand.onnx")
def _() -> bytes:
    return _made_of_a_size("Expand", ["v", "n"], [const("v", np.ones(1, np.float32)), const("n", np.array([1 << 40]))])


@hostile("tile.onnx")
def _() -> bytes:
    return _made_of_a_size("Tile", ["v", "n"], [const("v", np.ones(8, np.float32)), const("n", np.array([1 << 40]))])


@hostile("pad.onnx")
def _() -> bytes:
    return _made_of_a_size("Pad", ["v", "n"], [const("v", np.ones(8, np.float32)), const("n", np.array([0, 1 << 40]))])


@hostile("range.onnx")
def _() -> bytes:
    limits = [const(n, np.array(k)) for n, k in (("a", 0), ("b", 1 << 40), ("c", 1))]
    return _made_of_a_size("Range", ["a", "b", "c"], limits)


@hostile("one_hot.onnx")
def _() -> bytes:
    constants = [const("i", np.array([1, 2])), const("d", np.array(1 << 40)), const("v", np.array([0, 1]))]
    return _made_of_a_size("OneHot", ["i", "d", "v"], constants)


@hostile("resize.onnx")
def _() -> bytes:
    sizes = const("n", np.array([1, 1, 1 << 20, 1 << 20]))
    return _made_of_a_size("Resize", ["v", "", "", "n"], [const("v", np.ones((1, 1, 2, 2), np.float32)), sizes])


@hostile("window.onnx")
def _() -> bytes:
    return _made_of_a_size("HannWindow", ["n"], [const("n", np.array(1 << 40))])


@hostile("padded_convolution.onnx", refused=False)
def _() -> bytes:
    """Small operands, a small result, and a padding of 4 GiB between them."""
    constants = [const("v", np.ones((1, 1, 8), np.float32)), const("w", np.ones((1, 1, 1), np.float32))]
    return _made_of_a_size("Conv", ["v", "w"], constants, pads=[1 << 29, 1 << 29], strides=[1 << 29])


@hostile("tiles.onnx")
def _() -> bytes:
    """Each step is small for what it is given."""
    nodes = [helper.make_node("Tile", [f"v{i}", "n"], [f"v{i + 1}"]) for i in range(12)]
    return onnx_file([*nodes, *reduced("v12")], [const("v0", np.ones(2, np.float32)), const("n", np.array([10]))])


@hostile("squared_extents.onnx", refused=False)
def _() -> bytes:
    """A dimension times itself, again and again: a number of 2^60 digits, a formula of as many factors."""
    nodes = [helper.make_node("Shape", ["x"], ["s0"])]
    nodes += [helper.make_node("Mul", [f"s{i}", f"s{i}"], [f"s{i + 1}"]) for i in range(60)]
    nodes += [helper.make_node("Cast", ["s60"], ["f"], to=_ONNX), *reduced("f")]
    return onnx_file(nodes, dims=("n", 3))


@hostile("added_extents.onnx", refused=False)
def _() -> bytes:
    """The same with sums of products, and of other symbols."""
    nodes = [helper.make_node("Shape", ["x"], ["s0"])]
    for i in range(40):
        nodes.append(helper.make_node("Concat", [f"s{i}", f"s{i}"], [f"c{i}"], axis=0))
        nodes.append(helper.make_node("Slice", [f"c{i}", "one", "four"], [f"d{i}"]))
        nodes.append(helper.make_node("Add", [f"s{i}", f"d{i}"], [f"e{i}"]))
        nodes.append(helper.make_node("Mul", [f"e{i}", f"s{i}"], [f"s{i + 1}"]))
    nodes += [helper.make_node("Cast", ["s40"], ["f"], to=_ONNX), *reduced("f")]
    return onnx_file(nodes, [const("one", np.array([1])), const("four", np.array([4]))], dims=("n", "m", "k"))


@hostile("sequences.onnx", refused=False)
def _() -> bytes:
    """Sequences that hold a sequence's tensors joined, twice."""
    nodes = [helper.make_node("SequenceConstruct", ["x"], ["s0"])]
    for i in range(40):
        nodes.append(helper.make_node("ConcatFromSequence", [f"s{i}"], [f"c{i}"], axis=0))
        nodes.append(helper.make_node("SequenceConstruct", [f"c{i}", f"c{i}"], [f"s{i + 1}"]))
    nodes += [helper.make_node("ConcatFromSequence", ["s40"], ["f"], axis=0), *reduced("f")]
    return onnx_file(nodes)


@hostile("nested_loops.onnx", refused=False)
def _() -> bytes:
    """Loops in loops, each of eight rounds."""
    info = onnx.ValueInfoProto
    body = None
    for i in range(12):
        nodes = [helper.make_node("Identity", [f"c{i}"], [f"d{i}"])]
        if body is None:
            nodes.append(helper.make_node("Neg", [f"a{i}"], [f"b{i}"]))
        else:
            nodes.append(helper.make_node("Loop", ["n", "", f"a{i}"], [f"b{i}"], body=body))
        ins = [helper.make_tensor_value_info(f"i{i}", TensorProto.INT64, []),
               helper.make_tensor_value_info(f"c{i}", TensorProto.BOOL, []),
               helper.make_tensor_value_info(f"a{i}", _ONNX, [2])]  # fmt: skip
        body = helper.make_graph(nodes, f"b{i}", ins, [info(name=f"d{i}"), info(name=f"b{i}")])
    loop = helper.make_node("Loop", ["n", "", "x"], ["y"], body=body)
    return onnx_file([loop], [const("n", np.array(8))])


@hostile("outer_product.onnx", refused=False)
def _() -> bytes:
    """Two layers with a single place between them: 40 GB, were they made one."""
    ends = np.ones(20_000, np.float32)
    nodes = [helper.make_node("MatMul", ["x", "a"], ["t"]), helper.make_node("MatMul", ["t", "b"], ["y"])]
    return onnx_file(nodes, [const("a", ends[:, None]), const("b", ends[None])], dims=(1, 20_000))


@hostile("lie_about_shape.onnx")
def _() -> bytes:
    tensor = TensorProto(name="w", data_type=_ONNX, dims=[0, 1 << 62], raw_data=b"")
    return onnx_file([helper.make_node("Identity", ["w"], ["y"])], [tensor])


@hostile("lie_about_size.onnx")
def _() -> bytes:
    tensor = TensorProto(name="w", data_type=_ONNX, dims=[1 << 31, 1 << 31, 4], raw_data=b"")
    return onnx_file([helper.make_node("Identity", ["w"], ["y"])], [tensor])


@hostile("strings.onnx")
def _() -> bytes:
    tensor = TensorProto(name="w", data_type=TensorProto.STRING, dims=[1 << 45, 1 << 20])
    return onnx_file([helper.make_node("Identity", ["w"], ["y"])], [tensor])


def external(location: str, **entries: str) -> bytes:
    tensor = TensorProto(name="w", data_type=_ONNX, dims=[2], data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=value)
    return onnx_file([helper.make_node("Add", ["x", "w"], ["y"])], [tensor])


@hostile("location_no_text.onnx")
def _() -> bytes:
    return external("LOCATION").replace(b"LOCATION", b"o\xff\xfe.bin!")


@hostile("location_long.onnx")
def _() -> bytes:
    return external("a" * 70_000)


@hostile("location_long_name.onnx")
def _() -> bytes:
    return external("a" * 300)


@hostile("location_nul.onnx")
def _() -> bytes:
    return external("a\0b")


@hostile("location_device.onnx")
def _() -> bytes:
    return external("/dev/zero")


@hostile("location_outside.onnx")
def _() -> bytes:
    return external("../../../../../../../etc/passwd")


@hostile("location_offset.onnx")
def _() -> bytes:
    return external("location_offset.onnx", offset="9" * 30)


@hostile("deep_graphs.onnx")
def _() -> bytes:
    """Branches in branches, 3000 deep."""
    node = _field(4, b"If") + _field(1, b"x") + _field(2, b"y")
    graph = b""
    for _ in range(3000):
        branch = _field(1, b"then_branch") + b"\xa0\x01\x05" + _field(6, graph)
        graph = _field(1, node + _field(5, branch)) + _field(2, b"g")
    return b"\x08\x09" + _field(7, graph) + _field(8, b"\x10\x11")


def _varint(n: int) -> bytes:
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in FILES.items():
        (folder / name).write_bytes(make())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
