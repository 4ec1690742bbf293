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


def _safetensors(shapes: dict[str, tuple[int, ...]]) -> bytes:
    """A file of random numbers."""
    rng, table, data = np.random.default_rng(5), {}, b""
    for name, shape in shapes.items():
        numbers = rng.standard_normal(shape).astype(np.float16).tobytes()
        table[name] = {"dtype": "F16", "shape": list(shape), "data_offsets": [len(data), len(data) + len(numbers)]}
        data += numbers
    head = json.dumps(table).encode()
    return struct.pack("<Q", len(head)) + head + data


def _config() -> dict[str, Any]:
    return {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": _HIDDEN, "num_hidden_layers": 1,
        "num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": _SIZE, "vocab_size": _VOCABULARY,
        "rms_norm_eps": 1e-5, "max_position_embeddings": 64, "hidden_act": "silu", "tie_word_embeddings": True,
        "bos_token_id": 1, "eos_token_id": [2],
        "rope_scaling": {"rope_type": "llama3", "factor": 2.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                         "original_max_position_embeddings": 32},
    }  # fmt: skip


def model_folders() -> list[bytes]:
    """The same model as Hugging Face has it."""
    from torch_damage import archive_of

    config = _config()
    yarn = config | {"rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}}
    files = {
        _WEIGHTS: _safetensors(_tensors()),
        _TOKENIZER: json.dumps({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}}).encode(),
    }
    return [archive_of({_CONFIG: json.dumps(c).encode(), **files}) for c in (config, yarn)]


def damaged_model_folder(files: Files, _: Files, dice: random.Random) -> None:
    """Hyperparameters, or the table of tensors, are others."""
    name = dice.choice((_CONFIG, _CONFIG, _WEIGHTS, _WEIGHTS, _TOKENIZER))
    change = damaged_tensors if name == _WEIGHTS else damaged_document
    files[name] = change(files.get(name, b""), dice)


_PIXELS, _PATCH, _EYES, _ROWS = 8, 4, 16, 4
_TOWER = "vision_tower.vision_model."


def _eyes() -> dict[str, tuple[int, ...]]:
    """Tensors of CLIP's encoder of images with one layer, and of the two layers behind it."""
    square, row = (_EYES, _EYES), (_EYES,)
    found: dict[str, tuple[int, ...]] = {
        f"{_TOWER}embeddings.class_embedding": row,
        f"{_TOWER}embeddings.patch_embedding.weight": (_EYES, 3, _PATCH, _PATCH),
        f"{_TOWER}embeddings.position_embedding.weight": (_ROWS + 1, _EYES),
    }
    for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
        found |= {f"{_TOWER}encoder.layers.0.self_attn.{name}.weight": square}
        found |= {f"{_TOWER}encoder.layers.0.self_attn.{name}.bias": row}
    norms = ("pre_layrnorm", "post_layernorm", "encoder.layers.0.layer_norm1", "encoder.layers.0.layer_norm2")
    found |= {f"{_TOWER}{name}.{part}": row for name in norms for part in ("weight", "bias")}
    products = {
        f"{_TOWER}encoder.layers.0.mlp.fc1": (24, _EYES), f"{_TOWER}encoder.layers.0.mlp.fc2": (_EYES, 24),
        "multi_modal_projector.linear_1": (_HIDDEN, _EYES), "multi_modal_projector.linear_2": (_HIDDEN, _HIDDEN),
    }  # fmt: skip
    for name, (outputs, inputs) in products.items():
        found |= {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}
    return found


_PREPROCESSOR = "preprocessor_config.json"


def seeing_folders() -> list[bytes]:
    """The same model with an encoder of images, in LLaVA's way."""
    from torch_damage import archive_of

    vision = {
        "model_type": "clip_vision_model", "hidden_size": _EYES, "intermediate_size": 24, "num_hidden_layers": 1,
        "num_attention_heads": 2, "image_size": _PIXELS, "patch_size": _PATCH, "hidden_act": "quick_gelu",
    }  # fmt: skip
    config = {
        "model_type": "llava", "text_config": _config(), "vision_config": vision, "image_token_index": _VOCABULARY - 1,
        "vision_feature_layer": -1, "vision_feature_select_strategy": "default", "projector_hidden_act": "gelu",
        "tie_word_embeddings": True, "multimodal_projector_bias": True,
    }  # fmt: skip
    processor = {
        "image_processor_type": "CLIPImageProcessor", "do_resize": True, "size": {"shortest_edge": _PIXELS},
        "do_center_crop": True, "crop_size": {"height": _PIXELS, "width": _PIXELS}, "resample": 3,
        "image_mean": [0.5, 0.5, 0.5], "image_std": [0.25, 0.25, 0.25], "rescale_factor": 0.00392156862745098,
    }  # fmt: skip
    language = {f"language_model.{name}": shape for name, shape in _tensors().items()}
    files = {
        _CONFIG: json.dumps(config).encode(),
        _PREPROCESSOR: json.dumps(processor).encode(),
        _WEIGHTS: _safetensors({**language, **_eyes()}),
    }
    return [archive_of(files)]


def damaged_seeing_folder(files: Files, _: Files, dice: random.Random) -> None:
    """Hyperparameters, how images are made ready, or the table of tensors are others."""
    name = dice.choice((_CONFIG, _CONFIG, _WEIGHTS, _PREPROCESSOR))
    change = damaged_tensors if name == _WEIGHTS else damaged_document
    files[name] = change(files.get(name, b""), dice)


def pictures() -> list[bytes]:
    """Images in the forms that prompts may have."""
    import io

    import PIL.Image

    image = PIL.Image.fromarray(np.random.default_rng(6).integers(0, 256, (9, 14, 3)).astype(np.uint8))
    found = []
    for form, mode in (("PNG", "RGB"), ("PNG", "P"), ("PNG", "LA"), ("JPEG", "RGB"), ("BMP", "RGB"), ("WEBP", "RGB")):
        file = io.BytesIO()
        image.convert(mode).save(file, form)
        found.append(file.getvalue())
    return found
