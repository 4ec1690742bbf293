"""A GGUF file as a checkpoint: its tensors as Hugging Face has them."""

from __future__ import annotations

import json
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from minnow.converter.llm.checkpoint import Checkpoint, Settings
from minnow.converter.llm.gguf.hyperparameter import hyperparameters, long_rope, pooling
from minnow.converter.llm.gguf.name import EXPERTS, layer_prefix, renamed, split_name
from minnow.converter.llm.gguf.reader import Entry, GgufFile
from minnow.schema.errors import FormatError, ModelError
from minnow.schema.ir import Blob, DType, LazyBlob, QuantizedBlob, RoundedBlob, UnreadBlob

Array = npt.NDArray[Any]

_ONE_ADDED = ("gemma2", "gemma3_text")
"""Families whose norms are stored with 1 added to the factors."""
_INTERLEAVED = ("llama", "mixtral")
"""Families in whose queries and keys the two halves of a head are interleaved."""


def open_gguf(path: Path) -> Checkpoint:
    """Reads what a file says of a model, without its numbers. Raises FormatError, ModelError, UnsupportedError."""
    file = GgufFile(path)
    meta = file.metadata
    settings = Settings(hyperparameters(meta, str(path)), str(path))
    template = meta.get("tokenizer.chat_template")
    tensors = _Tensors(file, settings).found
    short, long = (tensors.pop(f"rope_factors_{k}.weight", None) for k in ("short", "long"))
    if short is not None and long is not None:
        scaling = long_rope(meta, *(np.asarray(b.numpy(), np.float64).reshape(-1).tolist() for b in (short, long)))
        settings = Settings({**settings.table, "rope_scaling": scaling}, str(path))
    return Checkpoint(
        path,
        settings,
        tensors,
        name=str(meta.get("general.name") or path.stem),
        tokenizer=partial(_tokenizer, file) if "tokenizer.ggml.model" in meta else None,
        chat_template=template if isinstance(template, str) else None,
        bos=_token(meta, "bos"),
        eos=[t for t in dict.fromkeys(_token(meta, k) for k in ("eos", "eot")) if t is not None],
        add_bos=_adds_bos(meta),
        pooling=pooling(meta),
        normalize=settings.text("model_type") == "bert",
    )


def _token(meta: dict[str, Any], kind: str) -> int | None:
    found = meta.get(f"tokenizer.ggml.{kind}_token_id")
    return found if type(found) is int and 0 <= found < 1 << 31 else None


def _adds_bos(meta: dict[str, Any]) -> bool:
    """Whether texts begin with `bos`; where the file does not say, those of SentencePiece do."""
    said = meta.get("tokenizer.ggml.add_bos_token")
    return said if isinstance(said, bool) else meta.get("tokenizer.ggml.model") == "llama"


def _tokenizer(file: GgufFile) -> str:
    from minnow.converter.llm.tokenizer.gguf import from_gguf

    plain = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in file.metadata.items()}
    return json.dumps(from_gguf(plain), ensure_ascii=False) + "\n"


class _Tensors:
    """The tensors of a file under other names, turned to where Hugging Face has them.

    Attributes:
        found: by name.
    """

    def __init__(self, file: GgufFile, settings: Settings) -> None:
        self.file, self.settings = file, settings
        self.type = settings.text("model_type")
        self.found: dict[str, Blob] = {}
        for name, entry in file.entries.items():
            for new, blob in self._of(name, entry):
                if new in self.found:
                    raise FormatError(f"two tensors are '{new}'", where=str(file.path))
                self.found[new] = blob

    def _of(self, name: str, entry: Entry) -> list[tuple[str, Blob]]:
        kind = split_name(name)
        if kind is not None and kind[1] in EXPERTS.get(self.type, ("", {}))[1]:
            return self._experts(entry, *kind)
        new, blob = renamed(name, self.type), self.file.blob(entry)
        if self.type in _INTERLEAVED and kind is not None and kind[1] in ("attn_q", "attn_k"):
            which = "num_attention_heads" if kind[1] == "attn_q" else "num_key_value_heads"
            heads = self.settings.integer(which, "num_attention_heads")
            return [(new, _deinterleaved(blob, heads, f"{self.file.path}, tensor '{name}'"))]
        if self.type in _ONE_ADDED and new.endswith("norm.weight"):
            return [(new, LazyBlob(lambda: blob.numpy() - np.float32(1), DType.F32, tuple(blob.shape)))]
        if self.type == "gpt2" and kind is not None and kind[2] == "weight" and kind[0] and entry.shape[1:]:
            return [(f"{new}.turned", blob)]  # Hugging Face's layers of this family have their matrices on their side
        return [(new, blob)]

    def _experts(self, entry: Entry, layer: str, what: str, suffix: str) -> list[tuple[str, Blob]]:
        """The matrices of all experts, one by one."""
        place, names = EXPERTS[self.type]
        prefix = layer_prefix(self.type, layer)
        count = self.settings.integer("num_local_experts", "num_experts", most=4096)
        if len(entry.shape) != 3 or entry.shape[0] != count:
            raise ModelError(f"a tensor of {count} experts has the shape {entry.shape}", where=f"tensor '{entry.name}'")
        size = entry.size // count
        made = []
        for i in range(count):
            one = Entry(entry.name, entry.shape[1:], entry.type, entry.offset + i * size)
            made.append((f"{prefix}{place}.{i}.{names[what]}.{suffix}", self.file.blob(one)))
        return made


def _deinterleaved(blob: Blob, heads: int, where: str) -> Blob:
    """Rows of heads whose halves are interleaved, as halves one after the other: packed rows stay packed."""
    rows = blob.shape[0]
    if rows % (2 * heads):
        raise ModelError(f"{rows} rows are no {heads} heads of two halves", where=where)
    order = np.arange(rows).reshape(heads, rows // heads // 2, 2).swapaxes(1, 2).reshape(-1)
    if not isinstance(blob, QuantizedBlob):
        moved = LazyBlob(lambda: blob.numpy()[order], blob.dtype, tuple(blob.shape))
        return RoundedBlob(moved, blob.stored) if isinstance(blob, RoundedBlob) else moved
    count, length = blob.groups
    each = prod(blob.shape) // length // rows

    def read() -> tuple[Array, Array, Array | None]:
        codes, scale, low = (None if p is None else p.reshape(rows, each, *p.shape[1:])[order] for p in blob.parts())
        assert codes is not None
        assert scale is not None
        return codes.reshape(count, length), scale.reshape(-1), None if low is None else low.reshape(-1)

    return UnreadBlob(read, (count, length), blob.bits, blob.shape, half=blob.scale_type is DType.F16, low=blob.has_low)
