"""States: what a program keeps from run to run, in buffers changed in place and in attributes that it sets.

A program is run symbolically as it is in the file; what it has changed then is what a second run finds. So it is run
again, with states in place of the changed tensors, until what it finds and what it leaves behind are of one kind. An
attribute that is another thing only before the first run (an empty tensor that is replaced by zeros) must make no
difference to the first result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from minnow.converter.control_flow.variable import View, keep
from minnow.converter.torch.program.program import Object, Program, Ref, Stored
from minnow.converter.torch.symbolic.dimension import scalar
from minnow.converter.torch.symbolic.structure import Tuple
from minnow.converter.torch.symbolic.tensor import Number, Tensor
from minnow.converter.torch.symbolic.translator import Translator
from minnow.schema.errors import MinnowError, ModelError, UnsupportedError
from minnow.schema.ir import DType, Graph, Model, TensorType, Value
from minnow.schema.registry.interpreter import evaluate

Array = np.ndarray[Any, Any]
PASSES = 6
_DTYPES = {bool: DType.BOOL, int: DType.I64, float: DType.F64}


@dataclass(frozen=True)
class Parts:
    """A list, tuple or dict whose parts are places of their own: that of the whole, a dot, and their key."""

    kind: type
    keys: tuple[Any, ...]

    @classmethod
    def of(cls, x: Any) -> Parts | None:
        """Those of a list, tuple or dict that holds what a run may change."""
        if isinstance(x, dict):
            return cls(dict, tuple(x))
        if isinstance(x, (list, tuple)) and any(isinstance(v, (Tensor, Number, Stored, *_WHOLES)) for v in x):
            return cls(list if isinstance(x, list) else Tuple, tuple(range(len(x))))
        return None

    def built(self, parts: Sequence[Any]) -> Any:
        return dict(zip(self.keys, parts, strict=True)) if self.kind is dict else self.kind(parts)


_WHOLES = (list, tuple, dict)


@dataclass(frozen=True)
class Assumed:
    """What a run finds at one place.

    Attributes:
        start: what the first run finds, of a state; None for what all runs find the same.
        constant: that; `Parts` of what has parts.
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
        found: dict[str, Any] = {}
        for place, a in reversed(self.assumed.items()):  # parts stand after the whole
            made: Any = a.constant
            if isinstance(made, Parts):
                made = made.built([found[f"{place}.{k}"] for k in made.keys])
            if a.start is not None:
                param = translator.builder.graph.add_param(
                    TensorType(DType.of(a.start.dtype), tuple(a.start.shape)), a.name
                )
                states[place] = param
                made = Number(param) if a.number else Tensor(param)
            found[place] = made
            if place in objects.owners:
                owner, name = objects.owners[place]
                owner.attrs[name] = made
                if isinstance(made, _WHOLES):
                    objects.wholes[place] = made, copy(made)
            elif place not in objects.initial and isinstance(made, Tensor):
                translator.place(place, made)
        return Installed(self, translator, program, objects, states)


class _Objects:
    """Copies of a program's objects, which a run may change.

    Attributes:
        owners: whose attributes there are, by their paths.
        initial: what the file has there, and in their parts.
        wholes: lists and dicts, and what they held at first.
    """

    def __init__(self, program: Program) -> None:
        self._copies: dict[int, Any] = {}
        self.owners: dict[str, tuple[Object, str]] = {}
        self.initial: dict[str, Any] = {}
        self.wholes: dict[str, tuple[Any, Any]] = {}
        self.bound = {name: self._copied(x, "") for name, x in program.bound.items()}

    def _copied(self, x: Any, path: str) -> Any:
        if not isinstance(x, (Object, *_WHOLES)):
            return x
        if id(x) in self._copies:
            return self._copies[id(x)]
        made: Any
        inside: dict[Any, Any] = x.attrs if isinstance(x, Object) else x if isinstance(x, dict) else dict(enumerate(x))
        made = Object(x.kind, {}, path, x.methods) if isinstance(x, Object) else {} if isinstance(x, dict) else []
        self._copies[id(x)] = made
        for key, value in inside.items():
            inner = f"{path}.{key}" if path else str(key)
            self.initial[inner] = value
            part = self._copied(value, inner)
            if isinstance(made, Object):
                made.attrs[key] = part
                self.owners[inner] = (made, key)
            elif isinstance(made, dict):
                made[key] = part
            else:
                made.append(part)
        if isinstance(x, tuple):
            self._copies[id(x)] = made = Tuple(made)
        if not isinstance(made, Object):
            self.wholes[path] = made, copy(made)
        return made


class Installed:
    """The places of one run."""

    def __init__(
        self, memory: Memory, translator: Translator, program: Program, objects: _Objects, states: dict[str, Value]
    ) -> None:
        self._memory = memory
        self._translator = translator
        self._program = program
        self._states = states
        self._objects = objects
        self.bound = {name: translator.materialize(x) for name, x in objects.bound.items()}
        self._stored = {s.key: s for s in _stored(program.bound.values())}

    def settled(self) -> bool:
        """Whether the states after the run have the types that it began with. If not, the next one begins with them."""
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
                found[place] = self._counter(place, a, _DTYPES.get(type(a.constant)))
        self._memory.assumed = {**before, **found}
        return False

    def _counter(self, place: str, a: Assumed, dtype: DType | None) -> Assumed:
        """A number that is a state."""
        initial = self._initial(place)
        if dtype is None or _DTYPES.get(type(initial)) is not dtype:
            raise UnsupportedError(f"the value that '{a.name}' has after each run cannot be determined",
                                   why="a state must keep its type, its length and its dimensions",
                                   hint="write into a buffer of the largest size")  # fmt: skip
        return replace(a, start=np.asarray(initial, dtype.numpy), constant=None, number=True, replaced=False)

    def _initial(self, place: str) -> Any:
        """What the file has there."""
        return self._objects.initial.get(place, self._stored.get(place))

    def _left_behind(self) -> dict[str, Assumed]:
        t = self._translator
        found: dict[str, Assumed] = {}
        self._ends: dict[str, Any] = {}
        ends = {self._program.bound[param].key: t.resolve(Ref(after)) for param, after in self._program.mutated.items()}
        if not all(isinstance(x, Tensor) for x in ends.values()):
            raise ModelError("a state of the program is not a tensor", where=t.where)
        for key, tensor in {**t.changed(), **ends}.items():
            stored = self._stored[key]
            found[key] = Assumed(stored.name or key, start=stored.load())
            self._ends[key] = tensor
        for place, values in {**self._altered(), **t.assigned}.items():
            self._remember(place, values, found)
        return found

    def _altered(self) -> dict[str, Sequence[Any]]:
        """The lists and dicts of the file that have another content now."""
        t = self._translator

        def held(x: Any) -> list[Any]:
            items = [v for pair in x.items() for v in pair] if isinstance(x, dict) else x
            return [v if isinstance(v, (str, int, float)) else id(t.materialize(v)) for v in items]

        return {path: [now] for path, (now, before) in self._objects.wholes.items() if held(now) != held(before)}

    def _remember(self, place: str, values: Sequence[Any], found: dict[str, Assumed]) -> None:
        last = self._translator.materialize(values[-1])
        if (parts := Parts.of(last)) is None:
            self._ends[place] = last
            found[place] = self._attribute(place, [*values[:-1], last])
            return
        found[place] = Assumed(place, constant=parts, replaced=Parts.of(self._initial(place)) != parts)
        for key in parts.keys:
            self._remember(f"{place}.{key}", [last[key]], found)

    def _attribute(self, place: str, values: Sequence[Any]) -> Assumed:
        last = values[-1]
        known = self._memory.assumed.get(place)
        if isinstance(last, Number):
            known = known or Assumed(place)
            return known if known.number else self._counter(place, known, last.dtype)
        if not isinstance(last, Tensor):
            if known is not None and known.number and not isinstance(last, (Object, str, type(None))):
                return known
            return Assumed(place, constant=last, replaced=self._initial(place) != last)
        becomes = last.type
        if not becomes.is_static:
            raise UnsupportedError(f"the dimensions of the state '{place}' must be known",
                                   hint="fix the input shapes with `--input NAME=1x3x...`")  # fmt: skip
        initial = self._initial(place)
        if isinstance(initial, Stored) and initial.type == becomes:
            return Assumed(place, start=initial.load())
        if known is not None and known.start is not None and known.start.shape == becomes.static_shape:
            return known
        for value in reversed(values[:-1]):
            if isinstance(value, Tensor) and value.type == becomes and value.first.data is not None:
                return Assumed(place, start=value.first.data.numpy(), replaced=True)
        # A program that begins with something else mostly takes zeros for it; whether this one does is seen at the end.
        return Assumed(place, start=np.zeros(becomes.static_shape, becomes.dtype.numpy), replaced=True)

    def finish(self, model: Model, inputs: Sequence[Value]) -> bool:
        """Makes the states that the program really has inputs and outputs of the model.

        Returns:
            False if the first run finds something else than later ones, and gives something else: what that is has
            become a state, and the program must be run again.
        """
        memory, t = self._memory, self._translator
        if any(a.replaced for a in memory.assumed.values()):
            flags = {p: a for p, a in memory.assumed.items() if a.replaced and type(a.constant) in _DTYPES
                     and type(a.constant) is type(self._initial(p))}  # fmt: skip
            try:
                self._compare(model.graph, inputs)
            except UnsupportedError:
                if not flags:
                    raise
                memory.assumed.update({p: self._counter(p, a, _DTYPES[type(a.constant)]) for p, a in flags.items()})
                return False
        after = {place: param if (end := self._ends.get(place)) is None else t.value(end) if isinstance(end, Tensor)
                 else scalar(t.builder, end) for place, param in self._states.items()}  # fmt: skip
        # What is asked for: by a node, by an output, or because it is what another one becomes.
        kept = [p for p, param in self._states.items() if param.uses or param in model.graph.outputs]
        for place in kept:
            kept += [p for p, param in self._states.items() if param is after[place] and p not in kept]
        for place, param in self._states.items():
            name, start = memory.assumed[place].name, memory.assumed[place].start
            assert start is not None
            if place not in kept or after[place] is param:
                # It stays what it is, or its old value is unused.
                constant = Value.constant(start, name)
                param.replace_all_uses(constant)
                model.graph.outputs = [constant if v is param else v for v in model.graph.outputs]
                after = {p: constant if v is param else v for p, v in after.items()}
                model.graph.params = [p for p in model.graph.params if p is not param]
                continue
            view = View(model.graph, {name: after[place]}, {name: param})
            model.graph.outputs = [*model.graph.outputs, keep(model, view, name, start)]
        return True

    def _compare(self, graph: Graph, inputs: Sequence[Value]) -> None:
        """Raises UnsupportedError unless the first run gives what it gives with all things as in the file."""
        first = self._memory.first
        rng = np.random.default_rng(0)
        if first is None or not all(v.type.is_static for v in inputs):
            raise UnsupportedError("the first run of the program differs from later ones, which is not supported",
                                   hint="fix the input shapes with `--input NAME=1x3x...`")  # fmt: skip
        given = {v.name: rng.random(v.type.static_shape).astype(v.type.dtype.numpy) for v in inputs}
        starts = {param: np.asarray(self._memory.assumed[place].start) for place, param in self._states.items()}
        try:
            got = evaluate(graph, [given[v.name] if v not in starts else starts[v] for v in graph.params])
            want = evaluate(first, [given[v.name] for v in first.params])
        except (MinnowError, ValueError, IndexError) as e:
            raise UnsupportedError(
                "the first run of the program differs from later ones, which is not supported", why=str(e)[:200]
            ) from e
        if not all(np.allclose(a, b, 1e-4, 1e-5, equal_nan=True) for a, b in zip(got, want, strict=False)):
            raise UnsupportedError(
                "the first run of the program gives other results than later runs would from the same state"
            )


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
