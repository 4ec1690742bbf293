"""Translates a program node by node: runs it, with tensors that are values of the graph.

What is known when the model is converted (sizes, types, numbers, lists, attributes of modules) is computed here, so
that branches and loops that depend on nothing else leave no trace. Mappings of control flow reach it as `b`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from minnow.converter.base import Call, Mapping_, Unsupported
from minnow.converter.torch.frontend import frontend
from minnow.converter.torch.program.program import Block, Node, Object, Ref, Stored
from minnow.converter.torch.symbolic.tensor import COMPLEX_HINT, Cell, Journal, Tensor, in_order
from minnow.converter.torch.symbolic.thing import (
    MISSING,
    UNSET,
    containers,
    flat,
    is_missing,
    mapped,
    reasons,
    tensors_in,
    values_in,
    wrapped,
)
from minnow.schema.errors import MinnowError, ModelError, UnsupportedError
from minnow.schema.ir import Graph, LazyBlob, TensorType, Value
from minnow.schema.ir.type import merge, same_dim
from minnow.schema.ops import Builder
from minnow.schema.registry.folding import fold

_MOST_NODES = 400_000
"""The most nodes that are translated of a program; each iteration of an unrolled loop counts."""


class Translator:
    """Runs a program symbolically.

    Attributes:
        builder: makes the nodes of the graph at hand.
        unsupported: collects what is unsupported.
        scope: what the names of the program are.
        assigned: what attributes have been set to, by their paths, in order.
        notices: what the user should know.
    """

    def __init__(self, where: str, unsupported: Unsupported) -> None:
        self.where = where
        self.unsupported = unsupported
        self.builder = Builder(Graph("main"))
        self.scope: dict[str, Any] = {}
        self._stored: dict[str, Tensor] = {}
        self.assigned: dict[str, list[Any]] = {}
        self._nodes = 0
        self.notices: list[str] = []
        self._call: Call | None = None

    # ---- blocks

    def run(self, block: Block, given: Mapping[str, Any]) -> list[Any]:
        """Translates the nodes of a block into the graph at hand; gives its results as the program has them."""
        self.scope.update(given)
        for node in block.nodes:
            self._node(node)
        return [self.resolve(r) for r in block.results]

    def call(self, block: Block, given: Mapping[str, Any]) -> list[Any]:
        """Translates a block whose names are its own."""
        outer, self.scope = self.scope, {}
        try:
            return self.run(block, given)
        finally:
            self.scope = outer

    @contextmanager
    def inside(self, graph: Graph) -> Iterator[Journal]:
        """Translates into another graph meanwhile; what it changes of tensors outside is in the journal."""
        outer, scope = self.builder, dict(self.scope)
        self.builder = Builder(graph, origin=outer.origin)
        journal = Journal({id(x) for x in containers(self.scope.values())})
        try:
            with journal:
                yield journal
        finally:
            self.builder, self.scope = outer, scope

    def settle(self) -> None:
        """Computes all pending changes in the graph at hand: an inner graph may read, but not make them."""
        for x in tensors_in(self.scope.values()):
            if not x.lost:
                x.pair(self.builder)

    # ---- what names are

    def resolve(self, x: Any) -> Any:
        """A constant, the thing that a `Ref` names, or a list or dict of these."""
        if isinstance(x, Ref):
            if x.name not in self.scope:
                raise ModelError(f"'{x.name}' is read before it is computed", where=self.where)
            return self.materialize(self.scope[x.name])
        if isinstance(x, list):
            return [self.resolve(v) for v in x]
        if isinstance(x, tuple):
            return tuple(self.resolve(v) for v in x)
        if isinstance(x, dict):
            return {k: self.resolve(v) for k, v in x.items()}
        return self.materialize(x)

    def materialize(self, x: Any) -> Any:
        """A tensor of the file as a constant of the graph; two that share memory are one. So in lists and tuples."""
        if isinstance(x, list):
            x[:] = map(self.materialize, x)
            return x
        if type(x) is tuple:
            return tuple(map(self.materialize, x))
        if not isinstance(x, Stored):
            return x
        if x.key not in self._stored:
            self._stored[x.key] = constant_of(x)
            self._stored[x.key].serial = 0  # it has always been there, whichever block reads it first
        return self._stored[x.key]

    def value(self, x: Any) -> Any:
        """What a mapping gets for it: the Value of a tensor; lists element by element."""
        if isinstance(x, Tensor):
            if x.quant is not None:
                raise UnsupportedError("the operator is not supported for quantized tensors")
            return x.value(self.builder)
        if isinstance(x, list):
            return [self.value(v) for v in x]
        if isinstance(x, tuple):
            return tuple(self.value(v) for v in x)
        return x

    def set_attribute(self, to: Any, name: str, value: Any) -> None:
        """Sets an attribute of an object of the program."""
        if not isinstance(to, Object):
            raise ModelError(f"the attribute '{name}' is set on something that is not an object")
        if isinstance(value, Tensor) and self.materialize(to.attrs.get(name)) is value:
            return  # it has been changed in place
        path = None if to.path is None else f"{to.path}.{name}" if to.path else name
        if Journal.current is not None:
            Journal.current.hold(self._attribute(to, name, path))
        if isinstance(value, Tensor):
            value.first = value.value(self.builder)
        to.attrs[name] = value
        if path is not None:
            self.assigned[path] = [*self.assigned.get(path, ()), value]

    def _attribute(self, of: Object, name: str, path: str | None) -> Cell:
        assigned = self.assigned.get(path or "")

        def restore(content: Any) -> None:
            of.attrs[name] = content
            if path is not None and assigned is None:
                self.assigned.pop(path, None)
            elif path is not None and assigned is not None:
                self.assigned[path] = assigned

        def write(content: Any) -> None:
            self.set_attribute(of, name, content)

        return Cell(
            id(of), name, f"the attribute '{name}'", lambda: self.materialize(of.attrs.get(name, UNSET)), write, restore
        )

    def place(self, key: str, tensor: Tensor) -> None:
        """Sets the value of a tensor of the file."""
        self._stored[key] = tensor

    def changed(self) -> dict[str, Tensor]:
        """The tensors of the file that the program has changed in place, by their keys."""
        return {key: tensor for key, tensor in self._stored.items() if tensor.is_changed}

    # ---- nodes

    def _node(self, node: Node) -> None:
        self._nodes += 1
        if self._nodes > _MOST_NODES:
            raise UnsupportedError("running the program symbolically takes too many steps", where=self.where)
        found = frontend.resolve(node.target)
        in_place = None if found else frontend.resolve_in_place(node.target)
        name, mapping = found or in_place or ("", None)
        call = Call(node.target, node.outputs[0] if node.outputs else "", node.origin, 1, len(node.outputs),
                    [str(o) for o in node.outputs], self)  # fmt: skip
        call.context, call.node = self, node  # type: ignore[attr-defined]
        try:
            args = [self.resolve(a) for a in node.args]
            kwargs = {k: self.resolve(v) for k, v in node.kwargs.items()}
            if is_missing([*args, *kwargs.values()]) and name not in ("prim::ListConstruct", "prim::TupleConstruct"):
                for why in reasons([*args, *kwargs.values()]):
                    self.unsupported.add_error(UnsupportedError(why), node.origin)
                self._pass_over(node, mapping)
                return
            if mapping is None:
                raise _unknown(node.target)
            if name in frontend.on_numbers and not any(isinstance(a, Tensor) for a in args):
                name, mapping = frontend.resolve(f"{name}.int") or (name, mapping)
            outer, self.builder.origin = self.builder.origin, node.origin
            previous, self._call = self._call, call
            try:
                result = self._translate(call, name, mapping, args, kwargs, bool(in_place))
            finally:
                self.builder.origin, self._call = outer, previous
            self._bind(node, result)
        except UnsupportedError as e:
            self.unsupported.add_error(e, e.where or node.origin)
            self._missing(node)

    def _pass_over(self, node: Node, mapping: Mapping_ | None) -> None:
        """Skips what depends on an unsupported node; other operators without a mapping are reported, too."""
        if mapping is None:
            error = _unknown(node.target)
            self.unsupported.add_error(error, node.origin)
        for block in node.blocks:
            for inner in block.all_nodes():
                if not (frontend.resolve(inner.target) or frontend.resolve_in_place(inner.target)):
                    self.unsupported.add_error(_unknown(inner.target), inner.origin)
        self._missing(node)

    def _missing(self, node: Node) -> None:
        for output in flat(node.outputs):
            self.scope[output] = MISSING

    def _bind(self, node: Node, result: Any) -> None:
        outputs = node.outputs
        several = isinstance(result, (tuple, list)) and (len(outputs) != 1 or bool(node.blocks))
        results = tuple(result) if several else (result,)
        if len(results) < len(outputs):
            raise ModelError(
                f"{node.target} gives {len(results)} results, but {len(outputs)} are used", where=node.origin
            )
        for output, made in zip(outputs, results, strict=False):
            if isinstance(output, str):
                self._name(output, made, node.declared.get(output))
            else:
                if not isinstance(made, (list, tuple)) or len(made) != len(output):
                    raise ModelError(f"{node.target} does not give a list of {len(output)}", where=node.origin)
                for inner, part in zip(output, made, strict=True):
                    self._name(inner, part, node.declared.get(inner))

    def _name(self, output: str, made: Any, declared: TensorType | None) -> None:
        if isinstance(made, Tensor):
            value = made._value
            value.name = value.name or output
            # The ranks that PyTorch notes down are wrong in places (`unique_consecutive` along an axis).
            if (
                declared is not None
                and value.data is None
                and value.type.rank in (None, declared.rank)
                and (declared.dtype is value.type.dtype)
            ):
                value.type = value.type.with_shape(merge(value.type.shape, declared.shape))
        self.scope[output] = made

    def _translate(
        self, call: Call, name: str, mapping: Mapping_, args: list[Any], kwargs: dict[str, Any], in_place: bool
    ) -> Any:
        arguments = self._bound(call, mapping, args, kwargs)
        if not name.endswith("Construct") and any(x.is_complex for x in arguments.values() if isinstance(x, Tensor)):
            known = frontend.complex
            function = None if in_place else known.get(name) or known.get(name.partition(".")[0])
            if function is None:
                raise UnsupportedError(f"{call.op} of complex numbers is not supported", hint=COMPLEX_HINT)
            return function(self, **arguments)
        if name in frontend.plain:
            return self._run(call, mapping, self, arguments)
        if any(x.quant is not None for x in tensors_in(arguments.values())):
            from minnow.converter.torch.ops.quantized.tensor import on_quantized

            def run(plain: dict[str, Any]) -> Any:
                return self._on_tensors(call, name, mapping, plain, False)

            result = on_quantized(self, name.partition(".")[0], arguments, run)
            to = next(iter(arguments.values()), None)
            if in_place and isinstance(to, Tensor) and isinstance(result, Tensor):
                to.assign(result.value(self.builder))
                return to
            return result
        return self._on_tensors(call, name, mapping, arguments, in_place)

    def _on_tensors(self, call: Call, name: str, mapping: Mapping_, arguments: dict[str, Any], in_place: bool) -> Any:
        values = {k: self.value(v) if not isinstance(v, list) else self.value(list(v)) for k, v in arguments.items()}
        first = next(iter(arguments.values()), None)
        result = wrapped(self.folded(lambda: self._run(call, mapping, self.builder, values)))
        if in_place and name in frontend.views and isinstance(first, Tensor):
            return self._seen_as(first, self._viewed(call, name, mapping, first, values, result))
        if in_place or (name.endswith("_") and not name.endswith("__") and isinstance(first, Tensor)):
            return self.write(first, result[0] if isinstance(result, tuple) else result)
        if name in frontend.views and isinstance(first, Tensor):
            return self._viewed(call, name, mapping, first, values, result)
        if not all(x.ordered for x in tensors_in(arguments.values())):
            for x in tensors_in([result]):
                x.ordered = False
        return result

    def _seen_as(self, old: Tensor, new: Tensor) -> Tensor:
        """Lets a name stand for another view of its memory: `x.t_()` changes how a tensor is seen, and no element."""
        held = [x for x in self.scope.values() if not isinstance(x, Tensor)]
        if Journal.current is not None or any(x is old for x in tensors_in([*held, *self._stored.values()])):
            raise UnsupportedError("an in-place change of a shape is not supported where the tensor is used elsewhere",
                                   hint="write `x = x.t()` instead of `x.t_()`, for example")  # fmt: skip
        self.scope.update({name: new for name, x in self.scope.items() if x is old})
        return new

    def folded(self, make: Any) -> Any:
        """Runs `make`; what it computed of small constants becomes a constant."""
        builder = self.builder
        builder.made = []
        result = make()
        values = list(values_in(result))
        known = dict(zip(values, fold(builder.graph, builder.made, values), strict=True))
        return mapped(result, known)

    def write(self, to: Any, new: Any) -> Tensor:
        """Changes a tensor in place: the result takes its type and shape."""
        if not isinstance(to, Tensor) or not isinstance(new, Tensor):
            raise UnsupportedError("an in-place change of something that is not a tensor is not supported")
        b = self.builder
        old = to.value(b)
        value = new.value(b)
        to.assign(fitted(b, value, old))
        return to

    def _viewed(
        self, call: Call, name: str, mapping: Mapping_, base: Tensor, values: Mapping[str, Any], result: Any
    ) -> Any:
        """The results as views of the first operand. They are recomputed from it once it has changed."""
        rest = list(values.items())[1:]
        first = next(iter(values))
        write = frontend.views[name]
        if name in frontend.copying and not base.ordered:
            shared = base.fits(result.type.shape) if result.type.is_static else None
            if not shared:
                if shared is None:
                    base.apart(result)
                return result

        def reader(pick: int | None) -> Any:
            def read(b: Builder, x: Value) -> Value:
                made = self._run(call, mapping, b, {first: x, **dict(rest)})
                got: Value = made if pick is None else made[pick]
                return got

            return read

        def writer(pick: int | None) -> Any:
            if write is None:
                return None
            if pick is None:
                return write if write is in_order else lambda b, old, new: write(b, old, new, **dict(rest))
            return lambda b, old, new: write(b, old, new, **dict(rest), pick=pick)

        if isinstance(result, Tensor):
            return self._view(result, base, reader(None), writer(None))
        return type(result)(self._view(r, base, reader(i), writer(i)) for i, r in enumerate(result))

    def _view(self, made: Tensor, base: Tensor, read: Any, write: Any) -> Tensor:
        view = Tensor(made.value(self.builder), base, read, write)
        view.quant = base.quant
        return view

    def _bound(self, call: Call, mapping: Mapping_, args: list[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments by the names of the mapping's parameters."""
        names = [*mapping.parameters, *mapping.attrs]
        if mapping.variadic:
            return {**{str(i): a for i, a in enumerate(args)}, **kwargs}
        if len(args) > len(names):
            raise UnsupportedError(f"{call.op} has {len(args)} arguments, of which {len(names)} are supported")
        bound = dict(zip(names, args, strict=False))
        if unknown := sorted(set(kwargs) - set(names)):
            if kwargs[unknown[0]] is not None:
                raise UnsupportedError(f"the argument '{unknown[0]}' of {call.op} is not supported")
            kwargs = {k: v for k, v in kwargs.items() if k in names}
        return {**bound, **kwargs}

    def _run(self, call: Call, mapping: Mapping_, b: Any, arguments: Mapping[str, Any]) -> Any:
        try:
            named = dict(arguments)
            if mapping.wants_node:
                named["node"] = call
            if mapping.variadic:
                positional = [v for k, v in named.items() if k.isdigit()]
                return mapping.function(b, *positional, **{k: v for k, v in named.items() if not k.isdigit()})
            return mapping.function(b, **named)
        except MinnowError as e:
            e.where = e.where or call.origin
            raise
        except (ValueError, TypeError, IndexError, KeyError, AttributeError, ArithmeticError) as e:
            raise ModelError(f"{call.op} is invalid", where=call.origin, why=f"{type(e).__name__}: {e}") from e


def _unknown(target: str) -> UnsupportedError:
    known = frontend.refusal(target, 1) or frontend.refusal(target.partition(".")[0], 1)
    return UnsupportedError(f"{target}: {known.why if known else 'the operator is not supported'}",
                            hint=known.hint if known else "")  # fmt: skip


def constant_of(x: Stored) -> Tensor:
    """A tensor of the file as a constant, whose numbers are loaded when they are asked for."""
    blob = LazyBlob(x.load, x.type.dtype, x.type.static_shape)
    tensor = Tensor(Value.constant(blob, x.name or x.key))
    if x.quantized:
        from minnow.converter.torch.ops.quantized.tensor import stored

        tensor.quant = stored(x.scale, x.zero, x.axis, x.type.dtype)
    return tensor


def fitted(b: Builder, new: Value, old: Value) -> Value:
    """A result as what it is written to: cast, and broadcast where it is smaller."""
    if new.type.dtype is not old.type.dtype:
        new = b.Cast(new, to=old.type.dtype)
    own, wanted = new.type.shape, old.type.shape
    if own is not None and wanted is not None and len(own) == len(wanted) and all(map(same_dim, own, wanted)):
        return new
    if old.type.is_static:
        made: Value = b.Expand(new, np.array(old.type.shape, np.int64))
        return made
    made = b.Expand(new, b.Shape(old))
    return made
