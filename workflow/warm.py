"""What a process computes once, computed before it forks for conversions: patterns of rules, tables of the format."""

from __future__ import annotations

import tempfile
from pathlib import Path


def warm_up() -> None:
    """Converts a tiny model without running it. The engine is not started, so there are no threads of it."""
    import numpy as np
    from onnx import helper, numpy_helper

    from minnow.convert import convert_file
    from minnow.options.convert import ConvertOptions

    weights = {"w": (2, 3, 3, 3), "b": (2,), "m": (2, 4), "a": (4,)}
    tensors = [numpy_helper.from_array(np.ones(shape, np.float32), name) for name, shape in weights.items()]
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("MatMul", ["f", "m"], ["g"]),
        helper.make_node("Add", ["g", "a"], ["s"]),
        helper.make_node("Softmax", ["s"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(n, 1, s) for n, s in (("x", [1, 3, 8, 8]), ("y", [1, 4]))]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with tempfile.TemporaryDirectory(prefix="minnow-") as folder:
        source = Path(folder) / "model.onnx"
        source.write_bytes(model.SerializeToString())
        convert_file(source, ConvertOptions(output=source.with_suffix(".mnn"), verify=False))
