"""Applies ops of the registry to Vars: at once, or as a node of a graph that is computed when it is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from minnow.expr.dtype import Array, NumpyType, promote, to_array
from minnow.expr.setting import SETTINGS
from minnow.schema.errors import MinnowError, UsageError
from minnow.schema.ir import DType, Graph, TensorType
from minnow.schema.ops import Trait, get
from minnow.schema.registry.op import BOOLS, FLOATS, NUMPY_REFUSALS, Arg, Op

if TYPE_CHECKING:
    from minnow.expr.var import Var

_F32 = np.dtype(np.float32)
_I32 = np.dtype(np.int32)
_BOOL = np.dtype(np.bool_)

SMALL = 64
"""Elements of a constant that is part of the structure of a graph: sizes, axes, factors."""


class Clock:
    """Counts operations, and what invalidates results: changes of graphs and shapes, new contents of placeholders."""

    structure = 0
    contents = 0
    operations = 0


class Operation:
    """One application of an op: a node of the graph behind lazy Vars.

    Attributes:
        op: in the registry.
        inputs: Vars, None for operands that are left out.
        attrs: all attributes, in canonical form.
        count: number of outputs.
        serial: a number that grows from operation to operation.
        results: the outputs as they were computed last, None before; `is_valid` tells whether they still hold.
    """

    __slots__ = (
        "_sources",
        "_types",
        "_valid_at",
        "attrs",
        "count",
        "inputs",
        "key",
        "op",
        "plan",
        "results",
        "serial",
    )

    def __init__(self, op: Op, inputs: tuple[Var | None, ...], bound: Bound, count: int) -> None:
        self.op = op
        self.inputs = inputs
        self.attrs, attributes = bound
        self.count = count
        Clock.operations += 1
        self.serial = Clock.operations
        self.key = (op.name, attributes, count)
        self.results: tuple[Array, ...] | None = None
        self.plan: Any = None
        self._valid_at = (-1, -1)
        self._sources: tuple[tuple[Var, int], ...] = ()
        self._types: tuple[int, tuple[TensorType, ...]] = (-1, ())

    # ---- types

    def types(self) -> tuple[TensorType, ...]:
        """Types of the outputs, as far as they are known before a run. Raises ModelError if the inputs do not fit."""
        now = Clock.structure
        if self._types[0] != now:
            if all(v is None or v._operation is None or v._operation._types[0] == now for v in self.inputs):
                self._types = now, _infer(self)
            else:
                for operation in ordered([self], lambda o: o._types[0] == now):
                    operation._types = now, _infer(operation)
        return self._types[1]

    # ---- results

    def is_valid(self) -> bool:
        """The results are there, and nothing that they were computed of has changed."""
        if self.results is None:
            return False
        now = (Clock.structure, Clock.contents)
        if self._valid_at == now:
            return True
        if self._valid_at[0] != now[0] or any(v._version != version for v, version in self._sources):
            return False
        self._valid_at = now
        return True

    def keep(self, results: Sequence[Array], sources: Sequence[Var]) -> None:
        """Keeps results that were computed of what `sources`, the leaves that may change, hold now."""
        self.results = tuple(results)
        self._sources = tuple((v, v._version) for v in sources)
        self._valid_at = (Clock.structure, Clock.contents)


def ordered(roots: Sequence[Operation], is_done: Any) -> list[Operation]:
    """The operations that the roots need, those first that others need; without those that are done."""
    order: list[Operation] = []
    seen: set[Operation] = set()
    stack: list[tuple[Operation, bool]] = [(root, False) for root in reversed(roots)]
    while stack:
        operation, is_left = stack.pop()
        if is_left:
            order.append(operation)
            continue
        if operation in seen or is_done(operation):
            continue
        seen.add(operation)
        stack.append((operation, True))
        behind = (v._operation for v in reversed(operation.inputs) if v is not None)
        stack += [(o, False) for o in behind if o is not None and o not in seen]
    return order


def attributes_key(attrs: Mapping[str, Any]) -> Any:
    """Hashable, and equal for equal attributes; a graph is equal to itself only."""
    return tuple((k, id(v) if isinstance(v, Graph) else v) for k, v in attrs.items())


_inferred: dict[Any, tuple[tuple[TensorType, ...], Any]] = {}
"""The types of results, and what the `id`s in the key are of."""


def _infer(operation: Operation) -> tuple[TensorType, ...]:
    """The types of the results, when those of the inputs are known; those of ops without graphs are kept."""
    types: list[TensorType | None] = []
    parts: list[Any] = []
    for var in operation.inputs:
        type, known = (None, None) if var is None else _known(var)
        types.append(type)
        parts.append(id(type) if known is None else (id(type), known.tobytes()))
    key = (operation.key, *parts)
    found = _inferred.get(key)
    if found is not None:
        return found[0]
    args = [None if v is None else Arg(*_known(v)) for v in operation.inputs]
    try:
        made = operation.op.infer_bound(args, operation.attrs, operation.count, operation.op.name)
    except NUMPY_REFUSALS as error:  # of contents that no shape can be made of, such as NaN
        raise UsageError(f"{operation.op.name} cannot be computed of these operands", why=str(error)) from error
    if Trait.CONTROL_FLOW not in operation.op.traits:
        if len(_inferred) > 4096:
            _inferred.clear()
        _inferred[key] = made, types
    return made


def _known(var: Var) -> tuple[TensorType, Array | None]:
    """What type inference may know of a Var: the contents of small constants, too."""
    array = var._constant()
    return var._type(), array if array is not None and array.size <= SMALL else None


Bound = tuple[dict[str, Any], Any]
"""All attributes of an op, and what is equal for equal attributes."""

_bound: dict[Any, Bound] = {}


def bind(op: Op, n: int, attrs: Mapping[str, Any]) -> Bound:
    """`Op.bind`, keeping what it has checked before."""
    try:
        key = (op.name, n, *attrs.items(), *map(type, attrs.values())) if attrs else (op.name, n)
        found = _bound.get(key)
    except TypeError:  # something that cannot be hashed
        return _checked(op, n, attrs)
    if found is None:
        if len(_bound) > 4096:
            _bound.clear()
        found = _bound[key] = _checked(op, n, attrs)
    return found


def _checked(op: Op, n: int, attrs: Mapping[str, Any]) -> Bound:
    bound = op.bind(n, attrs, op.name)
    return bound, attributes_key(bound)


def operands(op: Op, values: Sequence[Any]) -> list[Var | None]:
    """The operands as Vars of types that the op takes.

    Numbers of Python take the type of the first Var. Integers become floats where the op takes floats only; booleans
    become ints where it takes none, and numbers become booleans (whether they are not 0) where it takes only these.
    """
    from minnow.expr.var import Var

    if all(v is None or (isinstance(v, Var) and v._dtype() is _F32) for v in values):
        return list(values)
    like = next((v._dtype() for v in values if isinstance(v, Var)), None)
    made: list[Var | None] = []
    for i, value in enumerate(values):
        if value is None:
            made.append(None)
            continue
        if isinstance(value, Var):
            var = value
        elif like is not None and isinstance(value, (int, float)) and like != _BOOL:
            var = Var._of(to_array(value, like if isinstance(value, int) or like.kind == "f" else None))
        else:
            var = Var._of(to_array(value))
        made.append(fitting(var, op.operand(i).dtypes, op))
    return made


def fitting(var: Var, allowed: frozenset[DType], op: Op) -> Var:
    """The Var in a type of `allowed`."""
    have = var._dtype()
    if have == _F32 or DType.of(have) in allowed:
        return var
    if have == _BOOL:
        return fitting(var._cast(_I32), allowed, op)
    if allowed == BOOLS:
        return apply_one("NotEqual", var, _zero(have))
    if have.kind in "iu" and allowed <= FLOATS:
        return var._cast(_F32)
    return var  # inference refuses it


def _zero(of: NumpyType) -> Var:
    from minnow.expr.var import Var

    return Var._of(np.zeros((), of))


def apply(op_name: str, *values: Any, n_outputs: int | None = None, format: Any = None, **attrs: Any) -> Any:
    """Applies any op of the registry (docs/ops.md): the function that all others are made of.

    Args:
        op_name: its name there.
        values: operands: Vars, None for those that are left out, or what becomes a Var.
        n_outputs: number of outputs, for ops that do not say.
        format: data format of the results; by default that of the first Var.
        attrs: its attributes.

    Returns:
        A Var, or a tuple of them where the op has several results.

    Raises:
        ModelError: operands or attributes do not fit the op, or there is none of this name.
        UsageError: an operand is not a tensor.
    """
    from minnow.expr.var import Var

    op = get(op_name)
    inputs = operands(op, values)
    while inputs and inputs[-1] is None:
        inputs.pop()
    if format is None:
        format = next((v.data_format for v in inputs if v is not None), None)
    bound = bind(op, len(inputs), attrs)
    count = n_outputs or op.outputs or 1
    operation = Operation(op, tuple(inputs), bound, count)
    if not SETTINGS.lazy and all(v is None or v._is_known() for v in inputs):
        from minnow.expr.evaluation import compute_now

        made = tuple(Var._of(a, format) for a in compute_now(operation))
    else:
        operation.types()  # so that an error is raised here
        made = tuple(Var._result(operation, i, format) for i in range(count))
    return made[0] if n_outputs is None and op.outputs == 1 else made


def apply_one(op_name: str, *values: Any, format: Any = None, **attrs: Any) -> Var:
    """`apply` for an op that has one result."""
    made: Var = apply(op_name, *values, format=format, **attrs)
    return made


def reference(operation: Operation, arrays: Sequence[Array | None]) -> tuple[Array, ...]:
    """The results by the op's definition in numpy. Raises UsageError if that refuses the operands."""
    try:
        return operation.op.evaluate(arrays, operation.attrs)
    except MinnowError:
        raise
    except NUMPY_REFUSALS as error:
        shapes = ", ".join("none" if a is None else f"{a.dtype}{list(a.shape)}" for a in arrays)
        raise UsageError(f"{operation.op.name} cannot be computed of {shapes}", why=str(error)) from error


def common_type(a: Var, b: Var) -> tuple[Var, Var]:
    """Two operands in the type that they are computed in."""
    x, y = a._dtype(), b._dtype()
    if x == y and x != _BOOL:
        return a, b
    to = promote(x, y)
    return a._cast(to), b._cast(to)
