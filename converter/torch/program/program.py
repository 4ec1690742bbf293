"""A PyTorch program, the same for both file formats: nodes in order, which call operators and hold blocks.

What is translated knows neither TorchScript nor `.pt2` archives; their readers make this of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minnow.schema.ir import TensorType


@dataclass(frozen=True, slots=True)
class Ref:
    """The result of a node, or a parameter, by name."""

    name: str


@dataclass(slots=True)
class Node:
    """A call of an operator.

    Attributes:
        target: "aten::add.Tensor": namespace, operator, overload where there are several.
        args: a constant, a `Ref`, or a list or dict of them, by position.
        kwargs: the same by the name of the operator's schema.
        outputs: names of the results; a nested sequence where the result is a list of known length.
        origin: where in the source model it stands.
        blocks: of operators with control flow.
        declared: types of results as the file gives them, by name.
    """

    target: str
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    outputs: Sequence[Any] = ()
    origin: str = ""
    blocks: Sequence[Block] = ()
    declared: Mapping[str, TensorType] = field(default_factory=dict)


@dataclass(slots=True)
class Block:
    """Nodes with parameters and results, inside of a node or as the whole program."""

    params: Sequence[str]
    nodes: Sequence[Node]
    results: Sequence[Any]

    def all_nodes(self) -> Iterator[Node]:
        """The nodes, those of inner blocks included."""
        for node in self.nodes:
            yield node
            for block in node.blocks:
                yield from block.all_nodes()


@dataclass(slots=True)
class Input:
    """What the caller hands in.

    Attributes:
        name: as the model calls it.
        path: where in the argument it is: `()` the argument itself, `(0, "key")` inside of tuples, lists and dicts.
        type: of a tensor; None for a number.
        number: int, float or bool for an argument that is not a tensor.
        default: the default value of such an argument.
        assumed: neither the file nor the caller says what the element type of the tensor is.
    """

    name: str
    param: str
    path: tuple[int | str, ...] = ()
    type: TensorType | None = None
    number: Callable[..., Any] | None = None
    default: Any = None
    assumed: bool = False


@dataclass(slots=True)
class Stored:
    """A tensor of the file, loaded when asked for.

    Attributes:
        key: the same for two tensors that share memory and layout.
        name: what the model calls it.
        scale, zero, axis: of a quantized one: of each channel along `axis`, or of all numbers where that is None.
    """

    type: TensorType
    load: Callable[[], np.ndarray[Any, Any]]
    key: str
    scale: Any = None
    zero: Any = None
    axis: int | None = None
    quantized: str = ""
    name: str = ""


@dataclass(slots=True)
class Object:
    """A module, or another object with attributes, which the program may set.

    Attributes:
        kind: name of its class.
        attrs: `Stored` tensors, constants, and objects.
        methods: those that the program calls of an object whose class it does not know.
        path: the names of attributes that lead to it from the module; None for what the program itself makes.
    """

    kind: str
    attrs: dict[str, Any]
    path: str | None = ""
    methods: dict[str, Block] = field(default_factory=dict)


@dataclass(slots=True)
class Program:
    """A whole model.

    Attributes:
        block: its parameters are those of `inputs` and the names in `bound`.
        bound: what other parameters are: `Stored`, `Object` or a constant.
        outputs: names of the results where the source has any: per result a name, or None.
        mutated: parameters whose tensor the program changes, and the name of what it is afterwards: a state.
        ranges: least and largest value of symbolic dimensions.
        source: "torchscript" or "torch_export".
        notices: what the user should know.
        operators: how many nodes there are of each operator.
    """

    block: Block
    inputs: list[Input]
    bound: dict[str, Any]
    source: str
    outputs: Any = None
    mutated: dict[str, str] = field(default_factory=dict)
    ranges: dict[str, tuple[int, int | None]] = field(default_factory=dict)
    version: str = ""
    notices: list[str] = field(default_factory=list)
