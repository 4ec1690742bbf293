"""What a program remembers from run to run: buffers changed in place, and attributes that it sets.

A program is run symbolically as it is in the file; what it has changed then is what a second run finds. So it is run
again, with states in place of the changed tensors, until what it finds and what it leaves behind are of one kind. An
attribute that is another thing only before the first run (an empty tensor that is replaced by zeros) must make no
difference to the first result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from minnow.converter.torch.program import Object, Program, Stored
from minnow.converter.torch.tensor import Number, Tensor
from minnow.converter.torch.translator import Translator
from minnow.converter.variable import View, keep
from minnow.schema.errors import MinnowError, UnsupportedError
from minnow.schema.ir import DType, Graph, Model, TensorType, Value
from minnow.schema.ops.interpreter import evaluate

Array = np.ndarray[Any, Any]
PASSES = 6
_DTYPES = {bool: DType.BOOL, int: DType.I64, float: DType.F64}


@dataclass(frozen=True)
class Assumed:
    """What a run finds at one place.

    Attributes:
        start: what the first run finds, of a state; None for what all runs find the same.
        constant: that.
        number: it is a number of the program, not a tensor.
        replaced: what the file has there is something else.
    """

    name: str
    start: Array | None = None
    constant: Any = None
    number: bool = False
    replaced: bool = False

    def agrees(self, other: Assumed) -> bool:
        """Both find the same kind of thing."""
        if (self.start is None) != (other.start is None) or self.number != other.number:
            return False
        if self.start is None or other.start is None:
            return bool(self.constant == other.constant)
        return self.start.shape == other.start.shape and self.start.dtype == other.start.dtype


@dataclass
class Memory:
    """The places that a program changes, by the key of a stored tensor or the path of an attribute.

    Attributes:
        first: the graph of the run with everything as in the file.
    """

    assumed: dict[str, Assumed] = field(default_factory=dict)
    first: Graph | None = None

    def install(self, translator: Translator, program: Program) -> Installed:
        """Puts states where the program finds what it changes."""
        objects = _Objects(program)
        states: dict[str, Value] = {}
        for place, a in self.assumed.items():
            made: Any = a.constant
            if a.start is not None:
                param = translator.builder.graph.add_param(
                    TensorType(DType.of(a.start.dtype), tuple(a.start.shape)), a.name
                )
                states[place] = param
                made = Number(param) if a.number else Tensor(param)
            if place in objects.owners:
                owner, name = objects.owners[place]
                owner.attrs[name] = made
            else:
                translator.place(place, made)
        return Installed(self, translator, program, objects, states)


class _Objects:
    """Copies of a program's objects, which a run may change."""

    def __init__(self, program: Program) -> None:
        self._copies: dict[int, Object] = {}
        self.owners: dict[str, tuple[Object, str]] = {}
        self.bound = {name: self._copied(x, "") for name, x in program.bound.items()}

    def _copied(self, x: Any, path: str) -> Any:
        if not isinstance(x, Object):
            return x
        if id(x) not in self._copies:
            self._copies[id(x)] = made = Object(x.kind, {}, path)
            for name, value in x.attrs.items():
                inner = f"{path}.{name}" if path else name
                made.attrs[name] = self._copied(value, inner)
                self.owners[inner] = (made, name)
        return self._copies[id(x)]


class Installed:
    """The places of one run."""

    def __init__(
        self, memory: Memory, translator: Translator, program: Program, objects: _Objects, states: dict[str, Value]
    ) -> None:
        self._memory = memory
        self._translator = translator
        self._program = program
        self._states = states
        self.bound = {name: translator.materialize(x) for name, x in objects.bound.items()}
        self._stored = {s.key: s for s in _stored(program.bound.values())}

    def settled(self) -> bool:
        """What the run leaves behind is of the kind that it has found. If not, the next one finds that."""
        found = self._left_behind()
        before = self._memory.assumed
        if all(k in before and a.agrees(before[k]) for k, a in found.items()):
            return True
        if self._memory.first is None:
            self._memory.first = self._translator.builder.graph
        for place, a in found.items():
            old = before.get(place)
            if old is not None and old.start is None and a.start is None and not old.agrees(a):
                # A number that is another one after each run.
                found[place] = self._counter(place, a)
        self._memory.assumed = {**before, **found}
        return False

    def _counter(self, place: str, a: Assumed) -> Assumed:
        kind = type(a.constant)
        initial = self._initial(place)
        if kind not in _DTYPES or type(initial) is not kind:
            raise UnsupportedError(f"what '{a.name}' is after each run cannot be told")
        return replace(a, start=np.asarray(initial, _DTYPES[kind].numpy), constant=None, number=True)

    def _initial(self, place: str) -> Any:
        """What the file has there."""
        owners = _Objects(self._program).owners
        return owners[place][0].attrs[owners[place][1]] if place in owners else self._stored.get(place)

    def _left_behind(self) -> dict[str, Assumed]:
        t = self._translator
        found: dict[str, Assumed] = {}
        self._ends: dict[str, Any] = {}
        ends = {self._program.bound[param].key: t.scope[after] for param, after in self._program.mutated.items()}
        for key, tensor in {**t.changed(), **ends}.items():
            stored = self._stored[key]
            found[key] = Assumed(stored.name or key, start=stored.load())
            self._ends[key] = tensor
        for place, values in t.assigned.items():
            self._ends[place] = values[-1]
            found[place] = self._attribute(place, values)
        return found

    def _attribute(self, place: str, values: Sequence[Any]) -> Assumed:
        last = values[-1]
        known = self._memory.assumed.get(place)
        if isinstance(last, Number):
            if known is None or known.start is None or not known.number:
                raise UnsupportedError(f"the attribute '{place}' becomes a number that only the run knows")
            return known
        if not isinstance(last, Tensor):
            if known is not None and known.number:
                return known
            return Assumed(place, constant=last, replaced=self._initial(place) != last)
        type = last.type
        if not type.is_static:
            raise UnsupportedError(f"the extents of '{place}', which the model remembers, must be known",
                                   hint="fix the input shapes with `--input NAME=1x3x...`")  # fmt: skip
        initial = self._initial(place)
        if isinstance(initial, Stored) and initial.type == type:
            return Assumed(place, start=initial.load())
        if known is not None and known.start is not None and known.start.shape == type.static_shape:
            return known
        for value in reversed(values[:-1]):
            if isinstance(value, Tensor) and value.type == type and value.first.data is not None:
                return Assumed(place, start=value.first.data.numpy(), replaced=True)
        # A program that begins with something else mostly takes zeros for it; whether this one does is seen at the end.
        return Assumed(place, start=np.zeros(type.static_shape, type.dtype.numpy), replaced=True)

    def finish(self, model: Model, inputs: Sequence[Value]) -> None:
        """Makes inputs and outputs of the model that belong together, of what it really remembers."""
        memory, t = self._memory, self._translator
        if any(a.replaced for a in memory.assumed.values()):
            self._compare(model.graph, inputs)
        for place, param in self._states.items():
            name, start, end = memory.assumed[place].name, memory.assumed[place].start, self._ends.get(place)
            assert start is not None
            after = param if end is None else end.value if isinstance(end, Number) else t.value(end)
            if not param.uses or after is param:
                # It stays what it is, or nobody asks what it was.
                param.replace_all_uses(Value.constant(start, name))
                model.graph.params = [p for p in model.graph.params if p is not param]
                continue
            view = View(model.graph, {name: after}, {name: param})
            model.graph.outputs = [*model.graph.outputs, keep(model, view, name, start)]

    def _compare(self, graph: Graph, inputs: Sequence[Value]) -> None:
        """Raises UnsupportedError unless the first run gives what it gives with all things as in the file."""
        first = self._memory.first
        rng = np.random.default_rng(0)
        if first is None or not all(v.type.is_static for v in inputs):
            raise UnsupportedError("the program begins in another way than it goes on",
                                   hint="fix the input shapes with `--input NAME=1x3x...`")  # fmt: skip
        given = {v.name: rng.random(v.type.static_shape).astype(v.type.dtype.numpy) for v in inputs}
        starts = {param: np.asarray(self._memory.assumed[place].start) for place, param in self._states.items()}
        try:
            got = evaluate(graph, [given[v.name] if v not in starts else starts[v] for v in graph.params])
            want = evaluate(first, [given[v.name] for v in first.params])
        except (MinnowError, ValueError, IndexError) as e:
            raise UnsupportedError("the program begins in another way than it goes on", why=str(e)[:200]) from e
        if not all(np.allclose(a, b, 1e-4, 1e-5, equal_nan=True) for a, b in zip(got, want, strict=False)):
            raise UnsupportedError("the first run of the program gives other results than its start values would")


def _stored(things: Any) -> list[Stored]:
    """All tensors of the file in objects, lists and dicts."""
    found: list[Stored] = []
    for x in things:
        if isinstance(x, Stored):
            found.append(x)
        elif isinstance(x, Object):
            found += _stored(x.attrs.values())
        elif isinstance(x, (list, tuple)):
            found += _stored(x)
        elif isinstance(x, Mapping):
            found += _stored(x.values())
    return found
