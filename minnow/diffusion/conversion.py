"""From a folder of diffusers to one with everything that making pictures needs."""

from __future__ import annotations

import json
import logging
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from minnow.conversion_report import Clock, Report, path_bytes
from minnow.convert import optimized
from minnow.diffusion.description import DESCRIPTION, TOKENIZER, Description
from minnow.diffusion.scheduler import Noise
from minnow.output import replaced, writing
from minnow.output_folder import check_options, filled, folder_of
from minnow.schema.collector import SeldomCollected
from minnow.schema.errors import ModelError

if TYPE_CHECKING:
    from minnow.converter.diffusion.pipeline import Pipeline
    from minnow.options.convert import ConvertOptions
    from minnow.schema.ir import Model

_log = logging.getLogger("minnow.convert")
_TAKEN = frozenset(
    {"output", "framework", "optimize", "target", "verify", "progress", "biz_code", "side_file", "trust"}
)
"""Options of a conversion that apply to diffusion pipelines."""
_PARTS = "a diffusion pipeline is a folder: several graphs, weights, tokenizer and description"
_LONGEST = 1 << 16
_MOST_LATENT = 1 << 12


def convert_folder(source: Path, options: ConvertOptions) -> Report:
    """Converts a pipeline of diffusers to a folder.

    Args:
        source: the folder of the pipeline.
        options: those of `minnow.convert`; the target is always Minnow's engine.

    Raises:
        UsageError: an option does not apply, or the output is no folder to write to.
        FormatError, ModelError: the pipeline is damaged.
        UnsupportedError: it, a part of it, or a setting is of a kind that is not known.
        WriteError: the folder cannot be written.
        VerifyError: the results of the engine differ from those of the pipeline.
    """
    check_options(source, options, _TAKEN, "diffusion pipelines")
    folder = folder_of(source, options.output, _PARTS)
    _log.info("convert %s to %s", source, folder)
    step = Clock(options.progress or (lambda name: None))

    from minnow.converter.diffusion.pipeline import graphs, open_pipeline
    from minnow.converter.file.door import guarded
    from minnow.optimizer.effect import effect_of
    from minnow.optimizer.rewrite.lineage import Lineage

    options = replace(options, target="minnow")
    with guarded(source), SeldomCollected():
        with step("read"):
            pipeline = open_pipeline(source)
            described = description_of(pipeline)
            made = graphs(pipeline)
        before = {name: effect_of(model.graph) for name, model in made.items()}
        done = {name: optimized(model, source, options, step, Lineage())[0] for name, model in made.items()}
        written, notices = _write(pipeline, described, made, folder, step, options)
    main = "unet"
    report = Report(
        source=str(source),
        output=str(folder),
        framework="latent diffusion",
        source_bytes=path_bytes(source),
        output_bytes=written,
        nodes_before=_added(*(summary.before for summary in done.values())),
        nodes_after=_added(*(summary.after for summary in done.values())),
        before=before[main],
        after=effect_of(made[main].graph),
        seconds=step.seconds,
        notices=[*notices, *(notice for model in made.values() for notice in model.notices)],
    )
    report.log()
    return report


def description_of(pipeline: Pipeline) -> Description:
    """What `diffusion.json` says of a pipeline. Raises FormatError, ModelError, UnsupportedError."""
    from minnow.converter.diffusion.net import whole_numbers

    Noise.of(pipeline.scheduler.table, where=pipeline.scheduler.where)
    scale, levels = (
        len(whole_numbers(part.settings, "block_out_channels")) - 1 for part in (pipeline.vae, pipeline.unet)
    )
    vocab = pipeline.text.settings.integer("vocab_size", most=1 << 28)
    length = pipeline.text.settings.integer("max_position_embeddings", default=77, most=_LONGEST)
    size = pipeline.unet.settings
    is_list = isinstance(size.raw("sample_size"), list)
    given = whole_numbers(size, "sample_size", 2) if is_list else [size.integer("sample_size", default=64)] * 2
    rows, columns = (min(n, _MOST_LATENT) for n in given)
    step = 1 << scale + levels
    table = {k: v for k, v in pipeline.scheduler.table.items() if type(v) in (int, float, bool, str)}
    return Description(
        name=pipeline.name,
        channels=pipeline.vae.settings.integer("latent_channels", default=4),
        scale=1 << scale,
        step=step,
        height=max(rows << scale, step) // step * step,
        width=max(columns << scale, step) // step * step,
        scaling=pipeline.vae.settings.real("scaling_factor", default=0.18215, least=1e-9),
        shift=pipeline.vae.settings.real("shift_factor", default=0.0),
        length=min(length, pipeline.tokens.integer("model_max_length", default=length, most=1 << 128)),
        vocab_size=vocab,
        padding=_padding(pipeline, vocab),
        scheduler={k: v for k, v in table.items() if k == "_class_name" or not k.startswith("_")},
    )


def _padding(pipeline: Pipeline, vocab: int) -> int:
    """The token that fills texts. Raises FormatError, ModelError."""
    from minnow.llm.tokenizer import Tokenizer

    entry = pipeline.tokens.raw("pad_token")
    name = entry.get("content") if isinstance(entry, dict) else entry
    if not isinstance(name, str):
        raise ModelError("the tokenizer names no token that fills texts", where=pipeline.tokens.where)
    token = Tokenizer.from_json(pipeline.tokenizer(), str(pipeline.path / "tokenizer")).id(name)
    if token is None or token >= vocab:
        raise ModelError(f"the token '{name[:40]}' is not in the vocabulary", where=pipeline.tokens.where)
    return token


def _write(
    pipeline: Pipeline, described: Description, made: dict[str, Model], folder: Path, step: Clock,
    options: ConvertOptions,
) -> tuple[int, list[str]]:  # fmt: skip
    """Writes the folder of a pipeline whose graphs are optimized. Either all files are there or none.

    Returns:
        The bytes, and what came of the comparison.

    Raises:
        WriteError: it cannot be written. VerifyError: the engine gives other results than the reference implementation.
    """
    from minnow.diffusion.proof import compare
    from minnow.schema.mnn import save
    from minnow.schema.mnn.side_file import SUFFIX

    with step("tokenizer"):
        tokenizer = json.loads(pipeline.tokenizer())
        tokenizer |= {"padding": None, "truncation": None}  # texts are filled and cut off when they are known
    notices: list[str] = []
    with filled(folder), ExitStack() as stack:
        # What is entered first is moved to its place last: without a description there is no pipeline.
        parts = {name: stack.enter_context(replaced(folder / name)) for name in (DESCRIPTION, TOKENIZER)}
        files = {name: stack.enter_context(replaced(folder / f"{name}.mnn", beside=(SUFFIX,))) for name in made}
        with step("write"), writing(folder):
            size = sum(
                save(model, files[name], biz_code=options.biz_code, side_file=True) for name, model in made.items()
            )
            size += parts[DESCRIPTION].write_text(described.text(), encoding="utf-8")
            size += parts[TOKENIZER].write_text(json.dumps(tokenizer, ensure_ascii=False) + "\n", encoding="utf-8")
        if options.verify:
            with step("verify"):
                notices.append(compare(pipeline, files, described))
    return size, notices


def _added(*counts: dict[str, int]) -> dict[str, int]:
    """Numbers of nodes of several graphs."""
    found: dict[str, int] = {}
    for table in counts:
        for name, count in table.items():
            found[name] = found.get(name, 0) + count
    return found
