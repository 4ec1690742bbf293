"""Graphs: nodes in execution order, values with their uses. The def-use lists are the storage, not a side table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from minnow.schema.errors import InternalError
from minnow.schema.ir.blob import Array, ArrayBlob, Blob
from minnow.schema.ir.type import TensorType
from minnow.schema.limit import add_bytes, add_nodes

if TYPE_CHECKING:
    import networkx as nx

RET = "ret"
"""Op name of the terminator, whose inputs are the graph's outputs."""


_UNCOUNTED = 4096
"""Bytes of a constant that are no matter, however many nodes have one."""


class Value:
    """The result of a node, a graph parameter, or (with `data`) a constant.

    Attributes:
        name: name in the source model; need not be unique before emission.
        type: dtype, shape, layout.
        producer: the node that computes it; None for parameters and constants.
        index: position among the producer's outputs.
        uses: insertion-ordered set of (node, input position).
        data: the numbers of a constant.
    """

    __slots__ = ("data", "index", "name", "producer", "type", "uses")

    def __init__(self, type: TensorType, name: str = "", data: Blob | None = None) -> None:
        self.name = name
        self.type = type
        self.producer: Node | None = None
        self.index = 0
        self.uses: dict[tuple[Node, int], None] = {}
        self.data = data

    @staticmethod
    def constant(data: Blob | npt.ArrayLike, name: str = "") -> Value:
        """A constant from a blob or anything numpy understands."""
        blob = ArrayBlob(data) if isinstance(data, np.ndarray) or not isinstance(data, Blob) else data
        if isinstance(blob, ArrayBlob) and (size := blob.numpy().nbytes) > _UNCOUNTED:
            add_bytes(size, name)
        return Value(TensorType(blob.dtype, tuple(int(d) for d in blob.shape)), name, blob)

    @property
    def is_const(self) -> bool:
        return self.data is not None

    @property
    def array(self) -> Array | None:
        """The numbers of a constant, None for anything else."""
        return None if self.data is None else self.data.numpy()

    @property
    def users(self) -> list[Node]:
        """The nodes that read it, each once, in the order in which the uses were made."""
        return list(dict.fromkeys(node for node, _ in self.uses))

    @property
    def is_output(self) -> bool:
        """It is an output of its graph."""
        return any(node.op == RET for node, _ in self.uses)

    def replace_all_uses(self, other: Value) -> None:
        """Makes every reader of this value read `other`, graph outputs included."""
        if other is self:
            return
        for node, i in list(self.uses):
            node.set_input(i, other)

    def __repr__(self) -> str:
        return f"%{self.name or hex(id(self))}: {self.type}"


class Node:
    """One operation. Inputs change only through `set_input`; attributes only through `set_attrs`.

    Attributes:
        op: name in the op registry.
        attrs: immutable mapping of plain values, tuples, DTypes or Graphs.
        origin: where it came from and what changed it, "onnx:/layer1/Conv_3 > fuse_conv_bn".
        inferred: what the types of its results were inferred from the last time, and these types.
        graph: the graph it belongs to, None once erased.
        subgraphs: attributes that are graphs (branches, loop bodies).
    """

    __slots__ = (
        "_given", "_inputs", "_next", "_prev", "attrs", "graph", "inferred", "op", "origin", "outputs", "subgraphs"
    )  # fmt: skip

    def __init__(
        self,
        op: str,
        inputs: Iterable[Value | None],
        attrs: Mapping[str, Any] | None = None,
        outputs: Iterable[TensorType] = (),
        names: Sequence[str] = (),
        origin: str = "",
    ) -> None:
        self.op = op
        self.attrs: Mapping[str, Any] = MappingProxyType(dict(attrs or {}))
        self.subgraphs: Mapping[str, Graph] = _graphs(self.attrs)
        self.origin = origin
        self.inferred: tuple[list[Any], tuple[TensorType, ...]] | None = None
        self.graph: Graph | None = None
        self._prev: Node | None = None
        self._next: Node | None = None
        self._inputs: list[Value | None] = []
        self._given: tuple[Value | None, ...] | None = None
        for value in inputs:
            self._inputs.append(value)
            if value is not None:
                value.uses[self, len(self._inputs) - 1] = None
        self.outputs: tuple[Value, ...] = tuple(
            Value(t, names[i] if i < len(names) else "") for i, t in enumerate(outputs)
        )
        for i, value in enumerate(self.outputs):
            value.producer, value.index = self, i

    @property
    def inputs(self) -> tuple[Value | None, ...]:
        # Kept until it changes: a node may have as many inputs as there are nodes, and be asked by each of them.
        if self._given is None:
            self._given = tuple(self._inputs)
        return self._given

    @property
    def output(self) -> Value:
        """The only output."""
        if len(self.outputs) != 1:
            raise InternalError(f"{self.op} has {len(self.outputs)} outputs, not one", where=self.origin)
        return self.outputs[0]

    def input(self, i: int) -> Value:
        """Input `i`, which must be there."""
        value = self._inputs[i] if i < len(self._inputs) else None
        if value is None:
            raise InternalError(f"{self.op} has no input {i}", where=self.origin)
        return value

    def has_input(self, i: int) -> bool:
        return i < len(self._inputs) and self._inputs[i] is not None

    def set_input(self, i: int, value: Value | None) -> None:
        """Replaces input `i` and keeps both use lists right."""
        old = self._inputs[i]
        if old is value:
            return
        if old is not None:
            del old.uses[self, i]
        self._inputs[i] = value
        self._given = None
        if value is not None:
            value.uses[self, i] = None
        if self.graph is not None:
            self.graph.touch()

    def append_input(self, value: Value | None) -> None:
        self._inputs.append(None)
        self._given = None
        self.set_input(len(self._inputs) - 1, value)

    def remove_input(self, i: int) -> None:
        """Takes input `i` out; the later ones move up."""
        rest = self._inputs[i + 1 :]
        for k in range(i, len(self._inputs)):
            self.set_input(k, None)
        del self._inputs[i:]
        self._given = None
        for value in rest:
            self.append_input(value)

    def set_attrs(self, **changes: Any) -> None:
        """Replaces attributes; the mapping that others hold does not change."""
        had = bool(self.subgraphs)
        self.attrs = MappingProxyType({**self.attrs, **changes})
        self.subgraphs = _graphs(self.attrs)
        if self.graph is not None:
            self.graph.touch()
            self.graph._holders += bool(self.subgraphs) - had

    @property
    def next(self) -> Node | None:
        """The node behind it: the terminator behind the last one, None behind the terminator and outside of graphs."""
        return None if self.graph is None else self._next

    @property
    def name(self) -> str:
        """Name of the first named output, for messages."""
        return next((v.name for v in self.outputs if v.name), "")

    def __repr__(self) -> str:
        return f"{self.op}({', '.join('_' if v is None else '%' + v.name for v in self._inputs)})"


_NO_GRAPHS: Mapping[str, Graph] = MappingProxyType({})


def _graphs(attrs: Mapping[str, Any]) -> Mapping[str, Graph]:
    found = {k: v for k, v in attrs.items() if isinstance(v, Graph)}
    return MappingProxyType(found) if found else _NO_GRAPHS


class Graph:
    """Parameters, nodes in execution order, and a terminator `ret` that reads the outputs.

    The node list is a linked list: nodes may be inserted and erased while it is walked. A graph is closed: its nodes
    read only its own parameters, its own nodes' results, and constants.
    """

    def __init__(self, name: str = "main") -> None:
        self.name = name
        self.params: list[Value] = []
        self.ret = Node(RET, ())
        self.ret.graph = self
        self._first: Node = self.ret
        self._len = 0
        self._holders = 0  # nodes with subgraphs
        self._version = 0
        self._nx: tuple[int, nx.MultiDiGraph] | None = None

    def touch(self) -> None:
        """Marks the structure as changed, so that cached views are made anew."""
        self._version += 1

    @property
    def version(self) -> int:
        """Grows with every structural change."""
        return self._version

    @property
    def outputs(self) -> list[Value]:
        return [v for v in self.ret.inputs if v is not None]

    @outputs.setter
    def outputs(self, values: Sequence[Value]) -> None:
        for i in reversed(range(len(self.ret._inputs))):
            self.ret.remove_input(i)
        for value in values:
            self.ret.append_input(value)

    def add_param(self, type: TensorType, name: str = "") -> Value:
        value = Value(type, name)
        self.params.append(value)
        self.touch()
        return value

    def __len__(self) -> int:
        return self._len

    def __iter__(self) -> Iterator[Node]:
        return self.nodes()

    def nodes(self) -> Iterator[Node]:
        """The nodes in order, without the terminator. Nodes added behind the current one are visited too."""
        node = self._first
        while node is not self.ret:
            following = node._next
            yield node
            # An erased node keeps no link, so its successor was taken before; a living one may have a new successor.
            node = (node._next if node.graph is self else self._living(following)) or self.ret

    def _living(self, node: Node | None) -> Node:
        while node is not None and node.graph is not self:
            node = node._next
        return node or self.ret

    def __reversed__(self) -> Iterator[Node]:
        node = self.ret._prev
        while node is not None:
            before = node._prev
            yield node
            node = node._prev if node.graph is self else before

    def insert(self, node: Node, before: Node | None = None) -> Node:
        """Puts a node in front of another one (default: at the end)."""
        if node.graph is not None:
            raise InternalError(f"{node!r} is in a graph already")
        at = before or self.ret
        if at.graph is not self:
            raise InternalError(f"{at!r} is not in graph '{self.name}'")
        add_nodes(1, node.origin)
        node.graph, node._next, node._prev = self, at, at._prev
        if at._prev is None:
            self._first = node
        else:
            at._prev._next = node
        at._prev = node
        self._len += 1
        self._holders += bool(node.subgraphs)
        self.touch()
        return node

    def erase(self, node: Node) -> None:
        """Removes a node whose outputs are unused. Raises InternalError otherwise."""
        if node.graph is not self or node is self.ret:
            raise InternalError(f"{node!r} is not in graph '{self.name}'")
        for value in node.outputs:
            if value.uses:
                user = next(iter(value.uses))[0]
                raise InternalError(f"cannot erase {node!r}: {user!r} still reads it", where=node.origin)
        self._unlink(node)
        for i in range(len(node._inputs)):
            node.set_input(i, None)
        node.graph = None

    def move(self, node: Node, before: Node) -> None:
        """Moves a node in front of another one of this graph."""
        if node is before:
            return
        self._unlink(node)
        node.graph = None
        self.insert(node, before)

    def absorb(self, other: Graph, table: Mapping[Value, Value]) -> list[Value]:
        """Moves all nodes of another graph to the end of this one, and leaves nothing in it but its parameters.

        Args:
            other: a graph that nothing else holds.
            table: for every parameter of it that is read, the value of this graph which takes its place.

        Returns:
            What its outputs are here.
        """
        outputs = [table.get(v, v) for v in other.outputs]
        other.outputs = []
        for node in list(other):
            for i, value in enumerate(node.inputs):
                if value is not None and value in table:
                    node.set_input(i, table[value])
            other._unlink(node)
            node.graph = None
            self.insert(node)
        return outputs

    def _unlink(self, node: Node) -> None:
        if node._prev is None:
            assert node._next is not None
            self._first = node._next
        else:
            node._prev._next = node._next
        if node._next is not None:
            node._next._prev = node._prev
        # `_next` stays: an iterator that stands on this node finds its way through it.
        self._len -= 1
        self._holders -= bool(node.subgraphs)
        self.touch()

    def values(self) -> Iterator[Value]:
        """Parameters and results of nodes, in order; not the constants."""
        yield from self.params
        for node in self:
            yield from node.outputs

    def constants(self) -> list[Value]:
        """The constants read by nodes of this graph, each once, in order of first use."""
        nodes = [*self, self.ret]
        return list(dict.fromkeys(v for node in nodes for v in node.inputs if v is not None and v.is_const))

    def walk(self) -> Iterator[Graph]:
        """This graph and all graphs nested in it, outer ones first."""
        yield self
        for node in self if self._holders else ():
            for graph in node.subgraphs.values():
                yield from graph.walk()

    def sort(self) -> None:
        """Stable topological order of the nodes. Raises InternalError on a cycle."""
        order: list[Node] = []
        done: set[Node] = set()
        for root in [*self, self.ret]:
            stack = [(root, iter(root.inputs))]
            open_nodes = {root}
            if root in done:
                continue
            while stack:
                node, inputs = stack[-1]
                for value in inputs:
                    p = value.producer if value is not None else None
                    if p is not None and p not in done:
                        if p in open_nodes:
                            raise InternalError(f"graph '{self.name}' has a cycle through {p!r}", where=p.origin)
                        stack.append((p, iter(p.inputs)))
                        open_nodes.add(p)
                        break
                else:
                    stack.pop()
                    open_nodes.discard(node)
                    done.add(node)
                    if node is not self.ret:
                        order.append(node)
        previous: Node | None = None
        for node in order:
            node._prev = previous
            if previous is None:
                self._first = node
            else:
                previous._next = node
            previous = node
        self.ret._prev = previous
        if previous is None:
            self._first = self.ret
        else:
            previous._next = self.ret
        self.touch()

    def nx(self) -> nx.MultiDiGraph:
        """Snapshot for analysis: nodes are `Node`s, an edge per use with `value` and `index`. Cached until a change."""
        import networkx as nx

        if self._nx is None or self._nx[0] != self._version:
            g = nx.MultiDiGraph()
            g.add_nodes_from(self)
            g.add_node(self.ret)
            for node in [*self, self.ret]:
                for i, value in enumerate(node.inputs):
                    if value is not None and value.producer is not None:
                        g.add_edge(value.producer, node, value=value, index=i)
            self._nx = (self._version, g)
        return self._nx[1]

    def clone(self, name: str | None = None) -> Graph:
        """A deep copy of structure and types; the blobs are shared."""
        copy = Graph(self.name if name is None else name)
        table: dict[Value, Value] = {}
        for p in self.params:
            table[p] = copy.add_param(p.type, p.name)

        def mapped(value: Value | None) -> Value | None:
            if value is None:
                return None
            if value not in table and value.is_const:
                table[value] = Value(value.type, value.name, value.data)
            return table[value]

        for node in self:
            attrs = {k: v.clone() if isinstance(v, Graph) else v for k, v in node.attrs.items()}
            new = Node(
                node.op,
                [mapped(v) for v in node.inputs],
                attrs,
                [v.type for v in node.outputs],
                [v.name for v in node.outputs],
                node.origin,
            )
            copy.insert(new)
            table.update(zip(node.outputs, new.outputs, strict=True))
        copy.outputs = [v for v in (mapped(v) for v in self.outputs) if v is not None]
        return copy

    def __repr__(self) -> str:
        return f"<Graph {self.name}: {len(self.params)} inputs, {self._len} nodes, {len(self.outputs)} outputs>"


@dataclass(frozen=True)
class State:
    """A state of a model: an output whose value is an input of the next run.

    Attributes:
        input, output: names of the two, of one type, whose dimensions are numbers. The first may be a symbol: then the
            state grows by it.
        value: what the first run gets; of a state that grows, nothing, with 0 in place of the symbol.
    """

    input: str
    output: str
    value: Array


@dataclass
class Model:
    """A graph and what the file says besides.

    Attributes:
        graph: the main graph.
        inputs, outputs: names and types as the source model declares them; the session shows these to the user.
        portable: a second graph with the same parameters and outputs, for runtimes that do not know what `graph`
            computes with; None if there is none.
        states: what a run hands on to the next one: a session feeds it back, and does not show it to the user.
        ranges: least and largest number that a symbol may stand for, where the source says so.
        limits: what MNN's runtime does in another way than `graph` says, and the names of the nodes.
        source: format it came from ("onnx", "mnn", ...).
        metadata: free key/value pairs of the source file.
        notices: what the user should know about the conversion, one sentence each.
    """

    graph: Graph
    inputs: list[tuple[str, TensorType]] = field(default_factory=list)
    outputs: list[tuple[str, TensorType]] = field(default_factory=list)
    source: str = "onnx"
    metadata: dict[str, str] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    ranges: dict[str, tuple[int, int | None]] = field(default_factory=dict)
    portable: Graph | None = None
    limits: dict[str, list[str]] = field(default_factory=dict)

    @property
    def user_inputs(self) -> list[tuple[str, TensorType]]:
        """The inputs that the user gives: all but the states."""
        remembered = {s.input for s in self.states}
        return [(n, t) for n, t in self.inputs if n not in remembered]

    @property
    def user_outputs(self) -> list[tuple[str, TensorType]]:
        """The outputs that the user gets: all but the next states."""
        remembered = {s.output for s in self.states}
        return [(n, t) for n, t in self.outputs if n not in remembered]

    def clone(self) -> Model:
        """A copy with its own graph; the blobs are shared."""
        return Model(
            self.graph.clone(),
            [*self.inputs],
            [*self.outputs],
            self.source,
            {**self.metadata},
            [*self.notices],
            [*self.states],
            {**self.ranges},
            None if self.portable is None else self.portable.clone(),
            {**self.limits},
        )
