"""Adapters of low rank (LoRA): small matrices that change the products of a language model, in PEFT's folders.

The product with a matrix W becomes one with W + scale * up * down. Matrices of float32 are added; where a file has them
in few bits, two small products stand beside the large one.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np

from minnow.converter.llm.checkpoint import Settings
from minnow.converter.llm.folder import read_json
from minnow.converter.llm.safetensors import read_tensors
from minnow.llm.description import MODEL
from minnow.schema.errors import FormatError, ModelError, UnsupportedError
from minnow.schema.ir import DType, Graph, LazyBlob, Node, Value
from minnow.schema.mnn import read_file, save
from minnow.schema.ops import Builder

Array = np.ndarray[Any, Any]

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_PREFIX = "base_model.model."
_PART = re.compile(r"(.+)\.lora_(A|B)(?:\.default)?\.weight")
_MATRIX = ".weight"
_REFUSED = {
    "use_dora": "DoRA, which scales the rows of the sum, is not supported",
    "lora_bias": "biases of adapters are not supported",
    "modules_to_save": "whole layers in an adapter are not supported",
    "layer_replication": "layers that an adapter repeats are not supported",
    "use_bdlora": "adapters of blocks are not supported",
}


@dataclass(frozen=True)
class LowRank:
    """What an adapter adds to the matrix [outputs, inputs] of a layer: up @ down.

    Attributes:
        down: f32 [rank, inputs]. up: f32 [outputs, rank], times the scale.
    """

    down: Array
    up: Array


@dataclass(frozen=True)
class Adapter:
    """An adapter: what it adds to layers, by their names in the checkpoint that it was trained for."""

    path: Path
    layers: Mapping[str, LowRank]


def open_adapter(folder: Path, scale: float = 1.0) -> Adapter:
    """Reads the folder of an adapter, as PEFT writes it.

    Args:
        folder: with adapter_config.json and adapter_model.safetensors.
        scale: times the scale that the adapter has itself.

    Raises:
        FormatError, ModelError: a file is missing, damaged, or does not fit the other.
        UnsupportedError: an adapter of another kind.
    """
    if not folder.is_dir():
        hint = f"a folder with {CONFIG} and {WEIGHTS}, as PEFT writes it"
        raise FormatError("the adapter is no folder", where=str(folder), hint=hint)
    settings = Settings(read_json(folder / CONFIG), str(folder / CONFIG))
    _check_kind(settings)
    path = folder / WEIGHTS
    if not path.is_file():
        raise FormatError(f"{WEIGHTS} is missing", where=str(folder), hint="save it with safe_serialization=True")
    parts: dict[str, dict[str, Array]] = {}
    for name, blob in read_tensors(path).items():
        found = _PART.fullmatch(name)
        if found is None or not name.startswith(_PREFIX):
            why = "only pairs lora_A and lora_B of products are"
            raise UnsupportedError(f"the adapter's tensor '{name[:120]}' is not supported", where=str(path), why=why)
        if len(blob.shape) != 2:
            raise ModelError(f"the tensor '{name[:120]}' has the shape {list(blob.shape)}", where=str(path))
        parts.setdefault(found[1].removeprefix(_PREFIX), {})[found[2]] = np.asarray(blob.numpy(), np.float32)
    if not parts:
        raise FormatError("the adapter is empty", where=str(path))
    return Adapter(folder, {name: _layer(name, pair, settings, scale, path) for name, pair in parts.items()})


def _check_kind(settings: Settings) -> None:
    """Raises UnsupportedError for adapters that compute something else."""
    kind = settings.text("peft_type", default="LORA")
    if kind != "LORA":
        raise UnsupportedError(f"adapters of the kind '{kind[:40]}' are not supported", where=settings.where)
    for name, why in _REFUSED.items():
        if settings.raw(name):
            raise UnsupportedError(why, where=settings.where)
    if settings.text("bias", default="none") != "none":
        raise UnsupportedError("biases of adapters are not supported", where=settings.where)


def _layer(name: str, pair: Mapping[str, Array], settings: Settings, scale: float, path: Path) -> LowRank:
    if len(pair) < 2:
        raise ModelError(f"'{name[:120]}' has only one matrix of two", where=str(path))
    down, up = pair["A"], pair["B"]
    rank = int(_own(settings, "rank_pattern", name, settings.integer("r", most=1 << 20)))
    if down.shape[0] != rank or up.shape[1] != rank:
        why = f"its matrices are {list(down.shape)} and {list(up.shape)}"
        raise ModelError(f"'{name[:120]}' is not of the rank {rank}", where=str(path), why=why)
    alpha = _own(settings, "alpha_pattern", name, settings.real("lora_alpha", default=float(rank)))
    share = sqrt(rank) if settings.flag("use_rslora", default=False) else rank
    if not (np.isfinite(down).all() and np.isfinite(up).all()):
        raise ModelError(f"'{name[:120]}' has numbers that are not finite", where=str(path))
    return LowRank(down, up * np.float32(scale * alpha / share))


def _own(settings: Settings, table: str, name: str, default: float) -> float:
    """What a table of the configuration says of a layer: its keys are endings of names."""
    section = settings.section(table)
    for key in () if section is None else section.table:
        if not re.fullmatch(r"[\w.]+", key):
            raise UnsupportedError(f"an expression in {table} is not supported", where=settings.where, why=key[:80])
        assert section is not None
        if name == key or name.endswith(f".{key}"):
            return section.real(key, least=0)
    return default


@contextmanager
def adapted(folder: Path, adapter: Adapter) -> Iterator[Path]:
    """A folder with the step graph of a language model that an adapter has changed, as long as the context lasts.

    Args:
        folder: of the model.

    Raises:
        ModelError: the adapter is for another model.
    """
    model = read_file(folder / MODEL)
    adapt(model.graph, adapter)
    with tempfile.TemporaryDirectory(prefix="minnow-") as place:
        save(model, Path(place) / MODEL, side_file=True)
        yield Path(place)


def adapt(graph: Graph, adapter: Adapter) -> None:
    """Changes the products of a step graph; those that are joined, such as queries, keys and values, in their parts.

    Raises:
        ModelError: the adapter is for another model: it has layers that the graph has not, or of other sizes.
    """
    used: set[str] = set()
    for node in [node for part in graph.walk() for node in part]:
        layers = {name: adapter.layers.get(name) for name in _names(node)}
        if any(layer is not None for layer in layers.values()):
            used.update(layers)
            _change(node, layers, adapter)
    if missing := [name for name in adapter.layers if name not in used]:
        more = f", and {len(missing) - 1} more" if len(missing) > 1 else ""
        why = f"there is no product '{missing[0][:120]}'{more}"
        hint = "folders of an older conversion do not name their products: convert the checkpoint again"
        raise ModelError("the adapter is for another model", where=str(adapter.path), why=why, hint=hint)


def _names(node: Node) -> list[str]:
    """The layers whose matrices a product has: "a.q_proj+k_proj" are a.q_proj and a.k_proj."""
    if node.op == "Raw":  # a matrix in few bits
        joined = node.outputs[0].name if node.attrs["type"] == "Convolution" else ""
    elif node.op in ("Linear", "MatMul") and node.has_input(1) and node.input(1).is_const:
        joined = node.input(1).name
    else:
        return []
    first, *rest = joined.removesuffix(_MATRIX).split("+")
    prefix = first.rpartition(".")[0]
    return [first, *(f"{prefix}.{name}" for name in rest)]


def _change(node: Node, layers: Mapping[str, LowRank | None], adapter: Adapter) -> None:
    raw = node.op == "Raw"
    turned = node.op == "MatMul" and not node.attrs.get("transpose_b")
    if raw:
        common = node.attrs["main"].get("common", {})
        outputs, inputs = int(common.get("outputCount", 0)), int(common.get("inputCount", 0))
        result = node.outputs[0].users[0].outputs[0]
    else:
        outputs, inputs = [int(d) for d in node.input(1).type.shape or ()][:: -1 if turned else 1]
        result = node.output
    down, up = _joined(layers, _sizes(result, len(layers), outputs), inputs, adapter)
    if raw:
        _add_beside(node, result, down, up)
        return
    matrix = node.input(1)
    blob = matrix.data
    assert blob is not None

    def sum() -> Array:
        change = up @ down
        return np.asarray(blob.numpy() + (change.T if turned else change), np.float32)

    node.set_input(1, Value.constant(LazyBlob(sum, DType.F32, tuple(blob.shape)), matrix.name))


def _sizes(result: Value, count: int, outputs: int) -> list[int]:
    """The outputs of each layer of a product: as the node behind it splits them."""
    if count == 1:
        return [outputs]
    splits = [user for user in result.users if user.op == "Split"]
    sizes = [int(n) for n in splits[0].attrs.get("sizes") or ()] if splits else []
    if len(sizes) != count or sum(sizes) != outputs:
        raise ModelError(f"the product '{result.name[:120]}' has other parts than its name says")
    return sizes


def _joined(
    layers: Mapping[str, LowRank | None], sizes: list[int], inputs: int, adapter: Adapter
) -> tuple[Array, Array]:
    """One pair of matrices for a product of several layers: each reaches only its own outputs."""
    ranks = [0 if layer is None else len(layer.down) for layer in layers.values()]
    down, up = np.zeros((sum(ranks), inputs), np.float32), np.zeros((sum(sizes), sum(ranks)), np.float32)
    for (name, layer), (row, size), (column, rank) in zip(layers.items(), _begins(sizes), _begins(ranks), strict=True):
        if layer is None:
            continue
        if layer.down.shape[1] != inputs or len(layer.up) != size:
            own = f"{layer.down.shape[1]} and {len(layer.up)}"
            why = f"'{name}' has {inputs} inputs and {size} outputs, in the adapter {own}"
            raise ModelError("the adapter is for another model", where=str(adapter.path), why=why)
        down[column : column + rank] = layer.down
        up[row : row + size, column : column + rank] = layer.up
    return down, up


def _begins(sizes: list[int]) -> Iterator[tuple[int, int]]:
    return zip(np.cumsum([0, *sizes]).tolist(), sizes, strict=False)


def _add_beside(node: Node, result: Value, down: Array, up: Array) -> None:
    """Adds the products with the two small matrices to that with the large one."""
    image, flat = node.input(0).producer, result.producer
    if image is None or image.op != "Reshape" or flat is None or flat.op != "Reshape" or flat.graph is None:
        raise ModelError(f"the product '{node.outputs[0].name[:120]}' is in no form that an adapter can change")
    uses = list(result.uses)
    b = Builder(flat.graph, flat.next, "lora")
    total = b.Add(result, b.Linear(b.Linear(image.input(0), down), up))
    if result.is_output:
        total.name, result.name = result.name, ""
    for user, i in uses:
        user.set_input(i, total)
