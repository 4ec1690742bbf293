"""From the graph of a folder of MNN-LLM to that of a step: the same nodes, with other inputs and another cache."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.converter.llm.checkpoint import Checkpoint, Settings
from minnow.converter.llm.mnn.stream import matrix_of
from minnow.converter.llm.step import BLOCK, Step
from minnow.schema.errors import FormatError, InternalError, MinnowError, ModelError, Refused, UnsupportedError
from minnow.schema.ir import ArrayBlob, Blob, DType, Graph, Model, Node, RoundedBlob, Value
from minnow.schema.ir.graph import RET

_ROWS, _MASK, _PLACES, _FROM = "input_ids", "attention_mask", "position_ids", "logits_index"
_FLAT = ("NC4HW4", "NCHW")


class Translation:
    """A graph of MNN's, which can be made that of a step any number of times.

    Args:
        checkpoint: with sizes but for those of heads.
        source: the graph as it was read.
        table: of tokens.
        facts: the settings of the folder.

    Attributes:
        sizes: hyperparameters that the graph tells, as soon as it was made once.
    """

    def __init__(self, checkpoint: Checkpoint, source: Model, table: Blob, facts: Settings) -> None:
        self.checkpoint, self.source, self.table, self.facts = checkpoint, source, table, facts
        self.kind = facts.text("attention_type", default="full")
        self.window = facts.integer("sliding_window", default=0, least=0)
        self.sizes: dict[str, int] = {}

    def model(self, cache: DType = DType.F16, block: int = BLOCK) -> Model:
        """The graph of a step.

        Raises:
            UnsupportedError: it has ops that are not read, all of which are listed.
            ModelError, FormatError: ops do not fit together.
        """
        graph = self.source.graph
        named = dict(zip((name for name, _ in self.source.outputs), graph.outputs, strict=True))
        if "logits" not in named or {p.name for p in graph.params} < {_ROWS, _PLACES}:
            raise FormatError("the graph is not that of a language model", where=str(self.checkpoint.path))
        return _Step(self, cache, block).made(graph, named["logits"])


class _Step(Step):
    """The step while it is made."""

    def __init__(self, translation: Translation, cache: DType, block: int) -> None:
        super().__init__(translation.checkpoint, cache, block)
        self.own = translation
        self.values: dict[Value, Value] = {}
        self.marks: dict[Value, tuple[str, int]] = {}  # what follows from a mask, or from the first row of logits
        self.refused: dict[str, list[str]] = {}
        self.count = 0
        self.cut = False

    def made(self, graph: Graph, logits: Value) -> Model:
        """The whole graph."""
        self.open()
        table = Value.constant(self.own.table, "embedding")
        rows = self.b.Gather(table, self.ids, axis=0)
        for param in graph.params:
            if param.name == _ROWS:
                self.values[param] = self.b.Reshape(rows, np.array([-1, 1, self.hidden]))
            elif param.name == _PLACES:
                self.values[param] = self.b.Reshape(self.positions, np.array([1, -1]))
            elif param.name in (_MASK, _FROM):
                self.marks[param] = (param.name, -1)
        for node in _needed(graph, logits):
            try:
                self.node(node)
            except InternalError as e:  # it has too few operands, or too many results
                raise FormatError("an operator is not what its kind is", where=e.where, why=e.message) from e
            except MinnowError as e:
                e.where = e.where or f"{node.op} '{node.outputs[0].name if node.outputs else ''}'"
                raise
        if self.refused:
            raise UnsupportedError(
                "the graph has operators that are not read",
                where=str(self.checkpoint.path),
                hint="export it with --disable_transformer_c4, or convert its checkpoint",
                refused=[Refused(what, tuple(nodes)) for what, nodes in sorted(self.refused.items())],
            )
        if self.count != self.layers:
            raise FormatError(f"the graph has {self.count} layers of attention, not {self.layers}")
        found = self.values.get(logits)
        if found is None:
            raise FormatError("the logits of the graph are not made of the tokens")
        if found.type.shape is None or found.type.shape[-1] != self.vocab:
            raise ModelError(f"there are logits {found.type} for {self.vocab} tokens")
        y = self.b.Reshape(found, np.array([-1, self.vocab]))
        self.outputs.append(("logits", y if self.cut else self.last(y)))
        self.own.sizes = {
            "num_attention_heads": self.heads, "num_key_value_heads": self.kv_heads, "head_dim": self.head_size
        }  # fmt: skip
        return self.model()

    def node(self, node: Node) -> None:
        """Makes what one node stands for."""
        marks = {self.marks[v] for v in node.inputs if v is not None and v in self.marks}
        computed = [v for v in node.inputs if v is not None and not v.is_const]
        kind = str(node.attrs.get("type", "")) if node.op == "Raw" else ""
        if any(v not in self.values and v not in self.marks for v in computed):
            return  # behind one that is not read
        if kind == "Attention":
            self.set(node, self.attends(node))
        elif node.op == "Slice" and node.input(1) in self.marks and node.input(0) in self.values:
            self.set(node, self.cut_rows(node))
        elif len(marks) == 1 and all(v in self.marks for v in computed):
            self.marks.update(dict.fromkeys(node.outputs, _chosen(node, marks.pop())))
        elif marks:
            self.refuse(node, f"{node.op} of a mask, or of the first row of logits, and others")
        elif kind == "Convolution" or (node.op == "Conv" and node.input(1).is_const):
            self.set(node, self.product_of(node))
        elif node.op == "ConvertLayout" and node.attrs.get("to") in _FLAT:
            self.set(node, self.of(node.input(0)))
        elif node.op == "Raw" or any(isinstance(a, Graph) for a in node.attrs.values()):
            self.refuse(node, kind or node.op)
        else:
            operands = [None if v is None else self.of(v) for v in node.inputs]
            outputs = self.b.node(node.op, operands, node.attrs, len(node.outputs)).outputs
            self.values.update(zip(node.outputs, outputs, strict=True))

    def set(self, node: Node, value: Value) -> None:
        self.values[node.output] = value

    def of(self, value: Value) -> Value:
        """What stands for a value of the source."""
        if value.is_const and value not in self.values:
            assert value.data is not None
            self.values[value] = Value.constant(value.data, value.name)
        return self.values[value]

    def refuse(self, node: Node, what: str) -> None:
        self.refused.setdefault(what, []).append(node.outputs[0].name if node.outputs else node.op)

    def product_of(self, node: Node) -> Value:
        """A convolution of one element, as the product that it is."""
        x = self.of(node.input(0))
        blob, bias = self.weights_of(node, x)
        rows = self.b.Reshape(x, np.array([-1, blob.shape[1]]))
        y = self.product(rows, blob, bias, node.output.name)
        made: Value = self.b.Reshape(y, np.array([-1, blob.shape[0], 1, 1]))
        return made

    def weights_of(self, node: Node, x: Value) -> tuple[Blob, Any]:
        shape = x.type.shape or ()
        if node.op == "Conv":
            weight, bias = node.input(1), node.input(2) if node.has_input(2) else None
            sizes = weight.type.static_shape
            plain = node.attrs.get("group", 1) == 1 and not node.attrs.get("activation")
            inputs, outputs = sizes[1], sizes[0]
            ones = sizes[2:] == (1, 1) and plain and (bias is None or bias.is_const)
        else:
            main = node.attrs["main"] or {}
            common = main.get("common") or {}
            outputs, inputs = int(common.get("outputCount", 0)), int(common.get("inputCount", 0))
            ones = all(common.get(k, 1) == 1 for k in ("kernelX", "kernelY", "group")) and not (
                common.get("relu") or common.get("relu6")
            )
            if not inputs and len(shape) > 1 and isinstance(shape[1], int):
                inputs = shape[1]
        if not ones or outputs < 1 or shape[1:] != (inputs, 1, 1):
            raise UnsupportedError(f"a convolution {outputs} x {inputs} of {x.type} is no product of rows")
        if node.op == "Conv":
            assert weight.data is not None
            numbers = np.asarray(weight.data.numpy(), np.float32).reshape(outputs, inputs)
            blob: Blob = ArrayBlob(numbers)
            if weight.type.dtype is DType.F16:
                blob = RoundedBlob(blob, DType.F16)
            return blob, None if bias is None else np.asarray(bias.array, np.float32)
        add = main.get("bias")
        if add is not None and np.asarray(add).size not in (0, outputs):
            raise FormatError(f"a layer with {outputs} outputs has a bias of {np.asarray(add).size}")
        some = add is not None and np.any(np.asarray(add))
        return matrix_of(main, outputs, inputs), np.asarray(add, np.float32) if some else None

    def attends(self, node: Node) -> Value:
        """MNN's attention over the cache of sequences."""
        main = node.attrs["main"] or {}
        other = [k for k in ("kv_shared_layer", "mhq_quant", "output_c4") if main.get(k)]
        if not main.get("kv_cache", True) or other or len(node.inputs) > 4 or len(node.inputs) < 3:
            raise UnsupportedError(f"attention with {', '.join(other) or 'other operands'} is not read")
        parts = [self.of(node.input(i)) for i in range(3)]
        shapes = [v.type.shape or () for v in parts]
        if any(len(s) != 4 or not all(isinstance(d, int) and d for d in s[2:]) for s in shapes):
            raise ModelError(f"attention of {', '.join(str(v.type) for v in parts)}, which are no heads")
        heads, kv_heads, size = (int(n) for n in (shapes[0][2], shapes[1][2], shapes[0][3]))
        if any(s[2:] != (kv_heads, size) for s in shapes[1:]) or heads % kv_heads:
            raise ModelError(f"attention of {', '.join(str(v.type) for v in parts)}")
        if self.count and (heads, kv_heads, size) != (self.heads, self.kv_heads, self.head_size):
            raise UnsupportedError("layers with heads of several sizes are not read")
        self.heads, self.kv_heads, self.head_size = heads, kv_heads, size
        q, k, v = (
            self.b.Reshape(p, np.array([-1, n * size])) for p, n in zip(parts, (heads, kv_heads, kv_heads), strict=True)
        )
        scale = float(main.get("attnScale", 0.0)) or self.own.facts.real("attn_scale", default=0.0, least=0)
        y = self.attention(self.count, q, k, v, scale=scale or None, window=self.window_of(node))
        self.count += 1
        made: Value = self.b.Reshape(y, np.array([1, -1, heads * size]))
        return made

    def window_of(self, node: Node) -> int:
        """Tokens that a layer sees; 0: all."""
        if self.own.kind == "full":
            return 0
        if self.own.kind == "sliding":
            return self.own.window
        mask = node.input(3) if node.has_input(3) else None
        _, which = self.marks.get(mask, ("", -1)) if mask is not None else ("", -1)
        if self.own.kind != "mix" or which not in (0, 1):
            raise UnsupportedError(f"attention of the kind '{self.own.kind}' is not read")
        return self.own.window if which else 0

    def cut_rows(self, node: Node) -> Value:
        """Rows from one on: here those that are asked for."""
        named = node.input(3).array if node.has_input(3) else np.zeros(1)
        axes = [] if named is None else named.reshape(-1).tolist()
        if self.marks[node.input(1)][0] != _FROM or len(axes) != 1:
            raise UnsupportedError("rows of logits are chosen in a way that is not read")
        self.cut = True
        made: Value = self.b.Gather(self.of(node.input(0)), self.rows, axis=int(axes[0]))
        return made


def _chosen(node: Node, mark: tuple[str, int]) -> tuple[str, int]:
    """What a node makes of a mask: of two the one that it names."""
    index = node.input(1) if node.op == "Gather" and len(node.inputs) > 1 else None
    which = None if index is None else index.array
    if mark[0] == _MASK and mark[1] < 0 and which is not None and which.size == 1:
        return _MASK, int(which.reshape(()))
    return mark


def _needed(graph: Graph, output: Value) -> list[Node]:
    """The nodes that a value follows from, in order."""
    wanted, todo = set(), [output]
    while todo:
        node = todo.pop().producer
        if node is not None and node not in wanted:
            wanted.add(node)
            todo += [v for v in node.inputs if v is not None]
    return [node for node in graph if node in wanted and node.op != RET]
