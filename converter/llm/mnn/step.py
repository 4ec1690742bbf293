"""The graph of one step as MNN's runtime for language models runs it: one sequence, whose cache the runtime keeps.

Inputs: `input_ids` f32[tokens, 1, hidden], the rows of the table of tokens, which the runtime looks up;
`attention_mask`, a scalar, or f32[2, 1, 1, tokens, length] with one mask for layers that see everything and one for
those with a window; `position_ids` i32[1, tokens]; `logits_index` i32[1], from which row on logits are wanted.
Output: `logits` [1, rows, vocab].
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from minnow.converter.llm.build import built
from minnow.converter.llm.checkpoint import Checkpoint
from minnow.converter.llm.step import Step
from minnow.schema.errors import UnsupportedError
from minnow.schema.ir import Blob, DType, Model, TensorType, Value

_EVERY = np.array([np.iinfo(np.int32).max])


class MnnStep(Step):
    """A graph for MNN's runtime while an architecture makes it.

    Args:
        checkpoint: the model.
        window: tokens that layers with a window see, where it is known that there are such layers.

    Attributes:
        table: the table of tokens, which is no part of the graph.
        window: as given, or as it was found; 0: there are no such layers.
    """

    def __init__(self, checkpoint: Checkpoint, window: int = 0) -> None:
        super().__init__(checkpoint)
        if checkpoint.sight is not None:
            raise self.unsupported("models that see are not written for MNN's runtime")
        self.table: Blob | None = None
        self.window = window

    def open(self) -> None:
        """The inputs, and rows of them as the blocks want them."""
        rows = self._input_of("input_ids", TensorType(DType.F32, ("tokens", 1, self.hidden)))
        self._embedded: Value = self.b.Reshape(rows, np.array([-1, self.hidden]))
        shape = (2, 1, 1, "tokens", "length") if self.window else ()
        mask = self._input_of("attention_mask", TensorType(DType.F32, shape))
        self._masks = [self.b.Gather(mask, np.array(i)) for i in (0, 1)] if self.window else [mask]
        places = self._input_of("position_ids", TensorType(DType.I32, (1, "tokens")))
        self.positions = self.b.Reshape(places, np.array([-1]))
        self._index = self._input_of("logits_index", TensorType(DType.I32, (1,)))

    def open_encoder(self, kinds: int) -> tuple[Value, Value, Value | None]:
        raise self.unsupported("models for embeddings and ranking are not written for MNN's runtime")

    def unsupported(self, what: str, why: str = "") -> UnsupportedError:
        """The error for a checkpoint with something that MNN's runtime does not have."""
        hint = "leave out `--mnn-llm`: Minnow's engine runs it"
        return UnsupportedError(what, where=str(self.checkpoint.path), why=why, hint=hint)

    def embedding(self, name: str, ids: Value | None = None, rows: int | None = None) -> Value:
        """The input; of other tables the rows, with float numbers, as MNN's runtime has no packed ones there."""
        blob = self.weights.matrix(name, self.vocab if rows is None else rows, self.hidden)
        if ids is not None:
            numbers = np.asarray(blob.numpy(), np.float32)
            found: Value = self.b.Gather(Value.constant(numbers, f"{name}.weight"), ids, axis=0)
            return found
        self.table = blob
        return self._embedded

    def row_lengths(self) -> Value:
        raise self.unsupported("rotary positions that depend on the length of a text are not written for MNN's runtime")

    def turned(self, x: Value, cos: Value, sin: Value, size: int) -> Value:
        """Sums of products: the format has no form for the op."""
        half, rest = size // 2, self.head_size - size
        sizes = (half, half, rest) if rest else (half, half)
        left, right, *others = self.b.Split(x, axis=-1, sizes=sizes, n_outputs=len(sizes))
        first = self.b.Sub(self.b.Mul(left, cos), self.b.Mul(right, sin))
        second = self.b.Add(self.b.Mul(right, cos), self.b.Mul(left, sin))
        made: Value = self.b.Concat(first, second, *others, axis=-1)
        return made

    def attention(
        self, layer: int, q: Value, k: Value, v: Value, *, scale: float | None = None, window: int = 0,
        soft_cap: float = 0.0,
    ) -> Value:  # fmt: skip
        """MNN's op, whose cache is its own."""
        if soft_cap:
            raise self.unsupported("MNN's attention has no limit of scores", why=f"the checkpoint has {soft_cap:g}")
        own = self.head_size**-0.5
        if scale is not None and scale != own:
            q = self.b.Mul(q, np.float32(scale * sqrt(self.head_size)))
        heads = ((q, self.heads), (k, self.kv_heads), (v, self.kv_heads))
        operands = [self.b.Reshape(x, np.array([1, -1, n, self.head_size])) for x, n in heads]
        wide = self.heads * self.head_size
        attrs = {"type": "Attention", "main_type": "AttentionParam", "main": {"kv_cache": True}, "format": "NHWC"}
        y = self.b.node("Raw", [*operands, self._mask_of(window)], attrs, 1, (f"attention.{layer}",),
                        [TensorType(DType.F32, (1, "tokens", wide))]).output  # fmt: skip
        made: Value = self.b.Reshape(y, np.array([-1, wide]))
        return made

    def _mask_of(self, window: int) -> Value:
        """The mask of a layer: a second one is for those with a window that is smaller than the context."""
        if not 0 < window < self.context:
            return self._masks[0]
        if self.window not in (0, window):
            raise self.unsupported("MNN's runtime has one window for all layers", why=f"{self.window} and {window}")
        self.window = window
        return self._masks[-1]

    def last(self, x: Value) -> Value:
        """The rows from the one on that is asked for."""
        found: Value = self.b.Slice(x, self._index, _EVERY, np.array([0]))
        return found

    def logits(self, x: Value, embedding: str, head: str = "lm_head", soft_cap: float = 0.0) -> None:
        super().logits(x, embedding, head, soft_cap)
        name, y = self.outputs[-1]
        self.outputs[-1] = (name, self.b.Unsqueeze(y, axes=(0,)))

    def model(self) -> Model:
        """The model that is made."""
        self.graph.outputs = [value for _, value in self.outputs]
        for name, value in self.outputs:
            value.name = name
        made = [(name, value.type) for name, value in self.outputs]
        return Model(self.graph, self.inputs, made, source="llm")


def step_for_mnn(checkpoint: Checkpoint) -> tuple[MnnStep, Model]:
    """The graph of a checkpoint for MNN's runtime.

    Raises:
        UnsupportedError: the architecture is not known, or has something that MNN's runtime does not have.
        ModelError: tensors and hyperparameters do not fit.
    """
    if checkpoint.graph is not None:
        raise UnsupportedError("the source is a folder of MNN-LLM already", where=str(checkpoint.path))
    step = MnnStep(checkpoint)
    model = built(step)
    if step.window:  # of which the first layers did not know
        step = MnnStep(checkpoint, step.window)
        model = built(step)
    return step, model
