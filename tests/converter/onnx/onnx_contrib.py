"""One contrib operator in a model of its own, run by onnxruntime and, converted, by our engine."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx_oracle import PLAIN, exact_session, onnx_type

import minnow

Array = np.ndarray[Any, Any]
CONTRIB = "com.microsoft"


@dataclass
class Case:
    """A node and what it is given.

    Attributes:
        inputs: None is an optional operand that is left out.
        outputs: number of outputs, or their names: "" is one that nobody asks for.
        constant: positions of the operands that are weights of the file.
        named: the graph's inputs have symbolic dimensions, so that shapes are known at run time only.
        declared: element types of outputs that onnxruntime cannot infer, by name.
        close: tolerance, absolute for what is below 1 and relative above; None asks for equal numbers.
        quantum: by how much integers may differ.
    """

    op: str
    inputs: Sequence[Array | None]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    outputs: int | Sequence[str] = 1
    constant: Collection[int] = ()
    named: bool = True
    domain: str = CONTRIB
    opset: int = 17
    declared: Mapping[str, int] = field(default_factory=dict)
    close: float = 2e-5
    quantum: int = 0

    def __str__(self) -> str:
        shapes = ",".join("_" if a is None else "x".join(map(str, a.shape)) or "scalar" for a in self.inputs)
        attrs = ",".join(f"{k}={v}" for k, v in self.attrs.items()).replace(" ", "")
        return f"{self.op}-{shapes}" + (f"-{attrs}" if attrs else "")

    def names(self) -> list[str]:
        return [f"out{i}" for i in range(self.outputs)] if isinstance(self.outputs, int) else list(self.outputs)

    def model(self) -> tuple[onnx.ModelProto, dict[str, Array]]:
        """The model, and what to feed it."""
        names = ["" if a is None else f"in{i}" for i, a in enumerate(self.inputs)]
        node = helper.make_node(self.op, names, self.names(), domain=self.domain, name="node", **self.attrs)
        feed = {n: np.asarray(a) for i, (n, a) in enumerate(zip(names, self.inputs, strict=True))
                if a is not None and i not in self.constant}  # fmt: skip
        weights = [numpy_helper.from_array(a, names[i]) for i, a in enumerate(self.inputs)
                   if a is not None and i in self.constant]  # fmt: skip
        infos = []
        for name, array in feed.items():
            shape = [f"{name}_{i}" for i in range(array.ndim)] if self.named else array.shape
            infos.append(helper.make_tensor_value_info(name, onnx_type(array), shape))
        results = [helper.make_tensor_value_info(n, self.declared.get(n, TensorProto.UNDEFINED), None)
                   for n in self.names() if n]  # fmt: skip
        graph = helper.make_graph([node], "one", infos, results, weights)
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid(CONTRIB, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8), feed


def onnxruntime_runs(model: onnx.ModelProto, feed: Mapping[str, Array]) -> list[Array]:
    """The results of onnxruntime, unoptimized."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for output in copy.graph.output:
        if output.type.tensor_type.elem_type == TensorProto.UNDEFINED:
            output.ClearField("type")
    return list(exact_session(copy, **PLAIN).run(None, dict(feed)))


def engine_runs(model: onnx.ModelProto, feed: Mapping[str, Array], folder: Path, **options: Any) -> list[Array]:
    """The results of the engine, from the converted file."""
    onnx.save(model, str(folder / "m.onnx"))
    minnow.convert(folder / "m.onnx", output=folder / "m.mnn", verify=False, **options)
    results = minnow.load(folder / "m.mnn", threads=1).run(dict(feed))
    return [results[o.name] for o in model.graph.output]


def assert_same(got: Sequence[Array], want: Sequence[Array], case: Case) -> None:
    """Equal types and shapes, integers within a quantum, floats within the tolerance."""
    assert len(got) == len(want)
    for i, (g, w) in enumerate(zip(got, want, strict=True)):
        what = f"{case} output {i}"
        assert g.dtype == w.dtype, f"{what}: {g.dtype}, expected {w.dtype}"
        assert g.shape == w.shape, f"{what}: {g.shape}, expected {w.shape}"
        if w.dtype.kind in "iub":
            gap = np.abs(g.astype(np.int64) - w.astype(np.int64))
            assert gap.max(initial=0) <= case.quantum, f"{what}: {gap.max()} apart"
        else:
            np.testing.assert_allclose(
                g.astype(np.float64), w.astype(np.float64), rtol=case.close, atol=case.close, err_msg=what
            )


def judge(case: Case, folder: Path) -> None:
    """The engine gives what onnxruntime gives."""
    model, feed = case.model()
    assert_same(engine_runs(model, feed, folder), onnxruntime_runs(model, feed), case)
