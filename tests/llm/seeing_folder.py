"""A folder of a model that sees, as transformers writes it, with tokenizer, chat template and processor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch_architectures  # noqa: F401  (it makes up for the operators of torchvision that are missing)
import transformers
from language_families import IMAGE_TOKEN, VOCABULARY, saved, seeing
from tokenizers import Tokenizer, models

LETTERS = "".join(map(chr, range(32, 32 + IMAGE_TOKEN - 3)))
TEMPLATE = (
    "{% for message in messages %}{{ message['role'].upper() + ': ' }}"
    "{% for part in message['content'] | selectattr('type', 'equalto', 'image') %}{{ '<image>' }}{% endfor %}"
    "{% for part in message['content'] | selectattr('type', 'equalto', 'text') %}{{ part['text'] + ' ' }}{% endfor %}"
    "{% endfor %}{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}"
)
"""In the form of LLaVA's own: contents are lists, and images stand in front of texts."""


def of_pillow(name: str) -> Any:
    """The class of a processor of images that computes with Pillow; older versions call it as those for torchvision."""
    return getattr(transformers, f"{name}Pil", None) or getattr(transformers, name)


def _tokenizer() -> Any:
    """A token for each character."""
    words = ["<s>", "</s>", "<unk>", *LETTERS]
    more = [f"<{i}>" for i in range(IMAGE_TOKEN + 1, VOCABULARY)]
    vocabulary = {word: i for i, word in enumerate([*words, "<image>", *more])}
    made = Tokenizer(models.BPE(vocabulary, [], unk_token="<unk>"))
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, bos_token="<s>", eos_token="</s>", unk_token="<unk>",
        additional_special_tokens=["<image>"], clean_up_tokenization_spaces=False,
    )  # fmt: skip


def seeing_folder(folder: Path, template: str = TEMPLATE, text: str = "llama", **changes: Any) -> tuple[Any, Any]:
    """Writes a folder; its model and processor of transformers."""
    model = seeing(text, "CLIPVision", **changes)
    model.generation_config.eos_token_id = model.config.eos_token_id = 1
    vision = model.config.vision_config
    size = vision.image_size
    images = of_pillow("CLIPImageProcessor")(size={"shortest_edge": size}, crop_size={"height": size, "width": size})
    processor = transformers.LlavaProcessor(
        images, _tokenizer(), patch_size=vision.patch_size, vision_feature_select_strategy="default",
        chat_template=template, num_additional_image_tokens=1,
    )  # fmt: skip
    saved(model, folder)
    processor.save_pretrained(folder)
    return model, processor
