"""The graph of one step of a language model, and the blocks that architectures are made of.

One graph is for prompts and for single tokens, of one sequence or many: the rows of its inputs are the new tokens of
all sequences, one after the other, and the keys and values of those before are in blocks of the cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from minnow.converter.llm.checkpoint import Checkpoint, Settings
from minnow.converter.llm.rotary import Frequencies, frequencies, longest
from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import Blob, DType, Graph, LazyBlob, Model, QuantizedBlob, RoundedBlob, State, TensorType, Value
from minnow.schema.ir.compressed import joined
from minnow.schema.ops import Builder
from minnow.schema.ops.paged_attention import cache_types

Array = npt.NDArray[Any]

BLOCK = 32
"""Tokens of a block of the cache."""
_LEAST_NORM = np.float32(1e-12)


class Weights:
    """The tensors of a checkpoint, with shapes that are checked and a note of which are used."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.checkpoint = checkpoint
        self.used: set[str] = set()

    def has(self, name: str) -> bool:
        return name in self.checkpoint.tensors

    def get(self, name: str, *shape: int) -> Blob:
        """A tensor. Raises ModelError if there is none of this name and shape."""
        blob = self.checkpoint.tensors.get(name)
        where = str(self.checkpoint.path)
        if blob is None:
            raise ModelError(f"the tensor '{name}' is missing", where=where, why=f"{self.checkpoint.model_type} has it")
        if tuple(blob.shape) != shape:
            why = f"by the hyperparameters it is {list(shape)}"
            raise ModelError(f"the tensor '{name}' has the shape {list(blob.shape)}", where=where, why=why)
        self.used.add(name)
        return blob

    def vector(self, name: str, size: int) -> Array:
        """A small tensor as it is, f32."""
        return np.asarray(self.get(name, size).numpy(), np.float32)

    def matrix(self, name: str, rows: int, columns: int) -> Blob:
        """The matrix of a layer, [outputs, inputs]."""
        return self.get(f"{name}.weight", rows, columns)

    def pass_over(self, *beginnings: str) -> None:
        """Tensors whose names begin so are of no use."""
        self.used.update(name for name in self.checkpoint.tensors if name.startswith(beginnings))

    def check_all_used(self, harmless: Sequence[str]) -> None:
        """Raises UnsupportedError if there are others that the architecture does not use."""
        left = [n for n in self.checkpoint.tensors if n not in self.used and not n.endswith(tuple(harmless))]
        if left:
            more = f", and {len(left) - 10} more" if len(left) > 10 else ""
            raise UnsupportedError(
                f"the checkpoint has tensors that {self.checkpoint.model_type} does not use",
                where=str(self.checkpoint.path),
                why=", ".join(left[:10]) + more,
                hint="it may be of another architecture than its hyperparameters say",
            )


class Step:
    """A graph while an architecture makes it.

    Args:
        checkpoint: the model.
        cache: element type of keys and values in the cache.
        block: tokens of a block of it.

    Attributes:
        settings, weights: of the checkpoint.
        hidden, layers, heads, kv_heads, head_size: sizes.
        sees: vectors of images are among its inputs.
        b: makes nodes.
    """

    def __init__(self, checkpoint: Checkpoint, cache: DType = DType.F16, block: int = BLOCK) -> None:
        self.checkpoint, self.settings, self.weights = checkpoint, checkpoint.settings, Weights(checkpoint)
        self.hidden = self.settings.integer("hidden_size", "n_embd", most=1 << 20)
        self.layers = self.settings.integer("num_hidden_layers", "n_layer", most=4096)
        self.heads = self.settings.integer("num_attention_heads", "n_head", most=1 << 16)
        self.kv_heads = self.settings.integer("num_key_value_heads", default=self.heads, most=1 << 16)
        self.head_size = self.settings.integer("head_dim", default=max(self.hidden // self.heads, 1), most=1 << 16)
        self.context = longest(self.settings)
        if self.heads % self.kv_heads:
            raise ModelError(f"{self.heads} heads cannot share {self.kv_heads} of keys", where=self.settings.where)
        self.block, self.cache, self.sees = block, cache, False
        self.graph = Graph("step")
        self.b = Builder(self.graph, origin="llm")
        self.inputs: list[tuple[str, TensorType]] = []
        self.states: list[tuple[str, Value, Value]] = []
        self.outputs: list[tuple[str, Value]] = []

    @property
    def vocab(self) -> int:
        """How many tokens there are."""
        return self.settings.integer("vocab_size", most=1 << 28)

    # ---- inputs --------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """The inputs of a model that continues texts."""
        self.ids = self._input("input_ids", "tokens")
        self.positions = self._input("positions", "tokens")
        self.starts = self._input("starts", "ends")
        self.lengths = self._input("lengths", "sequences")
        self.blocks = self._input("blocks", "sequences", "most_blocks")
        self.rows = self._input("rows", "rows")

    def open_encoder(self, kinds: int) -> tuple[Value, Value, Value | None]:
        """The inputs of a model that reads whole texts: tokens, where there are some, and to which of `kinds` kinds of
        texts they belong, if there is more than one; [batch, length] each."""
        ids, mask = (self._input(name, "batch", "length") for name in ("input_ids", "attention_mask"))
        return ids, mask, self._input("token_type_ids", "batch", "length") if kinds > 1 else None

    def open_texts(self) -> Value:
        """The one input of a model that reads texts of one length."""
        return self._input("input_ids", "batch", "length")

    def open_images(self, channels: int, size: int) -> Value:
        """The one input of a model that sees square images: their pixels, f32[images, channels, size, size]."""
        return self._input_of("pixel_values", TensorType(DType.F32, ("images", channels, size, size)))

    @property
    def scores(self) -> bool:
        """Whether the model is for scores of texts, by the name of the class that it was saved from."""
        named = self.settings.raw("architectures")
        return isinstance(named, list) and any(str(n).endswith("ForSequenceClassification") for n in named)

    @property
    def pooling(self) -> str:
        """How one vector is made of those of all tokens."""
        return self.checkpoint.pooling or "mean"

    def labels(self, name: str) -> int:
        """The rows of the matrix of a classifier."""
        blob = self.checkpoint.tensors.get(name)
        return int(blob.shape[0]) if blob is not None and blob.shape else 1

    def _input(self, name: str, *shape: int | str) -> Value:
        return self._input_of(name, TensorType(DType.I32, shape))

    def _input_of(self, name: str, type: TensorType) -> Value:
        self.inputs.append((name, type))
        return self.graph.add_param(type, name)

    # ---- layers --------------------------------------------------------------------------------------------------

    def embedding(self, name: str, ids: Value | None = None, rows: int | None = None) -> Value:
        """The rows of a table."""
        table = self.weights.matrix(name, self.vocab if rows is None else rows, self.hidden)
        found: Value = self.b.Gather(Value.constant(table, f"{name}.weight"), self.ids if ids is None else ids, axis=0)
        return found

    def tokens(self, name: str) -> Value:
        """The rows of the new tokens; where the model sees, vectors of images in place of some of them."""
        x = self.embedding(name)
        if self.checkpoint.sight is None:
            return x
        rows = self._input("image_rows", "image_tokens")
        vectors = self._input_of("image_embeddings", TensorType(DType.F32, ("image_tokens", self.hidden)))
        self.sees = True
        made: Value = self.b.ScatterND(x, self.b.Unsqueeze(rows, axes=(1,)), vectors)
        return made

    def linear(self, x: Value, name: str, outputs: int, inputs: int | None = None, bias: bool | None = None) -> Value:
        """x w^T, with the bias that there is.

        Args:
            bias: whether there must be one, or none; None: as the checkpoint has it.
        """
        return self.linears(x, [(name, outputs)], inputs, bias)[0]

    def linears(
        self, x: Value, parts: Sequence[tuple[str, int]], inputs: int | None = None, bias: bool | None = None
    ) -> list[Value]:
        """Several layers of the same input, by names and outputs: one product, if their weights are of one kind."""
        width = self.hidden if inputs is None else inputs
        blobs = [self.weights.matrix(name, rows, width) for name, rows in parts]
        biases = [self._bias(name, rows, bias) for name, rows in parts]
        one = _joined(blobs)
        if one is None:
            return [self.product(x, blob, add, name) for blob, add, (name, _) in zip(blobs, biases, parts, strict=True)]
        both = None
        if any(add is not None for add in biases):
            zeros = [np.zeros(rows, np.float32) for _, rows in parts]
            both = np.concatenate([z if add is None else add for add, z in zip(biases, zeros, strict=True)])
        y = self.product(x, one, both, "+".join([parts[0][0], *(n.rpartition(".")[2] for n, _ in parts[1:])]))
        return self.split(y, [rows for _, rows in parts])

    def split(self, x: Value, sizes: Sequence[int]) -> list[Value]:
        """Parts of the features."""
        if len(sizes) == 1:
            return [x]
        return list(self.b.Split(x, axis=-1, sizes=tuple(sizes), n_outputs=len(sizes)))

    def _bias(self, name: str, size: int, wanted: bool | None) -> Array | None:
        there = self.weights.has(f"{name}.bias")
        if wanted is False or (wanted is None and not there):
            return None
        return self.weights.vector(f"{name}.bias", size)

    def product(self, x: Value, blob: Blob, bias: Array | None, name: str) -> Value:
        """x w^T + bias, with numbers that are there."""
        add = None if bias is None else Value.constant(bias, f"{name}.bias")
        made: Value = self.b.Linear(x, Value.constant(blob, f"{name}.weight"), add, names=(name,))
        return made

    def rms_norm(self, x: Value, name: str, size: int | None = None, added: float = 0.0) -> Value:
        """x divided by its root mean square, times factors.

        Args:
            added: to the factors.
        """
        factors = self.weights.vector(f"{name}.weight", self.hidden if size is None else size) + np.float32(added)
        epsilon = self.settings.real("rms_norm_eps", default=1e-6, least=0)
        made: Value = self.b.RMSNorm(x, Value.constant(factors, f"{name}.weight"), epsilon=epsilon)
        return made

    def layer_norm(self, x: Value, name: str, epsilon: float) -> Value:
        """x without its mean, divided by its deviation, times factors, plus a bias."""
        factors, bias = (self.weights.vector(f"{name}.{what}", self.hidden) for what in ("weight", "bias"))
        made: Value = self.b.LayerNorm(x, factors, bias, epsilon=epsilon)
        return made

    def normalized(self, y: Value) -> Value:
        """Vectors of length 1, where the checkpoint is for such; else as they are."""
        if not self.checkpoint.normalize:
            return y
        norm = self.b.Sqrt(self.b.ReduceSum(self.b.Mul(y, y), axes=(1,), keepdims=True))
        made: Value = self.b.Div(y, self.b.Max(norm, _LEAST_NORM))
        return made

    def activation(self, x: Value, default: str = "silu") -> Value:
        """The function between the two products of a layer."""
        name = self.settings.text("hidden_activation", "hidden_act", "activation_function", default=default)
        return self.function(x, name)

    def function(self, x: Value, name: str) -> Value:
        """A function of each element, by the name that config.json has for it. Raises UnsupportedError."""
        if name == "quick_gelu":
            made: Value = self.b.Mul(x, self.b.Sigmoid(self.b.Mul(x, np.float32(1.702))))
            return made
        if name not in ACTIVATIONS:
            hint = f"known are {', '.join(ACTIVATIONS)}, quick_gelu"
            raise UnsupportedError(
                f"the activation '{name[:40]}' is not supported", where=self.settings.where, hint=hint
            )
        op, attrs = ACTIVATIONS[name]
        return self.b.node(op, [x], attrs).output

    def gated(self, x: Value, name: str, size: int, gate: str = "gate_proj", up: str = "up_proj",
              down: str = "down_proj") -> Value:  # fmt: skip
        """down(activation(gate(x)) * up(x)), `size` features wide."""
        a, c = self.linears(x, [(f"{name}.{gate}", size), (f"{name}.{up}", size)])
        return self.linear(self.b.Mul(self.activation(a), c), f"{name}.{down}", self.hidden, size)

    # ---- attention -----------------------------------------------------------------------------------------------

    def by_heads(self, x: Value, heads: int) -> Value:
        """[rows, heads, size]."""
        made: Value = self.b.Reshape(x, np.array([-1, heads, self.head_size]))
        return made

    def flat(self, x: Value) -> Value:
        """[rows, features]."""
        shape = [d for d in (x.type.shape or ())[1:] if isinstance(d, int)]
        made: Value = self.b.Reshape(x, np.array([-1, prod(shape)]))
        return made

    def rotary(self, size: int | None = None, base: float = 10000.0, layer_type: str = "") -> Rotary:
        """Turns queries and keys by their positions.

        Args:
            size: features of a head that are turned; by default as the hyperparameters say.
            base: where they do not say it.
        """
        own = self.settings
        theta = own.real("rope_theta", default=base, least=1e-3, most=1e15)
        if size is None:
            share = own.real("partial_rotary_factor", default=1.0, least=0, most=1)
            scaling = own.section("rope_parameters")
            if scaling is not None and "partial_rotary_factor" in scaling:
                share = scaling.real("partial_rotary_factor", least=0, most=1)
            size = own.integer("rotary_dim", default=int(self.head_size * share), most=self.head_size)
        found = frequencies(own, size, theta, layer_type)
        if self.weights.has("rope_freqs.weight"):  # GGUF: factors that are computed already
            factors = self.weights.vector("rope_freqs.weight", size // 2)
            found = Frequencies(found.steps / factors, found.scale)
        return Rotary(self, found, size)

    def row_lengths(self) -> Value:
        """The length of the sequence that each row belongs to, i32[tokens]."""
        b = self.b
        ends = b.Slice(self.starts, np.array([1]), np.array([np.iinfo(np.int32).max]))
        begins = b.Slice(self.starts, np.array([0]), np.array([-1]))
        length = b.Add(self.lengths, b.Sub(ends, begins))
        count = b.Squeeze(b.Cast(b.Shape(self.ids), to=DType.I32), axes=(0,))
        rows = b.Unsqueeze(b.Range(np.int32(0), count, np.int32(1)), axes=(1,))
        sequence = b.ReduceSum(b.Cast(b.LessOrEqual(b.Unsqueeze(ends, axes=(0,)), rows), to=DType.I32), axes=(1,),
                               keepdims=False)  # fmt: skip
        # Rows behind the last sequence are of none: any length will do.
        last = b.Sub(b.Squeeze(b.Cast(b.Shape(length), to=DType.I32), axes=(0,)), np.int32(1))
        found: Value = b.Gather(length, b.Min(sequence, last))
        return found

    def turned(self, x: Value, cos: Value, sin: Value, size: int) -> Value:
        """Heads [rows, heads, head size], the first `size` features of each turned by angles [rows, 1, size / 2]."""
        made: Value = self.b.RotaryEmbedding(x, cos, sin, size=0 if size == self.head_size else size)
        return made

    def plain_rotary(self, base: float) -> Rotary:
        """The same for whole heads, without whatever makes contexts longer."""
        table = {k: v for k, v in self.settings.table.items() if k not in ("rope_scaling", "rope_parameters")}
        return Rotary(self, frequencies(Settings(table, self.settings.where), self.head_size, base), self.head_size)

    def attention(
        self, layer: int, q: Value, k: Value, v: Value, *, scale: float | None = None, window: int = 0,
        soft_cap: float = 0.0,
    ) -> Value:  # fmt: skip
        """Each query with the keys of its sequence up to its own place; [tokens, heads * size] each.

        Args:
            layer: whose cache keys and values go to.
            window: keys that a query sees; 0: all.
            soft_cap: limit of the scores; 0: none.
        """
        types = cache_types("cache_blocks", self.kv_heads, self.block, self.head_size, self.head_size, self.cache)
        names = [f"{what}_cache.{layer}" for what in ("key", "value")]
        keys, values = (self._input_of(name, type) for name, type in zip(names, types, strict=True))
        y, *after = self.b.PagedAttention(
            q, k, v, keys, values, self.starts, self.lengths, self.blocks,
            num_heads=self.heads, num_kv_heads=self.kv_heads, scale=scale or self.head_size**-0.5,
            window=window, soft_cap=soft_cap,
        )  # fmt: skip
        self.states += zip(names, (keys, values), after, strict=True)
        return y  # type: ignore[no-any-return]

    # ---- the end -------------------------------------------------------------------------------------------------

    def last(self, x: Value) -> Value:
        """Only the rows whose logits are wanted."""
        found: Value = self.b.Gather(x, self.rows, axis=0)
        return found

    def logits(self, x: Value, embedding: str, head: str = "lm_head", soft_cap: float = 0.0) -> None:
        """The output: a product with the table of the embedding, or with a matrix of its own."""
        tied = self.settings.flag("tie_word_embeddings", default=not self.weights.has(f"{head}.weight"))
        y = self.linear(x, embedding if tied else head, self.vocab, bias=None if not tied else False)
        if soft_cap:
            y = self.b.Mul(self.b.Tanh(self.b.Div(y, np.float32(soft_cap))), np.float32(soft_cap))
        self.outputs.append(("logits", y))

    def model(self) -> Model:
        """The model that is made."""
        meta = {}
        if not self.states:
            meta = {"minnow.llm.kind": "rerank" if self.scores else "embed"}
            if not self.scores:
                meta |= {
                    "minnow.llm.pooling": self.pooling,
                    "minnow.llm.normalize": str(int(self.checkpoint.normalize)),
                }
        outputs = [*self.outputs, *((f"{name}.next", after) for name, _, after in self.states)]
        self.graph.outputs = [value for _, value in outputs]
        for name, value in outputs:
            value.name = name
        made = [(name, value.type) for name, value in outputs]
        states = [State(name, f"{name}.next", _empty(before.type)) for name, before, _ in self.states]
        return Model(self.graph, self.inputs, made, source="llm", metadata=meta, states=states)


class Rotary:
    """Turns heads by the positions of their tokens; the angles are computed once for all layers.

    Args:
        step: the graph.
        found: how fast they turn.
        size: features of a head that are turned.
    """

    def __init__(self, step: Step, found: Frequencies, size: int) -> None:
        b = self.b = step.b
        self.step, self.size = step, size
        positions = b.Unsqueeze(b.Cast(step.positions, to=DType.F32), axes=(1, 2))
        steps: Any = found.steps.reshape(1, 1, -1)
        if found.beyond is not None or found.grows is not None:
            steps = self._by_length(found)
        angles = b.Mul(positions, steps)
        tables = [b.Cos(angles), b.Sin(angles)]
        self.cos, self.sin = (t if found.scale == 1 else b.Mul(t, np.float32(found.scale)) for t in tables)

    def _by_length(self, found: Frequencies) -> Value:
        """The steps of each token, which depend on the length of its sequence: f32[tokens, 1, pairs]."""
        b = self.b
        lengths = b.Unsqueeze(self.step.row_lengths(), axes=(1, 2))
        near = found.steps.reshape(1, 1, -1)
        if found.beyond is not None:
            chosen: Value = b.Where(b.Greater(lengths, np.int32(found.reach)), found.beyond.reshape(1, 1, -1), near)
            return chosen
        assert found.grows is not None
        exponent, factor = found.grows
        # The base times (factor * length / reach - (factor - 1))^exponent, and steps are powers of 1 / base.
        share = b.Div(b.Cast(b.Max(lengths, np.int32(found.reach)), to=DType.F32), np.float32(found.reach))
        growth = b.Sub(b.Mul(share, np.float32(factor)), np.float32(factor - 1))
        pairs = found.steps.size
        powers = (-exponent * np.arange(pairs) / pairs).astype(np.float32).reshape(1, 1, -1)
        made: Value = b.Mul(b.Pow(growth, powers), near)
        return made

    def __call__(self, x: Value, heads: int) -> Value:
        """x [rows, heads * size], turned."""
        return self.step.flat(self.turn(self.step.by_heads(x, heads)))

    def turn(self, x: Value) -> Value:
        """x [rows, heads, size], turned."""
        return self.step.turned(x, self.cos, self.sin, self.size)


ACTIVATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "silu": ("Silu", {}),
    "swish": ("Silu", {}),
    "relu": ("Relu", {}),
    "gelu": ("Gelu", {}),
    "gelu_new": ("Gelu", {"approximate": "tanh"}),
    "gelu_fast": ("Gelu", {"approximate": "tanh"}),
    "gelu_pytorch_tanh": ("Gelu", {"approximate": "tanh"}),
}
"""Functions by the names that config.json has for them."""


def _empty(type: TensorType) -> Array:
    """A cache without blocks."""
    return np.zeros((0, *(d for d in (type.shape or ())[1:] if isinstance(d, int))), type.dtype.numpy)


def _joined(blobs: Sequence[Blob]) -> Blob | None:
    """Matrices one below the other as one; None where they are stored in different ways."""
    if len(blobs) == 1:
        return blobs[0]
    packed = [b for b in blobs if isinstance(b, QuantizedBlob)]
    if packed:
        return joined(packed) if len(packed) == len(blobs) else None
    halves = {b.stored if isinstance(b, RoundedBlob) else None for b in blobs}
    if len(halves) > 1:
        return None
    shape = (sum(b.shape[0] for b in blobs), *blobs[0].shape[1:])
    together = LazyBlob(lambda: np.concatenate([np.asarray(b.numpy(), np.float32) for b in blobs]), DType.F32, shape)
    stored = halves.pop()
    return together if stored is None else RoundedBlob(together, stored)
