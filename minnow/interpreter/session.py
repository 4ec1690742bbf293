"""`Session`: a model made ready to run by `Interpreter.createSession`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minnow.interpreter.constant import CAFFE, TENSORFLOW, shown
from minnow.interpreter.model_file import ModelFile, Slot
from minnow.interpreter.program import Program
from minnow.interpreter.setting import BACKENDS, Configuration
from minnow.interpreter.tensor import Tensor, checked_shape
from minnow.schema.errors import UsageError

Array = np.ndarray[Any, Any]
UNKNOWN_SIZE = 1
"""What a dynamic dimension of an input is before `resizeTensor`."""


class InputCell:
    """An input of a session: an array in the layout of the model."""

    def __init__(self, session: Session, slot: Slot) -> None:
        self._session = session
        self.slot = slot
        self.dtype = shown(slot.dtype)
        self.array: Array = np.zeros([max(d, 0) if d != -1 else UNKNOWN_SIZE for d in slot.shape or ()], self.dtype)

    def get(self) -> Array:
        return self.array

    def set(self, array: Array) -> None:
        self.array[...] = array

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.array.shape)

    def resize(self, shape: tuple[int, ...]) -> None:
        if self.array.shape != shape:
            try:
                self.array = np.zeros(shape, self.dtype)
            except MemoryError:
                raise UsageError(f"there is no memory for an input of the shape {list(shape)}") from None
            self._session.shapes_changed()


class OutputCell:
    """An output of a session: zeros before the first run."""

    def __init__(self, session: Session, name: str) -> None:
        self._session = session
        self._name = name

    def get(self) -> Array:
        return self._session.result(self._name)

    def set(self, array: Array) -> None:
        self._session.result(self._name)[...] = array

    @property
    def shape(self) -> tuple[int, ...]:
        return self._session.type_of(self._name)[0]

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._session.type_of(self._name)[1]


class Session:
    """A model made ready to run; `Interpreter.createSession` makes it.

    Attributes:
        fallback: why the CPU runs the model instead of the backend that was asked for, "" if it does not.
    """

    def __init__(self, file: ModelFile, configuration: Configuration) -> None:
        inputs = file.names(configuration.inputs, "inputPaths", file.input_names)
        outputs = file.names(configuration.outputs, "outputPaths", file.output_names)
        kept = [file.tensor(name, "saveTensors") for name in configuration.keep]
        self.file = file
        self.configuration = configuration
        self.fallback = configuration.fallback
        self.program = Program(file, inputs, list(dict.fromkeys([*outputs, *kept])), configuration)
        self._results: dict[str, Array] = {}
        self._types: dict[str, tuple[tuple[int, ...], np.dtype[Any]]] = {}
        self._flops: dict[str, float] = {}
        # In order of names, as in MNN: "the first one" is a matter of that, not of the order in the file.
        slots = sorted(self.program.inputs, key=lambda slot: slot.name.encode())
        self._cells = {slot.name: InputCell(self, slot) for slot in slots}
        self.inputs = {
            name: Tensor.of_cell(cell, TENSORFLOW if cell.slot.last else CAFFE) for name, cell in self._cells.items()
        }
        self.outputs: dict[str, Tensor] = {}
        for name in sorted(self.program.outputs, key=str.encode):
            info = self.program.declared(name)
            last = info is not None and file.slot(info).last
            self.outputs[name] = Tensor.of_cell(OutputCell(self, name), TENSORFLOW if last else CAFFE)
        if configuration.plans_at_once:
            self.plan()

    # ---- shapes

    def resize(self, tensor: Tensor, shape: Any) -> None:
        """Gives an input another shape. Raises UsageError if it is not one of this session, or has another rank."""
        cell = tensor._cell
        if not isinstance(cell, InputCell) or self._cells.get(cell.slot.name) is not cell:
            raise UsageError(
                "the tensor is not an input of a session of this interpreter", hint="getSessionInput(session)"
            )
        dims = checked_shape(shape)
        if cell.slot.shape is not None and len(dims) != len(cell.slot.shape):
            raise UsageError(f"input '{cell.slot.name}' cannot have the shape {list(dims)}", hint=f"it is {cell.slot}")
        cell.resize(dims)

    def shapes_changed(self) -> None:
        self._results.clear()
        self._types.clear()
        self._flops.clear()

    def plan(self) -> None:
        """Plans the computation for the shapes of the inputs. Raises the errors of that."""
        shapes = {name: cell.shape for name, cell in self._cells.items()}
        session = self.program.session(shapes)
        if set(shapes) == {info.name for info in session.inputs}:
            session.placement(shapes)

    def type_of(self, name: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
        """Shape and element type of an output, for the shapes that the inputs have now."""
        if name not in self._types:
            info = self.program.declared(name)
            as_declared = all(cell.shape == cell.slot.shape for cell in self._cells.values())
            if (
                info is not None
                and info.shape is not None
                and as_declared
                and all(isinstance(d, int) for d in info.shape)
            ):
                self._types[name] = tuple(int(d) for d in info.shape), shown(info.dtype)
            else:
                self._note(self.compute(None, None))
        return self._types[name]

    def _note(self, results: dict[str, Array]) -> None:
        self._types.update({name: (array.shape, array.dtype) for name, array in results.items()})

    def result(self, name: str) -> Array:
        """What the latest run has given for an output."""
        if name not in self._results:
            shape, dtype = self.type_of(name)
            self._results[name] = np.zeros(shape, dtype)
        return self._results[name]

    # ---- running

    def compute(self, before: Callable[..., Any] | None, after: Callable[..., Any] | None) -> dict[str, Array]:
        arrays = {name: _given(cell) for name, cell in self._cells.items()}
        results = self.program.run(arrays, before, after)
        made = {}
        for name, value in results.items():
            if not isinstance(value, np.ndarray):
                raise UsageError(f"the output '{name}' is not a tensor", hint="minnow.load gives all outputs")
            made[name] = np.asarray(value, shown(value.dtype.name))
        return made

    def run(self, before: Callable[..., Any] | None = None, after: Callable[..., Any] | None = None) -> None:
        results = self.compute(before, after)
        self._note(results)
        self._results = results

    # ---- what it tells

    def flops(self) -> dict[str, float]:
        """Millions of multiply-accumulates, or of elements where there are none of these, of each node by its name."""
        if not self._flops:
            arrays = {name: _given(cell) for name, cell in self._cells.items()}
            model = self.program._fitting({name: array.shape for name, array in arrays.items()})
            # A session of its own: this one may be in a run, whose callback asks.
            one = self.configuration.open(model)
            for row in one.profile(arrays, 1):
                elements = np.prod([int(d) for d in row["shape"].strip("[]").split(",") if d.strip().isdigit()])
                self._flops[row["name"]] = (row["macs"] or float(elements)) / 1e6
        return self._flops

    def info(self, code: int) -> float | int:
        """What `Interpreter.getSessionInfo` gives."""
        session = self.program.session({name: cell.shape for name, cell in self._cells.items()})
        stats = session.stats
        if code == 0:
            held = stats["arena_bytes"] + stats["weight_bytes"] + stats["packed_bytes"]
            return held / 2**20
        if code == 1:
            return sum(self.flops().values())
        if code == 2:
            kinds = [name.partition(":")[0] for name in session._engine.devices]
            other = [kind for kind in kinds if kind != "cpu"]
            return next((k.number for k in BACKENDS.values() if other and k.device == other[0]), 0)
        return 0 if code == 3 else int(stats["threads"])

    def cache(self) -> None:
        """Nothing: for programs that call it."""

    def removeCache(self) -> None:
        """Nothing: for programs that call it."""

    def write_packed(self, path: str) -> None:
        self.program.whole.write_packed(path)


def _given(cell: InputCell) -> Array:
    array = cell.array
    return array != 0 if cell.slot.dtype == "bool" else array
