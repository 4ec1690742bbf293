"""If, Case and While, whose branches and bodies are functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minnow.converter.base import Unsupported
from minnow.converter.control_flow.capture import merge_captures
from minnow.converter.control_flow.loop import settle
from minnow.converter.control_flow.variable import View
from minnow.converter.tensorflow.frontend import frontend as tf
from minnow.converter.tensorflow.symbolic import tensor_list as lists
from minnow.converter.tensorflow.symbolic.body import Body, Operation, Port
from minnow.converter.tensorflow.symbolic.counted import Counters, accumulate, number_of
from minnow.converter.tensorflow.symbolic.handle import Handle
from minnow.converter.tensorflow.symbolic.tensor_list import Reserved, Write
from minnow.converter.tensorflow.symbolic.translator import MissingError, Part
from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import DType, Graph, TensorType, Value
from minnow.schema.ops import Builder

_MOST_ROUNDS = 20_000
"""A body is translated more than once, those within it as often more: a few dozen loops in each other never end."""


def _inside(x: Any) -> Any:
    """What a function knows of an operand: a constant or a handle itself, of others the type."""
    return x if isinstance(x, Handle) or x.data is not None else x.type


def _is_computed(x: Any) -> bool:
    return isinstance(x, Value) and x.data is None


def _as_bool(b: Builder, x: Value) -> Value:
    """Whether TensorFlow takes a tensor for true: a number that is not 0, or several of any kind."""
    if x.type.shape not in ((), None):
        return b.Greater(b.Size(x), np.array(0, np.int64))
    x = x if x.type.dtype is DType.BOOL else b.Cast(x, to=DType.BOOL)
    return x if x.type.shape == () else b.Reshape(x, np.zeros(0, np.int64))


def _known_condition(x: Value) -> bool | None:
    if x.data is None:
        return None
    numbers = x.data.numpy()
    return bool(numbers.size) if numbers.ndim else bool(numbers)


# ---- branches


@tf.op("If", "StatelessIf", handles=True, complex=True, effect=True)
def _(b, cond, *xs, then_branch, else_branch, output_shapes=(), node):
    context = node.context
    known = _known_condition(cond)
    if known is not None:
        # A constant condition leaves one branch, which moves into the graph around it.
        return context.inline(then_branch if known else else_branch, xs, {}, node.name)
    parts = _parts(node, (then_branch, else_branch), xs)
    graphs = [p.graph for p in parts]
    if len(parts[0].results) != len(parts[1].results):
        raise ModelError(
            f"the branches have different numbers of results: {len(parts[0].results)} and {len(parts[1].results)}"
        )
    passed: dict[int, Any] = {}
    outputs: list[list[Value]] = [[], []]
    for i, pair in enumerate(zip(*(p.results for p in parts), strict=True)):
        if all(isinstance(v, Handle) for v in pair):
            passed[i] = _one_handle(*pair)
            continue
        values = [v if isinstance(v, Value) else _filled(g, v, other)
                  for g, v, other in zip(graphs, pair, reversed(pair), strict=True)]  # fmt: skip
        if values[0].type.dtype is not values[1].type.dtype:
            raise ModelError(
                f"the branches give different element types: {values[0].type.dtype} and {values[1].type.dtype}"
            )
        for mine, value in zip(outputs, values, strict=True):
            mine.append(value)
    # Variables come in behind everything else, and those that either branch changes go out.
    states = [p.graph.params[len(p.graph.params) - len(p.view.params) :] for p in parts]
    for part, params in zip(parts, states, strict=True):
        part.graph.params = part.graph.params[: len(part.graph.params) - len(params)]
    captured = merge_captures([(p.graph, p.captured, sum(map(_is_computed, xs))) for p in parts])
    read = list(dict.fromkeys(k for p in parts for k in (*p.view.params, *p.view.assigned)))
    assigned = list(dict.fromkeys(k for p in parts for k in p.view.assigned))
    before = {k: context.memory.read(k) for k in read}
    for part, mine in zip(parts, outputs, strict=True):
        incoming = [part.view.params.get(k) or Value(before[k].type, k) for k in read]
        part.graph.params = [*part.graph.params, *incoming]
        now = dict(zip(read, incoming, strict=True))
        part.graph.outputs = [*mine, *(part.view.values.get(k) or now[k] for k in assigned)]
    graphs[0].name, graphs[1].name = f"{node.name}/then", f"{node.name}/else"
    made: Sequence[Value] = ()
    n = len(graphs[0].outputs)
    if n:
        operands = [*filter(_is_computed, xs), *captured, *before.values()]
        made = b.If(_as_bool(b, cond), *operands, then_branch=graphs[0], else_branch=graphs[1], n_outputs=n)
    for key, value in zip(assigned, made[n - len(assigned) :], strict=True):
        context.memory.assign(key, value)
    results = iter(made)
    return tuple(passed[i] if i in passed else next(results) for i in range(len(parts[0].results)))


def _parts(node: Any, functions: Sequence[Any], xs: Sequence[Any]) -> list[Part]:
    """Both branches. One may be invalid for the shapes known now: an error only if it is taken."""
    made: list[Any] = []
    for function in functions:
        try:
            made.append(node.context.subgraph(function, [_inside(x) for x in xs]))
        except ModelError as e:
            made.append(e)
    errors = [m for m in made if isinstance(m, ModelError)]
    if not errors:
        return made
    valid = [m for m in made if not isinstance(m, ModelError)]
    if not valid or any(not isinstance(v, Value) or v.type.holds_tensors for v in valid[0].results):
        raise errors[0]
    return [_failing(m, valid[0].results, xs) if isinstance(m, ModelError) else m for m in made]


def _failing(error: ModelError, outputs: Sequence[Any], xs: Sequence[Any]) -> Part:
    """A branch that fails with the error that its translation had."""
    graph = Graph()
    for x in filter(_is_computed, xs):
        graph.add_param(x.type, x.name)
    message = f"this branch is invalid: {' '.join(str(error).split())}"
    b = Builder(graph, origin=error.where)
    return Part(graph, [b.Fail(message=message, to=v.type.dtype) for v in outputs], [], View(graph))


def _filled(graph: Graph, reserved: Any, other: Any) -> Value:
    """A list that one branch has stored nothing in, as the other branch gives it."""
    if not isinstance(reserved, Reserved) or not isinstance(other, Value):
        raise UnsupportedError("a branch that gives a tensor where the other gives a resource is not supported")
    if reserved.size.data is None:
        raise UnsupportedError("a tensor list of computed size that a branch leaves empty is not supported")
    return lists.filled(Builder(graph), reserved, lists.element_type(other))


def _one_handle(a: Handle, b: Handle) -> Handle:
    if a is b or a == b:
        return a
    raise UnsupportedError(f"a branch that chooses between two resources ({a.kind}) is not supported")


@tf.op("Case", "StatelessCase", handles=True, complex=True, effect=True)
def _(b, index, *xs, branches, output_shapes=(), node):
    context = node.context
    bodies = [context.library.body(f, {}) for f in branches]
    if not bodies:
        raise ModelError("Case has no branches")
    if index.data is not None:
        i = int(index.data.numpy())
        return context.inline(bodies[i if 0 <= i < len(bodies) else -1], xs, {}, node.name)
    arguments = [f"x{i}" for i in range(len(xs))]

    def chosen(i: int) -> Body:
        """The i-th branch, or one behind it; the last one is for all other numbers."""
        call = Operation("call", "PartitionedCall", [Port(a) for a in arguments], [], {"f": bodies[i]})
        results = [Port("call", k) for k in range(len(bodies[i].results))]
        body = Body(f"{node.name}/{i}", ["index", *arguments], {"call": call}, results)
        if i == len(bodies) - 1:
            return body
        number = Operation("number", "Const", [], [], {"value": Value.constant(np.array(i, index.type.dtype.numpy))})
        equal = Operation("equal", "Equal", [Port("index"), Port("number")])
        inputs = [Port("equal"), Port("index"), *(Port(a) for a in arguments)]
        attrs = {"then_branch": body, "else_branch": chosen(i + 1)}
        choice = Operation("call", "If", inputs, [], attrs)
        operations = {"number": number, "equal": equal, "call": choice}
        return Body(f"{node.name}/from {i}", ["index", *arguments], operations, results)

    return context.inline(chosen(0), [index, *xs], {}, node.name)


# ---- loops


@tf.op("While", "StatelessWhile", handles=True, complex=True, effect=True)
def _(b, *xs, cond, body, output_shapes=(), parallel_iterations=10, node):
    made = _Loop(b, node, xs, cond, body)
    return made.results()


class _Loop:
    """A loop while it is made. What its body passes on unchanged is not carried, so that it stays known inside."""

    def __init__(self, b: Builder, node: Any, xs: Sequence[Any], cond: Any, body: Any) -> None:
        self.b = b
        self.name = node.name
        self.context = node.context
        self.cond = self.context.library.body(cond, {})
        self.body = self.context.library.body(body, {})
        n = len(xs)
        if not n == len(self.body.arguments) == len(self.body.results) == len(self.cond.arguments):
            raise ModelError(f"While has {n} operands, but its body takes {len(self.body.arguments)}")
        self.xs = list(xs)
        self.first: dict[int, Reserved] = {}
        self.fixed = [
            (isinstance(x, Handle) and not isinstance(x, Reserved)) or _source(self.body, result) == Port(argument)
            for x, argument, result in zip(xs, self.body.arguments, self.body.results, strict=True)
        ]  # fmt: skip

    def results(self) -> tuple[Any, ...]:
        reserved = {i: x for i, x in enumerate(self.xs) if isinstance(x, Reserved) and not self.fixed[i]}
        if reserved:
            self._fill(reserved)
        moving = [i for i, fixed in enumerate(self.fixed) if not fixed]

        def translate(types: list[TensorType]) -> tuple[Part, list[TensorType]]:
            part = self._round(types)
            return part, [v.type for v in part.graph.outputs[1:]]

        part, _ = settle([self.xs[i].type for i in moving], translate)
        graph, memory = part.graph, self.context.memory
        graph.name = f"{self.name}/body"
        assigned = list(part.view.assigned)
        before = {k: memory.read(k) for k in (*assigned, *part.view.params)}
        read = [k for k in part.view.params if k not in assigned]
        own = [p for p in graph.params if p not in part.view.params.values()]
        states = [part.view.params.get(k) or Value(before[k].type, k) for k in assigned]
        split = 2 + len(moving)
        graph.params = [*own[:split], *states, *own[split:], *(part.view.params[k] for k in read)]
        graph.outputs = [*graph.outputs, *(part.view.values[k] for k in assigned)]
        operands = [*(self.xs[i] for i in moving), *(before[k] for k in assigned)]
        rest = [x for x, fixed in zip(self.xs, self.fixed, strict=True) if fixed and _is_computed(x)]
        rest += [*part.captured, *(before[k] for k in read)]
        b = Builder(self.b.graph, origin=self.b.origin)
        (first,) = self.context.inline(self.cond, self.xs, {}, f"{self.name}/cond")
        counters = Counters(b, graph, operands, rest)
        trips = counters.trips()
        stacked = accumulate(graph, counters, self.context.writes)
        flag: Value | None = _as_bool(b, first)
        if trips is not None:
            graph.outputs = [b.const(np.array(True)), *graph.outputs[1:]]
            flag = None
        carried = [v for i, v in enumerate(operands) if i not in stacked]
        _clear(graph)
        made = b.Loop(trips, flag, *carried, *rest, body=graph, num_carried=len(carried), n_outputs=len(operands))
        self.b.made += b.made
        last, rows = iter(made[: len(carried)]), iter(made[len(carried) :])
        out: list[Any] = list(self.xs)
        for k, i in enumerate(moving):
            out[i] = self._whole(b, next(rows), self.xs[i], i, stacked[k], trips) if k in stacked else next(last)
        for key, value in zip(assigned, last, strict=True):
            memory.assign(key, value)
        return tuple(out)

    def _round(self, types: Sequence[Any]) -> Part:
        """One round, whose graph gives whether to go on, and the carried values, unless some are handles."""
        self.context.rounds += 1
        if self.context.rounds > _MOST_ROUNDS:
            raise UnsupportedError("the loops are nested too deeply", where=self.b.origin)
        around = iter(types)
        given = [_inside(x) if fixed else next(around) for x, fixed in zip(self.xs, self.fixed, strict=True)]
        # Parameters in the order of a Loop: the carried values first.
        order = [*(i for i, f in enumerate(self.fixed) if not f), *(i for i, f in enumerate(self.fixed) if f)]
        names = [f"value {i}" for i in range(len(given))]
        moved = {i: Port("body", i) for i in range(len(given))}
        after = [Port(names[i]) if self.fixed[i] else moved[i] for i in range(len(given))]
        operations = {
            "body": Operation("body", "PartitionedCall", [Port(n) for n in names], [], {"f": self.body}),
            "cond": Operation("cond", "PartitionedCall", after, ["body"], {"f": self.cond}),
        }
        results = [Port("cond"), *(p for p, f in zip(after, self.fixed, strict=True) if not f)]
        arguments = ["iteration", "flag", *(names[i] for i in order)]
        whole = Body(self.name, arguments, operations, results, ["body"])
        head = [TensorType(DType.I64, ()), TensorType(DType.BOOL, ())]
        part: Part = self.context.subgraph(whole, [*head, *(given[i] for i in order)])
        values = [v for v in part.results if isinstance(v, Value)]
        if len(values) == len(part.results):
            part.graph.outputs = [_as_bool(Builder(part.graph, origin=self.b.origin), values[0]), *values[1:]]
        elif not any(isinstance(t, Handle) for t in types):
            raise UnsupportedError("a loop whose carried tensor becomes a resource is not supported")
        return part

    def _fill(self, reserved: dict[int, Reserved]) -> None:
        """Makes tensors of lists without content, whose elements one round, made for that, shows."""
        context, saved = self.context, self.context.unsupported
        context.unsupported = Unsupported()
        moving = [i for i, fixed in enumerate(self.fixed) if not fixed]
        after: list[Any] = []
        try:
            after = self._round([self.xs[i] if i in reserved else self.xs[i].type for i in moving]).results
        except (MissingError, UnsupportedError):
            pass  # an element is read before one is stored: what is known of it must do
        finally:
            context.unsupported = saved
        shown = dict(zip(moving, after[1:], strict=False))
        for i, list_ in reserved.items():
            if shown.get(i) is list_:
                self.fixed[i] = True
            else:
                self.first[i] = list_
                self.xs[i] = lists.filled(self.b, list_, lists.element_type(shown.get(i, list_)))

    def _whole(self, b: Builder, rows: Value, before: Value, i: int, write: Write, trips: Value | None) -> Any:
        """A list of the rows that the loop has stacked, and of those of the list before that it has not replaced."""
        reserved = self.first.get(i)
        count, made = ((v.type.shape or (None,))[0] for v in (before, rows))
        if count == 0 or (reserved is not None and _same(reserved.size, trips)):
            return rows
        if write.index is None:
            return b.Concat(before, rows, axis=0)
        if isinstance(count, int) and count == made:
            return rows
        done = b.Shape(rows, start=0, end=1)
        if reserved is None:
            return b.Concat(rows, b.Slice(before, done, b.Shape(before, start=0, end=1), [0]), axis=0)
        # Where elements have dynamic shapes, only the rows have them.
        longer = b.Max(b.Sub(b.Shape(before, start=0, end=1), done), np.zeros(1, np.int64))
        pads = np.zeros(2 * (rows.type.rank or 1), np.int64)
        return b.Pad(rows, b.Concat(pads[:1], longer, pads[2:], axis=0))


def _clear(graph: Graph) -> None:
    """Drops unused nodes."""
    for node in reversed(graph):
        if not any(v.uses for v in node.outputs):
            graph.erase(node)


def _same(a: Value, b: Value | None) -> bool:
    """Whether two counts are known to be equal."""
    if b is None or a.data is None or b.data is None:
        return b is not None and number_of(a) is number_of(b)
    return bool(a.data.numpy() == b.data.numpy())


def _source(body: Body, port: Port) -> Port:
    """What a result is a copy of."""
    for _ in range(len(body.operations)):
        operation = body.operations.get(port.node)
        if operation is None or operation.op != "Identity" or not operation.inputs:
            break
        port = operation.inputs[0]
    return port


# ---- what TensorFlow 1 builds both of


@tf.op("Switch", "RefSwitch", outputs=("output_false", "output_true"), handles=True, complex=True)
@tf.op("Merge", "RefMerge", outputs=("output", "value_index"), handles=True, complex=True)
@tf.op("_SwitchN", "Enter", "RefEnter", "Exit", "RefExit", "NextIteration", "RefNextIteration", "LoopCond",
       handles=True, complex=True)  # fmt: skip
def _(b, *xs, frame_name="", is_constant=False, parallel_iterations=10, num_outs=0, node):
    # `structure` puts If, Case and While in the place of them, before anything is translated.
    raise ModelError(f"{node.op} is not part of a branch or a loop")
