"""Small files that mean harm: each asks for time, memory or a place that it must not get. See tests/hostile."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from wire_net import Net

from minnow.schema.mnn import wire

FOLDER = Path(__file__).parent

Table = dict[str, Any]


def op(kind: str, inputs: Sequence[int], outputs: Sequence[int], main_type: str = "", main: Any = None) -> Table:
    table = {"type": kind, "inputIndexes": list(inputs), "outputIndexes": list(outputs)}
    return table | ({"main_type": main_type, "main": main} if main_type else {})


def given(v: int, shape: Sequence[int], dtype: str = "DT_FLOAT") -> Table:
    return op("Input", [], [v], "Input", {"dtype": dtype, "dims": list(shape), "dformat": "NCHW"})


def const(v: int, *values: int) -> Table:
    return op("Const", [], [v], "Blob", {"dataType": "DT_INT32", "dims": [], "int32s": np.int32(values)})


def extra(kind: str, inputs: Sequence[int], outputs: Sequence[int], *attrs: Table) -> Table:
    return op("Extra", inputs, outputs, "Extra", {"type": kind, "engine": "minnow", "attr": list(attrs)})


def concat(inputs: Sequence[int], out: int) -> Table:
    return op("Concat", inputs, [out], "Axis", {"axis": 0})


def while_(inputs: Sequence[int], outputs: Sequence[int], body: str) -> Table:
    return op("While", inputs, outputs, "WhileParam", {"body_graph": body, "cond_graph": ""})


def if_(inputs: Sequence[int], out: int, then: str, otherwise: str, feeds: Sequence[Sequence[str]]) -> Table:
    rows = [{"data": list(names)} for names in feeds]
    main = {"then_graph": then, "else_graph": otherwise, "aliases_inputs": rows}
    return op("If", inputs, [out], "IfParam", main | {"aliases_outputs": [{"data": ["z", "z"]}]})


def subgraph(name: str, ops: list[Table], tensors: Sequence[str], inputs: Sequence[int], outs: Sequence[int]) -> Table:
    return {"name": name, "nodes": ops, "tensors": list(tensors), "inputs": list(inputs), "outputs": list(outs)}


def net(ops: list[Table], tensors: Sequence[str], outputs: str, subgraphs: Sequence[Table] = ()) -> bytes:
    table = {"oplists": ops, "tensorName": list(tensors), "outputName": outputs.split(), "sourceType": "ONNX"}
    return wire.write(table | ({"subgraphs": list(subgraphs)} if subgraphs else {}))


def metadata(data: bytes, **texts: str) -> bytes:
    """With texts for the keys `minnow.KEY`."""
    attr = [{"key": f"minnow.{key}", "type": "DT_STRING", "s": text} for key, text in texts.items()]
    table = wire.read(data)
    table["extraInfo"] = {"buffer": np.frombuffer(wire.write_nested("Extra", {"attr": attr}), np.int8)}
    return wire.write(table)


def looped(*body: Table, tensors: Sequence[str] = (), outs: Sequence[int] = (), trips: int = 2**30) -> bytes:
    """A Loop over one state of floats."""
    inner = [given(0, [], "DT_INT32"), given(1, [], "DT_INT32"), given(2, [1]), *body]
    sub = subgraph("body", inner, ["round", "go", "s", *tensors], [0, 1, 2], outs)
    ops = [given(0, [1]), const(1, trips), const(2, 1), while_([1, 2, 0], [3], "body")]
    return net(ops, ["x", "n", "c", "y"], "y", [sub])


def endless_condition() -> bytes:
    """Only the numbers tell that the loop goes on for ever."""
    zero = op("Const", [], [3], "Blob", {"dims": [1], "float32s": np.float32([-1e9])})
    greater = op("BinaryOp", [2, 3], [4], "BinaryOp", {"opType": 4})
    return looped(zero, greater, tensors=["least", "greater"], outs=[4, 2])


def doubled_state() -> bytes:
    return looped(concat([2, 2], 3), tensors=["twice"], outs=[1, 3])


def nested_ifs(depth: int, alike: bool) -> bytes:
    """Each branch calls the next two; not `alike`: each with inputs of another size."""
    subs = []
    for k in range(depth):
        ops = [given(0, [1], "DT_INT32"), given(1, [1]), op("Const", [], [2], "Blob", {"dims": [1], "float32s": [1.0]})]
        ops += [concat([1, 1], 3), concat([1, 2], 4)]
        feeds = [["c"], [], ["a"]] if alike else [["c"], ["a"], ["b"]]
        for side in "ab":
            last = extra("ReduceMax", [1], [5])
            # The input of a graph is called by its side, so that each side gets a value of its own.
            call = if_([0, 3, 4], 5, f"a{k - 1}", f"{'a' if alike else 'b'}{k - 1}", feeds)
            names = ["c", side, "one", "longer", "long", "z"]
            subs.append(subgraph(f"{side}{k}", [*ops, last if k == 0 else call], names, [0, 1], [5]))
    ops = [given(0, [1], "DT_INT32"), given(1, [1])]
    ops.append(if_([0, 1], 2, f"a{depth - 1}", f"a{depth - 1}", [["c"], ["a"]]))
    return net(ops, ["c", "x", "y"], "y", subs)


def nested_loops(depth: int) -> bytes:
    """Each body holds two loops over the next."""
    subs = []
    for k in range(depth):
        ops = [given(0, [], "DT_INT32"), given(1, [], "DT_INT32"), given(2, [1]), const(3, 2), const(4, 1)]
        if k:
            ops += [while_([3, 4, 2], [5], f"g{k - 1}"), while_([3, 4, 5], [6], f"g{k - 1}")]
        names = ["i", "go", "s", "n", "c", "once", "z"]
        subs.append(subgraph(f"g{k}", ops, names, [0, 1, 2], [1, 6 if k else 2]))
    ops = [given(0, [1]), const(1, 2), const(2, 1), while_([1, 2, 0], [3], f"g{depth - 1}")]
    return net(ops, ["x", "n", "c", "y"], "y", subs)


def many_names_alike() -> bytes:
    """Thousands of outputs, each to be looked for among thousands of tensors of the same name that nothing makes."""
    n = 3000
    sub = subgraph("g", [given(0, [1], "DT_INT32"), given(1, [1])], ["c", "a", *["z"] * n], [0, 1], [1])
    ops = [given(0, [1], "DT_INT32"), given(1, [1]), if_([0, 1], 2, "g", "g", [["c"], ["a"]])]
    ops[2]["outputIndexes"] = list(range(2, 2 + n))
    ops[2]["main"]["aliases_outputs"] = [{"data": ["z", "z"]}] * n
    return net(ops, ["c", "x", *(f"y{i}" for i in range(n))], "y0", [sub])


def unused_tensors_copied() -> bytes:
    """A small body with thousands of names, which hundreds of nodes call."""
    body = subgraph("g", [given(0, [1]), extra("Identity", [0], [1])], ["a", "z", *["t"] * 5000], [0], [1])
    fused = [extra("Fused", [i], [i + 1], {"key": "body", "type": "DT_RESOURCE", "s": "g"}) for i in range(600)]
    return net([given(0, [1]), *fused], [f"v{i}" for i in range(601)], "v600", [body])


def doubled_constants() -> bytes:
    first = op("Const", [], [1], "Blob", {"dims": [1024], "float32s": np.ones(1024, np.float32)})
    ops = [given(0, [1]), first, *(concat([i, i], i + 1) for i in range(1, 31))]
    ops.append(extra("Add", [0, 31], [32]))
    return net(ops, [f"v{i}" for i in range(33)], "v32")


def large_state() -> bytes:
    """8 GB of zeros."""
    row = {"name": "s", "dtype": "f32", "shape": [2**31]}
    rows = [{"name": "x", "dtype": "f32", "shape": [1]}, row]
    ops = [given(0, [1]), given(1, [1]), extra("Identity", [1], [2]), extra("Identity", [0], [3])]
    model = net(ops, ["x", "s", "t", "y"], "y t")
    return metadata(model, inputs=json.dumps(rows), states=json.dumps([{"input": "s", "output": "t"}]))


def deep_json() -> bytes:
    return metadata(net([given(0, [1]), extra("Identity", [0], [1])], ["x", "y"], "y"), inputs="[" * 100_000)


def negative_sizes() -> bytes:
    rows = [{"name": "x", "dtype": "f32", "shape": [2**49, 2**15, 2**31]}]
    return metadata(net([given(0, [1]), extra("Identity", [0], [1])], ["x", "y"], "y"), inputs=json.dumps(rows))


def kernel_wraps() -> bytes:
    """The product of its sizes is 2^64."""
    common = {"kernelX": 2**30, "kernelY": 2**30, "outputCount": 16, "inputCount": 1}
    main = {"common": common, "weight": np.ones(16, np.float32)}
    return net([given(0, [1, 1, 4, 4]), op("Convolution", [0], [1], "Convolution2D", main)], ["x", "y"], "y")


def blocks_wrap() -> bytes:
    blob = {"dataType": "DT_INT64", "dims": [2], "int64s": np.int64([2**32, 2**32])}
    crops = {"dataType": "DT_INT32", "dims": [2, 2], "int32s": np.zeros(4, np.int32)}
    ops = [given(0, [1, 1, 4, 4]), op("Const", [], [1], "Blob", blob), op("Const", [], [2], "Blob", crops)]
    main = {"blockShape": blob, "padding": crops}
    ops.append(op("BatchToSpaceND", [0, 1, 2], [3], "SpaceBatch", main))
    return net(ops, ["x", "b", "p", "y"], "y")


def nothing_but_zeros() -> bytes:
    """8 GB of sparse weights, of which none is listed."""
    quan = {"type": 0, "weightSize": 2**31 - 2**16, "index": np.zeros(0, np.uint32), "alpha": np.zeros(0, np.float32)}
    main = {"common": {"kernelX": 1, "kernelY": 1, "outputCount": 2**15 - 1, "inputCount": 1}, "quanParameter": quan}
    return net([given(0, [1, 1, 4, 4]), op("Convolution", [0], [1], "Convolution2D", main)], ["x", "y"], "y")


def indices_beyond() -> bytes:
    nets = Net()
    nets.input("x", [1])
    nets.op("Identity", ["x"], ["y"])
    nets.ops[-1]["inputIndexes"] = [7]
    return nets.bytes("y")


def ints(v: int, *values: int) -> Table:
    return op("Const", [], [v], "Blob", {"dataType": "DT_INT32", "dims": [len(values)], "int32s": np.int32(values)})


def row(key: str, *values: int) -> Table:
    """An attribute that is a list of integers."""
    return {"key": key, "type": "DT_INT32", "list": {"i": np.int32(values)}}


def windows(n: int) -> list[Table]:
    return [row("strides", *[1] * n), row("dilations", *[1] * n), row("pads", *[0] * 2 * n)]


def names(n: int) -> list[str]:
    return [f"v{i}" for i in range(n)]


def channels_times_kernel_wraps() -> bytes:
    """Their product is 2^64, by which the number of weights is divided."""
    common = {"kernelX": 2**17, "kernelY": 2**17, "outputCount": 2**30, "inputCount": 1}
    main = {"common": common, "external": np.int64([0, 2**36, 0])}
    return net([given(0, [1, 1, 4, 4]), op("Convolution", [0], [1], "Convolution2D", main)], ["x", "y"], "y")


def groups_one_by_one() -> bytes:
    """A node for each of 6,500 groups, in each of 30 layers."""
    groups = 6500
    ops = [given(0, [1]), ints(1, 1, groups, 1, 1), ints(2, groups, 2, 1, 1), extra("Exp", [0], [3])]
    ops += [extra("Expand", [0, 1], [4]), extra("Expand", [3, 2], [5])]
    group = {"key": "group", "type": "DT_INT32", "i": groups}
    ops += [extra("ConvTranspose", [4, 5], [v], group, *windows(2)) for v in range(6, 36)]
    return net(ops, names(36), "v35")


def slices_one_by_one() -> bytes:
    """A kernel over three axes, a million slices deep."""
    ops = [given(0, [1]), ints(1, 1, 1, 10**6, 1, 1), extra("Exp", [0], [2])]
    ops += [extra("Expand", [0, 1], [3]), extra("Expand", [2, 1], [4])]
    ops.append(extra("Conv", [3, 4], [5], {"key": "group", "type": "DT_INT32", "i": 1}, *windows(3)))
    return net(ops, names(6), "v5")


def sizes_one_by_one() -> bytes:
    """Results whose sizes are known one after the other, in a plan of its own each."""
    ops, v = [given(0, [2000])], 0
    for _ in range(1200):
        ops += [
            extra("NonZero", [v], [v + 1]),
            extra("Cast", [v + 1], [v + 2], {"key": "to", "type": "DT_VARIANT", "i": 1}),
        ]
        ops += [extra("ReduceMax", [v + 2], [v + 3], row("axes", 0, 1)), ints(v + 4, 2000)]
        ops.append(extra("Expand", [v + 3, v + 4], [v + 5]))
        v += 5
    return net(ops, names(v + 1), f"v{v}")


def halves_that_do_not_fit() -> bytes:
    """A result of 16-bit floats for which there is no memory, and none for it in 32 bits either."""
    ops = [given(0, [1], "DT_HALF"), ints(1, 2 * 10**8), extra("Expand", [0, 1], [2])]
    return net([*ops, concat([2, 2], 3)], names(4), "v3")


def attention_of_no_heads() -> bytes:
    """Nothing says how many: it is one."""
    ops = [given(0, [1, 2, 4]), extra("Attention", [0, 0, 0], [1])]
    return net(ops, names(2), "v1")


def nothing_but_padding() -> bytes:
    """Images of two billion columns, of which there are none."""
    main = {"kernelX": 2, "kernelY": 2, "strideX": 2, "strideY": 2, "pads": np.int32([0, 2**30, 0, 2**30])}
    ops = [given(0, [0, 3, 4, 4]), op("Pooling", [0], [1], "Pool", main | {"type": "AVEPOOL", "ceilModel": False})]
    return net(ops, names(2), "v1")


def matrices_by_the_billion() -> bytes:
    """2^30 products of one number each, from two small tensors."""
    ops = [given(0, [1]), ints(1, 2**15, 1, 1, 1), ints(2, 1, 2**15, 1, 1)]
    ops += [extra("Expand", [0, 1], [3]), extra("Expand", [0, 2], [4]), extra("MatMul", [3, 4], [5])]
    return net(ops, names(6), "v5")


def nothing_reversed() -> bytes:
    """A constant of no rows, read from its last one on."""
    empty = op("Const", [], [1], "Blob", {"dataType": "DT_FLOAT", "dims": [0, 3]})
    ops = [given(0, [1]), empty, const(2, 0), op("Reverse", [1, 2], [3])]
    return net(ops, names(4), "v3")


def output_that_no_op_makes() -> bytes:
    """It was memory of the process as it lay there."""
    return net([given(0, [4]), extra("Softmax", [0], [1, 2])], names(3), "v1 v2")


def output_that_no_op_makes_unread() -> bytes:
    return net([given(0, [4]), extra("Softmax", [0], [1, 2])], names(3), "v1")


MADE: dict[str, Callable[[], bytes]] = {
    f.__name__: f
    for f in (
        endless_condition, doubled_state, many_names_alike, unused_tensors_copied, doubled_constants, large_state,
        deep_json, negative_sizes, kernel_wraps, blocks_wrap, nothing_but_zeros, indices_beyond,
        channels_times_kernel_wraps, groups_one_by_one, slices_one_by_one, sizes_one_by_one, halves_that_do_not_fit,
        attention_of_no_heads, nothing_but_padding, matrices_by_the_billion, nothing_reversed,
        output_that_no_op_makes, output_that_no_op_makes_unread,
    )
} | {
    "ifs_of_one_kind": lambda: nested_ifs(60, alike=True),
    "ifs_of_many_kinds": lambda: nested_ifs(30, alike=False),
    "deep_ifs": lambda: nested_ifs(2000, alike=True),
    "nested_loops": lambda: nested_loops(40),
}  # fmt: skip
"""What is too large to be kept, or easier to read as code."""


SOUND = {"if_bomb_16", "if_bomb_40", "ifs_of_one_kind", "attention_of_no_heads", "nothing_reversed",
         "output_that_no_op_makes_unread", "while_without_outputs", "volume_without_room"}  # fmt: skip
"""What may be computed: branches that look endless, but have the same types each time, are planned once."""


def all_files() -> dict[str, Callable[[], bytes]]:
    """By name, the files of tests/hostile and those made here."""
    kept = {p.stem: p.read_bytes for p in sorted(FOLDER.glob("*.mnn"))}
    return kept | MADE
