"""Language models as GGUF files and as folders, which are put into an archive here, and changes of what they say."""

from __future__ import annotations

import json
import random
import struct
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from fuzz.members import Files, damaged_document, damaged_tensors
from fuzz.tables import NUMBERS, damaged_bytes

_CONFIG, _WEIGHTS, _TOKENIZER = "config.json", "model.safetensors", "tokenizer.json"
_HIDDEN, _SIZE, _VOCABULARY = 32, 64, 12
_HEADER = 4096
"""Bytes of a file that say what it is; behind them are numbers, of which any will do."""


def _tensors() -> dict[str, tuple[int, ...]]:
    layer = {
        "input_layernorm": (_HIDDEN,), "post_attention_layernorm": (_HIDDEN,), "self_attn.q_proj": (_HIDDEN, _HIDDEN),
        "self_attn.k_proj": (_HIDDEN // 2, _HIDDEN), "self_attn.v_proj": (_HIDDEN // 2, _HIDDEN),
        "self_attn.o_proj": (_HIDDEN, _HIDDEN), "mlp.gate_proj": (_SIZE, _HIDDEN), "mlp.up_proj": (_SIZE, _HIDDEN),
        "mlp.down_proj": (_HIDDEN, _SIZE),
    }  # fmt: skip
    named = {f"model.layers.0.{name}.weight": shape for name, shape in layer.items()}
    return {"model.embed_tokens.weight": (_VOCABULARY, _HIDDEN), "model.norm.weight": (_HIDDEN,), **named}


_GGUF = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}  # fmt: skip


def gguf_files() -> list[bytes]:
    """A model of one layer with weights of each simple type, and with vocabularies of both kinds."""
    return [_gguf(kind, model) for kind, model in (("F32", "llama"), ("Q4_1", "gpt2"), ("Q8_0", "llama"))]


def _gguf(kind: str, model: str) -> bytes:
    from gguf import GGMLQuantizationType, GGUFWriter
    from gguf.quants import quantize

    rng = np.random.default_rng(3)
    with tempfile.TemporaryDirectory() as folder:
        file = GGUFWriter(Path(folder, "model.gguf"), "llama")
        for name, value in (
            ("context_length", 64), ("embedding_length", _HIDDEN), ("block_count", 1), ("feed_forward_length", _SIZE),
            ("head_count", 2), ("head_count_kv", 1), ("rope_dimension_count", _HIDDEN // 2),
        ):  # fmt: skip
            getattr(file, f"add_{name}")(value)
        file.add_layer_norm_rms_eps(1e-5)
        file.add_rope_freq_base(1e4)
        tokens = ["<unk>", "<s>", "</s>", *(chr(97 + i) for i in range(_VOCABULARY - 4)), "ab"]
        file.add_tokenizer_model(model)
        file.add_token_list(tokens)
        file.add_token_types([2, 3, 3, *[1] * (_VOCABULARY - 3)])
        if model == "llama":
            file.add_token_scores([0.0] * _VOCABULARY)
        else:
            file.add_tokenizer_pre("gpt-2")
            file.add_token_merges(["a b"])
        file.add_bos_token_id(1)
        file.add_eos_token_id(2)
        for name, shape in _tensors().items():
            part, _, suffix = name.removeprefix("model.layers.0.").rpartition(".")
            new = f"{'blk.0.' * ('layers' in name)}{_GGUF[part]}.{suffix}"
            numbers = rng.standard_normal(shape).astype(np.float32)
            if kind == "F32" or len(shape) == 1:
                file.add_tensor(new, numbers)
            else:
                type_ = GGMLQuantizationType[kind]
                file.add_tensor(new, quantize(numbers, type_), raw_dtype=type_)
        file.write_header_to_file()
        file.write_kv_data_to_file()
        file.write_tensors_to_file()
        file.close()
        return Path(folder, "model.gguf").read_bytes()


def damaged_gguf(data: bytes, _: bytes, dice: random.Random) -> bytes:
    """What a file says of itself is something else: its counts, sizes, types, names and places."""
    head = min(len(data), _HEADER)
    if dice.random() < 0.5:
        return damaged_bytes(data[:head], dice) + data[head:]
    copy = bytearray(data)
    for _ in range(dice.choice((1, 1, 2, 4))):
        number = dice.choice((*NUMBERS, *range(40)))
        form = dice.choice(("<Q", "<I"))
        at = dice.randrange(max(1, head - 8))
        copy[at : at + struct.calcsize(form)] = struct.pack(form, number % (1 << 8 * struct.calcsize(form)))
    return bytes(copy[: len(data)])


def model_folders() -> list[bytes]:
    """The same model as Hugging Face has it."""
    from torch_damage import archive_of

    rng, table, data = np.random.default_rng(5), {}, b""
    for name, shape in _tensors().items():
        numbers = rng.standard_normal(shape).astype(np.float16).tobytes()
        table[name] = {"dtype": "F16", "shape": list(shape), "data_offsets": [len(data), len(data) + len(numbers)]}
        data += numbers
    head = json.dumps(table).encode()
    config: dict[str, Any] = {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": _HIDDEN, "num_hidden_layers": 1,
        "num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": _SIZE, "vocab_size": _VOCABULARY,
        "rms_norm_eps": 1e-5, "max_position_embeddings": 64, "hidden_act": "silu", "tie_word_embeddings": True,
        "bos_token_id": 1, "eos_token_id": [2],
        "rope_scaling": {"rope_type": "llama3", "factor": 2.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                         "original_max_position_embeddings": 32},
    }  # fmt: skip
    yarn = config | {"rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}}
    files = {
        _WEIGHTS: struct.pack("<Q", len(head)) + head + data,
        _TOKENIZER: json.dumps({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}}).encode(),
    }
    return [archive_of({_CONFIG: json.dumps(c).encode(), **files}) for c in (config, yarn)]


def damaged_model_folder(files: Files, _: Files, dice: random.Random) -> None:
    """Hyperparameters, or the table of tensors, are others."""
    name = dice.choice((_CONFIG, _CONFIG, _WEIGHTS, _WEIGHTS, _TOKENIZER))
    change = damaged_tensors if name == _WEIGHTS else damaged_document
    files[name] = change(files.get(name, b""), dice)
