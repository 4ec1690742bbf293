"""A latent diffusion pipeline as diffusers has it: a folder with one for each of its parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from minnow.converter.diffusion.text import encoder
from minnow.converter.diffusion.unet import unet
from minnow.converter.diffusion.vae import decoder
from minnow.converter.formats.diffusion import INDEX
from minnow.converter.llm.checkpoint import Checkpoint, Settings
from minnow.converter.llm.folder import read_json, tensors_of
from minnow.converter.llm.tokenizer.folder import from_folder
from minnow.schema.errors import FormatError, ModelError, UnsupportedError
from minnow.schema.ir import Model

_PIPELINES = ("StableDiffusionPipeline",)
_PARTS = {"text_encoder": "CLIPTextModel", "unet": "UNet2DConditionModel", "vae": "AutoencoderKL"}
"""The parts with tensors, and their classes."""
_FILES = ("model", "diffusion_pytorch_model", "model.fp16", "diffusion_pytorch_model.fp16")


@dataclass
class Pipeline:
    """A pipeline.

    Attributes:
        path: the folder. name: of it.
        text, unet, vae: its models.
        scheduler: the settings of the scheduler, whose class is "_class_name".
        tokens: those of the tokenizer.
        tokenizer: gives the content of `tokenizer.json`.
    """

    path: Path
    name: str
    text: Checkpoint
    unet: Checkpoint
    vae: Checkpoint
    scheduler: Settings
    tokens: Settings
    tokenizer: Callable[[], str]


def open_pipeline(path: Path) -> Pipeline:
    """Reads what a folder says of a pipeline, without its numbers.

    Raises:
        FormatError, ModelError: it is damaged, or a part is missing.
        UnsupportedError: it is of another kind, or has a part of one.
    """
    index = read_json(path / INDEX)
    kind = str(index.get("_class_name"))
    if kind not in _PIPELINES:
        hint = f"supported are {', '.join(_PIPELINES)}"
        raise UnsupportedError(f"pipelines of the kind '{kind[:60]}' are not supported", where=str(path), hint=hint)
    for part, wanted in {**_PARTS, "scheduler": "", "tokenizer": ""}.items():
        entry = index.get(part)
        if not isinstance(entry, list) or len(entry) != 2 or not isinstance(entry[1], str):
            raise FormatError(f"the pipeline has no {part}", where=str(path / INDEX))
        if wanted and entry[1] != wanted:
            hint = f"supported is {wanted}"
            raise UnsupportedError(
                f"the {part} is a {entry[1][:60]}, which is not supported", where=str(path), hint=hint
            )
    text, unet, vae = (_part(path / part, kind) for part, kind in _PARTS.items())
    folder = path / "tokenizer"
    if not folder.is_dir():
        raise FormatError("the folder tokenizer is missing", where=str(path))
    scheduler = path / "scheduler" / "scheduler_config.json"
    return Pipeline(
        path,
        path.resolve().name,
        text,
        unet,
        vae,
        Settings(read_json(scheduler), str(scheduler)),
        _tokens(folder),
        partial(_tokenizer, folder),
    )


def graphs(pipeline: Pipeline) -> dict[str, Model]:
    """The graphs of its models by name. Raises UnsupportedError, ModelError."""
    _check_fit(pipeline)
    return {
        "text_encoder": encoder(pipeline.text),
        "unet": unet(pipeline.unet),
        "vae_decoder": decoder(pipeline.vae),
    }


def _part(path: Path, kind: str) -> Checkpoint:
    config = read_json(path / "config.json")
    settings = Settings({"model_type": kind, **config}, str(path / "config.json"))
    name = next(
        (n for n in _FILES if any((path / f"{n}.safetensors{more}").is_file() for more in ("", ".index.json"))), ""
    )
    if not name:
        hint = "weights in .bin files run code when they are read: download those in safetensors"
        raise FormatError("the weights are missing", where=str(path), hint=hint)
    return Checkpoint(path, settings, tensors_of(path, name))


def _tokens(folder: Path) -> Settings:
    """What tokenizer_config.json and special_tokens_map.json say."""
    found: dict[str, Any] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        found |= {k: v for k, v in read_json(folder / name, optional=True).items() if v is not None}
    return Settings(found, str(folder / "tokenizer_config.json"))


def _tokenizer(folder: Path) -> str:
    file = folder / "tokenizer.json"
    if not file.is_file():
        return from_folder(folder)
    read_json(file)
    return file.read_text(encoding="utf-8")


def _check_fit(pipeline: Pipeline) -> None:
    """Raises ModelError, or UnsupportedError, if the models do not fit each other."""
    latent = pipeline.vae.settings.integer("latent_channels", default=4)
    into, out = (pipeline.unet.settings.integer(f"{n}_channels", default=4) for n in ("in", "out"))
    where = str(pipeline.path)
    if into != latent:
        hint = "pipelines that make pictures of texts are; those that change pictures are not"
        raise UnsupportedError(
            f"a UNet that takes {into} channels is not supported", where=where, why=f"latent images have {latent}",
            hint=hint,
        )  # fmt: skip
    width = pipeline.text.settings.integer("hidden_size")
    wanted = pipeline.unet.settings.integer("cross_attention_dim", default=1280)
    if out != into or width != wanted:
        why = f"the UNet gives {out} channels of {into}, and reads texts of {wanted} features, not {width}"
        raise ModelError("the models of the pipeline do not fit each other", where=where, why=why)
