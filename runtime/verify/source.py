"""Runs the source model: in its own runtime if that is installed, otherwise in the numpy reference implementation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from minnow.converter.formats import is_mnn
from minnow.runtime.verify.comparison import TOLERANCE
from minnow.schema.errors import MinnowError, UnsupportedError
from minnow.schema.extra import install
from minnow.schema.ir import DType, Graph, Model, Node, TensorType, Value
from minnow.schema.mnn.container import of_bytes, opened, to_bytes

Array = np.ndarray[Any, Any]


class Source(Protocol):
    """Runs the source model. `run` raises RuntimeError if the source runtime rejects the inputs."""

    name: str

    def close(self) -> None:
        """Frees the memory; the next run allocates it again."""

    def reset(self) -> None:
        """Restores the initial values of all states."""

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]: ...

    def run_again(self, inputs: Mapping[str, Array]) -> dict[str, Array] | None:
        """The same outputs computed in another order, to measure rounding noise; None if there is only one way."""


class Reference:
    """The numpy reference implementation of the ops, on the graph as the frontend has read it."""

    name = "numpy reference"

    def __init__(self, model: Model) -> None:
        self._model = model
        self.reset()

    def close(self) -> None:
        pass

    def reset(self) -> None:
        self._states = {s.input: s.value for s in self._model.states}

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        from minnow.schema.registry.interpreter import evaluate

        given = {**inputs, **self._states}
        try:
            arrays = [_closed(given[n], n, t) for n, t in self._model.inputs]
            # A pass may have chosen another type than the source declares: values are converted at the boundary.
            arrays = [
                a.astype(p.type.dtype.numpy, copy=False) for a, p in zip(arrays, self._model.graph.params, strict=True)
            ]
            results = evaluate(self._model.graph, arrays)
        except (MinnowError, ValueError, IndexError) as e:
            raise RuntimeError(str(e)) from e
        got = {n: _opened(a, n, t) for (n, t), a in zip(self._model.outputs, results, strict=True)}
        self._states = {s.input: got[s.output] for s in self._model.states}
        return {n: got[n] for n, _ in self._model.user_outputs}

    def run_again(self, inputs: Mapping[str, Array]) -> dict[str, Array] | None:
        return None


def _closed(value: Any, name: str, type: TensorType) -> Array:
    """An input of the graph; a list becomes bytes."""
    container, inner = opened(type, name)
    if not container:
        return np.asarray(value)
    return to_bytes(value, container, name, lambda v, _: np.asarray(v, inner.dtype.numpy))


def _opened(array: Array, name: str, type: TensorType) -> Any:
    container, _ = opened(type, name)
    return of_bytes(array, container) if container else array.astype(type.dtype.numpy, copy=False)


class TwoRuns:
    """A model with states, run twice from their initial values: the second run shows the states after the first."""

    SECOND = ", second run"

    def __init__(self, source: Any) -> None:
        self._source = source
        self.name = getattr(source, "name", "")

    def close(self) -> None:
        self._source.close()

    def reset(self) -> None:
        self._source.reset()

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        self._source.reset()
        first = self._source.run(inputs)
        return {**first, **{n + self.SECOND: array for n, array in self._source.run(inputs).items()}}

    def run_again(self, inputs: Mapping[str, Array]) -> dict[str, Array] | None:
        return None


NOT_RUN = (
    "the program was not run, since its code runs only with --trust: compared with the numpy reference implementation"
    " of the graph as it was read"
)


def open_source(path: Path, model: Model, framework: str | None = None, **options: Any) -> tuple[Source, str]:
    """The best available reference, and a note if it is not the source's own runtime.

    Args:
        path: the source.
        model: as the frontend reads it.
        framework: name of the format; None detects it from the content.
        options: the options with which the source was read.
    """
    if is_mnn(path, framework):
        return _of_engine(path, model)
    if options.get("dequantize"):
        return (
            Reference(model),
            "the source rounds to integers, this file does not: compared with the numpy reference implementation",
        )
    if model.source == "torchscript" and not options.get("trust"):
        return Reference(model), NOT_RUN
    name, open_runtime = _RUNTIMES.get(model.source, ("", None))
    if open_runtime is None:
        return Reference(model), ""
    try:
        return open_runtime(path, model, **options), ""
    except ModuleNotFoundError as e:
        how = install(e.name or name)
        return Reference(model), f"{name} is not installed ({how}): compared with the numpy reference implementation"
    except Exception as e:  # noqa: BLE001  (each runtime has classes of its own, few of them public)
        # Runtimes reject operators and types of some valid files; the reference has all that were converted.
        reason = (str(e).splitlines() or [type(e).__name__])[0][:200]
        return Reference(
            model
        ), f"{name} cannot load the source ({reason}): compared with the numpy reference implementation"


class Engine:
    """Minnow's engine, for a source that is a `.mnn` file."""

    name = "the engine"

    def __init__(self, path: Path) -> None:
        from minnow.runtime.session import load

        self._session = load(path)

    def close(self) -> None:
        pass  # its weights are mapped

    def reset(self) -> None:
        self._session.reset()

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        try:
            return self._session.run(inputs)
        except MinnowError as e:
            raise RuntimeError(str(e)) from e

    def run_again(self, inputs: Mapping[str, Array]) -> dict[str, Array] | None:
        return None


def _of_engine(path: Path, model: Model) -> tuple[Source, str]:
    try:
        return Engine(path), ""
    except UnsupportedError as e:
        return Reference(
            model
        ), f"the engine cannot run the source ({e.message}): compared with the numpy reference implementation"


def _onnx_runtime(
    path: Path, model: Model, cut_inputs: Sequence[str] = (), cut_outputs: Sequence[str] = (), **_: Any
) -> Source:
    from minnow.runtime.verify.onnx_runtime import FOREIGN, OnnxRuntime

    types = {t.dtype for _, t in (*model.inputs, *model.outputs)}
    if unknown := sorted(t for t in types - FOREIGN if t.is_storage):
        raise TypeError(f"it takes no arrays of {', '.join(map(str, unknown))} from Python")
    content = None
    if cut_inputs or cut_outputs:
        from minnow.converter.onnx.cut import cut
        from minnow.converter.onnx.reader import parse

        content = cut(parse(path), cut_inputs, cut_outputs, dict(model.inputs), str(path)).SerializeToString()
    return OnnxRuntime(path, {n: t.dtype for n, t in model.outputs}, bool(types & FOREIGN), content)


def _lite_rt(
    path: Path, model: Model, signature: str = "", cut_inputs: Sequence[str] = (), cut_outputs: Sequence[str] = (),
    **_: Any,
) -> Source:  # fmt: skip
    from minnow.runtime.verify.lite_rt import LiteRT, part_of

    if cut_inputs or cut_outputs:
        content = part_of(path, signature, cut_inputs, cut_outputs)
        return LiteRT(path, model, exact=bool(rounded_outputs(model)), content=content)
    return LiteRT(path, model, signature, exact=bool(rounded_outputs(model)))


def _tensorflow(path: Path, model: Model, signature: str = "", **_: Any) -> Source:
    from minnow.runtime.verify.tensorflow_graph import open_tensorflow

    return open_tensorflow(path, model, signature)


def _torch(path: Path, model: Model, inputs: Mapping[str, Any] | None = None, trust: bool = False, **_: Any) -> Source:
    from minnow.runtime.verify.torch_program import TorchProgram

    return TorchProgram(path, model, inputs, trust)


def _opencv(path: Path, model: Model, weights: str = "", **options: Any) -> Source:
    from minnow.runtime.verify.opencv import OpenCV

    if options.get("cut_inputs") or options.get("cut_outputs"):
        raise ValueError("it can only run whole nets")
    return OpenCV(path, model, weights)


_RUNTIMES: dict[str, tuple[str, Callable[..., Source]]] = {
    "onnx": ("onnxruntime", _onnx_runtime),
    "tflite": ("LiteRT", _lite_rt),
    "tensorflow": ("tensorflow", _tensorflow),
    "caffe": ("OpenCV", _opencv),
    "torchscript": ("PyTorch", _torch),
    "torch_export": ("PyTorch", _torch),
}
"""By the format of the source: the name of its runtime, and the function that opens it."""


def compared_constants(graph: Graph, name: str) -> list[int]:
    """Integers that an input is compared with for equality: values that select a branch ("sample rate == 16000")."""
    param = next((p for p in graph.params if p.name == name), None)
    found: dict[int, None] = {}
    if param is not None:
        _collect(param, found)
    return list(found)


def _collect(value: Value, found: dict[int, None]) -> None:
    for node, i in list(value.uses):
        if node.op == "Equal":
            other = node.inputs[1 - i]
            if other is not None and other.data is not None and other.type.count == 1 and other.type.dtype.is_int:
                found[int(other.data.numpy().reshape(-1)[0])] = None
        elif _hands_on(node):
            _collect(node.outputs[0], found)


def _hands_on(node: Node) -> bool:
    """The result has the operand's numbers, under another shape or type."""
    from minnow.schema.ops import Trait, get

    if not node.outputs:  # the graph's end, where an input is an output
        return False
    return node.op == "Cast" or Trait.VIEW in get(node.op).traits


def looked_up(graph: Graph, name: str) -> int | None:
    """The smallest number of rows of the tables that an input's integers index (as in Gather); None without a table."""
    param = next((p for p in graph.params if p.name == name), None)
    return None if param is None else min(_rows(param), default=None)


def _rows(value: Value) -> Iterator[int]:
    for node, i in list(value.uses):
        if node.op == "Gather" and i == 1 and node.inputs[0] is not None:
            table = node.inputs[0].type.shape
            rows = table[node.attrs.get("axis", 0)] if table else None
            if isinstance(rows, int) and rows > 0:
                yield rows
        elif _hands_on(node) or node.op in ("Max", "Mod", "Where"):
            # Our files compute these three of indices that count from the end.
            yield from _rows(node.outputs[0])


def random_outputs(model: Model) -> frozenset[str]:
    """The outputs that depend on random numbers, and differ from run to run."""
    from minnow.schema.ops import Trait, get

    return _behind(model, lambda node: Trait.RANDOM in get(node.op).traits)


def rounded_outputs(model: Model) -> frozenset[str]:
    """The outputs computed from values rounded to few bits: a tiny difference before becomes a whole step."""
    from minnow.schema.ops import Trait, get

    return _behind(model, lambda node: Trait.ROUNDING in get(node.op).traits)


def coarse_outputs(model: Model) -> dict[str, float]:
    """Tolerances of the float32 and float64 outputs that are computed from 16-bit values, whose results are rounded."""
    from minnow.schema.ops import Trait, get

    def makes(dtype: DType, node: Node) -> bool:
        moves = Trait.MOVEMENT in get(node.op).traits or all(v is None or v.is_const for v in node.inputs)
        return not moves and any(v.type.dtype is dtype for v in node.outputs)

    floats = {name for name, type in model.outputs if type.dtype in (DType.F32, DType.F64)}
    found: dict[str, float] = {}
    for dtype in (DType.F16, DType.BF16):
        names = _behind(model, partial(makes, dtype))
        found |= {n: TOLERANCE[dtype.numpy.name] for n in names if n.removesuffix(TwoRuns.SECOND) in floats}
    return found


def _behind(model: Model, is_source: Callable[[Node], bool]) -> frozenset[str]:
    """The outputs that depend on nodes for which `is_source` holds, also in subgraphs of control flow."""
    tainted: set[Value] = set()
    for node in model.graph:
        inner = (n for body in node.subgraphs.values() for g in body.walk() for n in g)
        if any(map(is_source, (node, *inner))) or any(v in tainted for v in node.inputs):
            tainted.update(node.outputs)
    found = [n for (n, _), v in zip(model.outputs, model.graph.outputs, strict=True) if v in tainted]
    return frozenset([*found, *(n + TwoRuns.SECOND for n in found)])
