"""The source model as a runnable reference: onnxruntime where it is installed, else the numpy reference."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from minnow.schema.errors import MinnowError
from minnow.schema.ir import DType, Graph, Model, Node, TensorType, Value
from minnow.schema.mnn.container import of_bytes, opened, to_bytes

Array = np.ndarray[Any, Any]


class Source(Protocol):
    """Runs the source model. `run` raises RuntimeError when the source itself refuses the inputs."""

    name: str

    def close(self) -> None:
        """Gives back the memory; another run takes it again."""

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]: ...

    def run_again(self, inputs: Mapping[str, Array]) -> dict[str, Array] | None:
        """The same outputs computed in another order, to see the noise in them; None where there is only one way."""


class OnnxRuntime:
    """onnxruntime with all its optimizations off, so that it computes what the file says."""

    def __init__(self, path: Path, outputs: Mapping[str, DType], foreign: bool = False) -> None:
        """
        Args:
            path: the model.
            outputs: their types.
            foreign: some input or output is of a type that numpy itself does not have.
        """
        os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
        import onnxruntime

        onnxruntime.disable_telemetry_events()
        levels = onnxruntime.GraphOptimizationLevel

        def session(level: Any) -> Any:
            options = onnxruntime.SessionOptions()
            options.graph_optimization_level = level
            options.log_severity_level = 4
            return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

        self.name = f"onnxruntime {onnxruntime.__version__}"
        self._outputs = dict(outputs)
        self._foreign = foreign
        self._plain = partial(session, levels.ORT_DISABLE_ALL)
        self._optimized = partial(session, levels.ORT_ENABLE_ALL)
        self._session = self._plain()

    def close(self) -> None:
        self._session = None

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        self._session = self._session or self._plain()
        return self._run(self._session, inputs)

    def run_again(self, inputs: Mapping[str, Array]) -> dict[str, Array] | None:
        return self._run(self._optimized(), inputs)

    def _run(self, session: Any, inputs: Mapping[str, Array]) -> dict[str, Array]:
        try:
            if self._foreign:
                return self._run_foreign(session, inputs)
            results = session.run(list(self._outputs), dict(inputs))
        except Exception as e:  # onnxruntime raises a class per status code, none of them public
            raise RuntimeError(str(e)) from e
        return dict(zip(self._outputs, results, strict=True))

    def _run_foreign(self, session: Any, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """By way of onnxruntime's own values: it takes and gives no arrays of types that numpy itself does not have."""
        from onnxruntime import OrtValue

        from minnow.converter.onnx.tensor import code_of

        given = {}
        for name, array in inputs.items():
            dtype = DType.of(array.dtype)
            bits = np.ascontiguousarray(array).view(f"u{dtype.size}") if dtype in FOREIGN else array
            given[name] = OrtValue.ortvalue_from_numpy_with_onnx_type(bits, code_of(dtype))
        results = {}
        for (name, dtype), value in zip(
            self._outputs.items(), session.run_with_ort_values(list(self._outputs), given), strict=True
        ):
            if dtype not in FOREIGN:
                results[name] = value.numpy()
                continue
            shape = tuple(value.shape())
            data = ctypes.string_at(value.data_ptr(), int(np.prod(shape)) * dtype.size)
            results[name] = np.frombuffer(data, dtype.numpy).reshape(shape)
        return results


FOREIGN = frozenset({DType.BF16, DType.F8E4M3FN, DType.F8E4M3FNUZ, DType.F8E5M2, DType.F8E5M2FNUZ})
"""Types of a whole byte and more that onnxruntime computes with, and numpy does not know by itself."""


class Reference:
    """The numpy reference of the op registry, on the graph as the frontend reads it."""

    name = "numpy reference"

    def __init__(self, model: Model) -> None:
        self._model = model

    def close(self) -> None:
        pass

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        from minnow.schema.ops.interpreter import evaluate

        try:
            results = evaluate(self._model.graph, [_closed(inputs[n], n, t) for n, t in self._model.inputs])
        except (MinnowError, ValueError, IndexError) as e:
            raise RuntimeError(str(e)) from e
        return {n: _opened(a, n, t) for (n, t), a in zip(self._model.outputs, results, strict=True)}

    def run_again(self, inputs: Mapping[str, Array]) -> dict[str, Array] | None:
        return None


def _closed(value: Any, name: str, type: TensorType) -> Array:
    """An input of the graph: bytes where it is a list."""
    container, inner = opened(type, name)
    if not container:
        return np.asarray(value)
    return to_bytes(value, container, name, lambda v, _: np.asarray(v, inner.dtype.numpy))


def _opened(array: Array, name: str, type: TensorType) -> Any:
    container, _ = opened(type, name)
    return of_bytes(array, container) if container else array


def open_source(path: Path, model: Model) -> tuple[Source, str]:
    """The best available reference, and a note when it is not the source's own runtime."""
    if model.source != "onnx":
        return Reference(model), ""
    types = {t.dtype for _, t in (*model.inputs, *model.outputs)}
    if unknown := sorted(t for t in types - FOREIGN if t.is_storage):
        names = ", ".join(map(str, unknown))
        return Reference(
            model
        ), f"onnxruntime takes no arrays of {names} from Python: compared with the numpy reference"
    try:
        return OnnxRuntime(path, {n: t.dtype for n, t in model.outputs}, bool(types & FOREIGN)), ""
    except ImportError:
        return Reference(model), "onnxruntime is not installed: compared with the numpy reference"
    except Exception as e:  # noqa: BLE001  (a class per status code, none of them public)
        # It refuses operators and types of some valid files; the reference has all that were converted.
        reason = str(e).splitlines()[0][:200]
        return Reference(model), f"onnxruntime cannot load the source ({reason}): compared with the numpy reference"


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
        elif node.op in ("Identity", "Cast", "Reshape", "Squeeze"):
            _collect(node.outputs[0], found)


def looked_up(graph: Graph, name: str) -> int | None:
    """The least number of rows of the tables that an input's integers are looked up in; None where there is none."""
    param = next((p for p in graph.params if p.name == name), None)
    return None if param is None else min(_rows(param), default=None)


def _rows(value: Value) -> Iterator[int]:
    for node, i in list(value.uses):
        if node.op == "Gather" and i == 1 and node.inputs[0] is not None:
            table = node.inputs[0].type.shape
            rows = table[node.attrs.get("axis", 0)] if table else None
            if isinstance(rows, int) and rows > 0:
                yield rows
        elif node.op in ("Identity", "Cast", "Reshape", "Squeeze", "Unsqueeze", "Max", "Mod", "Where"):
            # The last three are what a file of ours says of indices that count from the end.
            yield from _rows(node.outputs[0])


def random_outputs(model: Model) -> frozenset[str]:
    """The outputs that depend on random numbers, of which no two runs give the same."""
    from minnow.schema.ops import Trait, get

    return _behind(model, lambda node: Trait.RANDOM in get(node.op).traits)


def rounded_outputs(model: Model) -> frozenset[str]:
    """The outputs behind a rounding to few bits, which makes a whole step of the last bit of a float."""
    return _behind(model, lambda node: node.op in ("QuantizeLinear", "DynamicQuantizeLinear"))


def _behind(model: Model, is_source: Callable[[Node], bool]) -> frozenset[str]:
    """The outputs that depend on nodes of a kind, in bodies of control flow, too."""
    tainted: set[Value] = set()
    for node in model.graph:
        inner = (n for body in node.subgraphs.values() for g in body.walk() for n in g)
        if any(map(is_source, (node, *inner))) or any(v in tainted for v in node.inputs):
            tainted.update(node.outputs)
    return frozenset(n for (n, _), v in zip(model.outputs, model.graph.outputs, strict=True) if v in tainted)
