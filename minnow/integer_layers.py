"""Which layers of a written file compute with integers, and why others do not.

A calibration plans layers with integers; the rules of the optimizer decide which of them the file has. What is said of
the layers is therefore read from the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from minnow.optimizer.quantize.activations import RULES
from minnow.schema.ir import DType, Graph, Node, Value

if TYPE_CHECKING:
    from minnow.calibrated_model import QuantizedModel
    from minnow.options.optimize import OptimizeOptions

Array = npt.NDArray[Any]

_BYTES = (DType.I8, DType.U8)


@dataclass
class WrittenModel:
    """What a file has of a quantized model.

    Attributes:
        integers: for each layer of the float model that computes with integers in the file the node that does so.
        tensors: the tensors of the file by name, constants left out; of several with one name none.
    """

    integers: dict[Node, Node] = field(default_factory=dict)
    tensors: dict[str, Value] = field(default_factory=dict)

    @classmethod
    def of(cls, path: Path, made: QuantizedModel) -> WrittenModel:
        """Reads a file that was made of a quantized model."""
        from minnow.schema.mnn import read_file

        graph = read_file(path).graph
        named: dict[str, list[Value]] = {}
        for part in graph.walk():
            for value in part.values():
                named.setdefault(value.name, []).append(value)
        return cls(_matched(made, graph), {n: found[0] for n, found in named.items() if len(found) == 1})

    def has_integers(self, name: str) -> bool:
        """Whether the file has a tensor u8 or i16 of this name."""
        return name in self.tensors and self.tensors[name].type.dtype in (DType.U8, DType.I16)

    def has_floats(self, name: str) -> bool:
        """Whether the file has a tensor f32 of this name."""
        return name in self.tensors and self.tensors[name].type.dtype is DType.F32


def integer_nodes(graph: Graph) -> list[Node]:
    """The nodes of a graph, and of those in it, that multiply integers of 8 bits by constant ones."""
    return [node for part in graph.walk() for node in part if _is_integer(node)]


def _is_integer(node: Node) -> bool:
    if not (node.has_input(0) and node.has_input(1)):
        return False
    x, w = node.input(0), _stored(node.input(1))
    return x.type.dtype in _BYTES and w.type.dtype in _BYTES and w.data is not None and (w.type.rank or 0) > 1


def _stored(weights: Value) -> Value:
    """Weights as the file has them: it turns those that two graphs share, for one of them."""
    maker = weights.producer
    return maker.input(0) if maker is not None and maker.op == "Transpose" else weights


def _matched(made: QuantizedModel, graph: Graph) -> dict[Node, Node]:
    """The nodes with the integers of layers, each for one layer: by name of result or weights, or by their contents."""
    free = dict.fromkeys(integer_nodes(graph))
    found: dict[Node, Node] = {}

    def take(same: Callable[[Node, Node], bool]) -> None:
        for layer in made.plan.layers:
            if layer in found:
                continue
            size = made.weights[layer].numbers.size
            node = next((n for n in free if n.input(1).type.count == size and same(layer, n)), None)
            if node is not None:
                found[layer] = node
                del free[node]

    take(lambda layer, node: node.name == made.numbers[made.plan.ends[layer]])
    take(lambda layer, node: bool(node.input(1).name) and node.input(1).name == layer.input(1).name)
    take(lambda layer, node: _same_numbers(made.weights[layer].numbers, node.input(1)))
    return found


def _same_numbers(numbers: Array, weights: Value) -> bool:
    """Whether weights have these numbers, in the same order or as the transposed matrix."""
    data = _stored(weights).data
    assert data is not None
    array = data.numpy()
    if np.array_equal(array.reshape(-1), numbers.reshape(-1)):
        return True
    return array.ndim == numbers.ndim == 2 and np.array_equal(array.T, numbers)


def refusals(path: Path, options: OptimizeOptions, made: QuantizedModel, layers: Iterable[Node]) -> Mapping[Node, str]:
    """Why layers that were to compute with integers did not come to it.

    Args:
        path: the model with steps to integers and back, of which the file was made.
        options: those that it was made with.
        made: what is in that model.
        layers: those in question, of the float model.
    """
    wanted = list(layers)
    if not wanted:
        return {}
    from minnow.optimizer import optimize
    from minnow.optimizer.rewrite import Trace
    from minnow.schema.mnn import read_file

    trace = Trace(explain=frozenset(RULES[layer.op] for layer in wanted))
    optimize(
        read_file(path), int(options.optimize), target=options.target, passes=options.passes, int64=options.int64,
        log=trace,
    )  # fmt: skip
    found: dict[Node, str] = {}
    for layer in wanted:
        rule, name = RULES[layer.op], made.numbers[made.plan.ends[layer]]
        told = (why for r, node, why in trace.reasons if r == rule and node.startswith(f"QuantizeLinear {name} ("))
        why = trace.unused.get(rule) or next(told, "")
        found[layer] = f"the rule {rule} does not apply: {why}" if why else f"the rule {rule} found no place for it"
    return found
