"""From a checkpoint to a folder with everything that running a language model needs."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from minnow.conversion_report import Clock, Report, path_bytes, readable_size
from minnow.convert import optimized
from minnow.llm.description import DESCRIPTION, MODEL, TOKENIZER, VISION, Description
from minnow.llm.image.description import ImageDescription
from minnow.output import replaced, writing
from minnow.output_folder import check_options, filled, folder_of
from minnow.schema.collector import SeldomCollected
from minnow.schema.errors import UsageError
from minnow.schema.notice import Notice
from minnow.written_file import PACKED

if TYPE_CHECKING:
    from minnow.converter.llm.checkpoint import Checkpoint
    from minnow.optimizer.effect import Effect
    from minnow.options.convert import ConvertOptions
    from minnow.quantize import Compression
    from minnow.schema.ir import Model

_log = logging.getLogger("minnow.convert")
_TAKEN = frozenset(
    {"output", "framework", "optimize", "passes", "explain", "target", "compression", "verify", "progress", "biz_code",
     "side_file", "trust", "mnn_llm", "prepack"}
)  # fmt: skip
"""Options of a conversion that apply to language models."""
_PARTS = "a language model is a folder: graph, weights, tokenizer and description"


def convert_folder(source: Path, options: ConvertOptions) -> Report:
    """Converts a checkpoint to a folder.

    Args:
        source: a GGUF file, or a folder of Hugging Face or MNN-LLM.
        options: those of `minnow.convert`; the target is Minnow's engine, unless `mnn_llm` asks for MNN's.

    Raises:
        UsageError: an option does not apply, or the output is no folder to write to.
        FormatError, ModelError: the checkpoint is damaged.
        UnsupportedError: its architecture, or a type of its tensors, is not known.
        WriteError: the folder cannot be written.
        VerifyError: the results of the engine differ from those of the checkpoint.
    """
    check_options(source, options, _TAKEN, "language models")
    if options.mnn_llm and options.prepack:
        raise UsageError("`--prepack` is for Minnow's engine, and `--mnn-llm` for MNN's", where=str(source))
    folder = folder_of(source, options.output, _PARTS)
    _log.info("convert %s to %s", source, folder)
    step = Clock(options.progress or (lambda name: None))

    from minnow.converter.file.door import guarded
    from minnow.converter.llm.build import build
    from minnow.converter.llm.checkpoint import open_checkpoint
    from minnow.converter.llm.mnn.step import step_for_mnn
    from minnow.llm.mnn_folder import MnnFolder
    from minnow.optimizer.effect import effect_of
    from minnow.optimizer.rewrite.lineage import Lineage

    options = replace(options, target="mnn" if options.mnn_llm else "minnow")
    with guarded(source), SeldomCollected():
        with step("read"):
            checkpoint = open_checkpoint(source)
            mnn = None
            if options.mnn_llm:
                mnn, model = step_for_mnn(checkpoint)
            else:
                model = build(checkpoint)
        before = effect_of(model.graph)
        summary, log = optimized(model, source, options, step, Lineage())
        eyes = None if checkpoint.sight is None else _eyes(checkpoint, source, options, step)
        if mnn is not None:
            if options.compression is not None:
                with step("quantize"):
                    model = _compressed(model, options.compression, for_mnn=True)
            written, after = MnnFolder(mnn, model).write(folder, step, options)
        else:
            written, model, after = _write(checkpoint, model, eyes, folder, options, step)
    report = Report(
        source=str(source),
        output=str(folder),
        framework=f"{model.source}, {checkpoint.model_type}",
        source_bytes=path_bytes(source),
        output_bytes=written,
        nodes_before=summary.before,
        nodes_after=summary.after,
        before=before,
        after=after,
        seconds=step.seconds,
        notices=list(model.notices),
        statistics=summary.statistics,
        explained=log.reasons,
        applied=log.applications,
        unused={name: why for name, why in log.unused.items() if why},
    )
    report.log()
    return report


def _eyes(checkpoint: Checkpoint, source: Path, options: ConvertOptions, step: Clock) -> Model:
    """The graph of the encoder of images, optimized."""
    from minnow.converter.llm.llava import image_graph
    from minnow.optimizer.rewrite.lineage import Lineage

    model = image_graph(checkpoint)
    optimized(model, source, options, step, Lineage())
    return model


def _write(
    checkpoint: Checkpoint, model: Model, eyes: Model | None, folder: Path, options: ConvertOptions, step: Clock
) -> tuple[int, Model, Effect]:
    """Writes the folder of a model whose graph is optimized. Either all files are there or none.

    Returns:
        The bytes, the model as it was written, and what its graph costs: packed products are convolutions in the file,
        and products again when it is loaded.

    Raises:
        UnsupportedError: there is nothing to quantize, or the tokenizer is of a kind that is not known.
        WriteError: it cannot be written.
        VerifyError: the engine gives other results than the reference implementation does of the checkpoint.
    """
    from minnow.llm.proof import compare, write_packed
    from minnow.optimizer.effect import effect_of
    from minnow.optimizer.quantize.pack import place_packed
    from minnow.schema.mnn import save
    from minnow.schema.mnn.side_file import SUFFIX, side_path

    described = description_of(checkpoint, model, eyes)
    if options.compression is not None:
        with step("quantize"):
            model = _compressed(model, options.compression)
    after = effect_of(model.graph)
    with step("pack"):
        place_packed(model.graph)
    with step("tokenizer"):
        tokenizer = None if checkpoint.tokenizer is None else checkpoint.tokenizer()
    if tokenizer is None:
        model.notices.append(Notice("the source has no tokenizer: the model takes and gives numbers", "no-tokenizer"))
    with filled(folder), ExitStack() as stack:
        # What is entered first is moved to its place last: without a description there is no model.
        parts = {name: stack.enter_context(replaced(folder / name)) for name in (DESCRIPTION, TOKENIZER)}
        path = stack.enter_context(replaced(folder / MODEL, beside=(SUFFIX, PACKED)))
        vision = None if eyes is None else stack.enter_context(replaced(folder / VISION, beside=(SUFFIX, PACKED)))
        with step("write"), writing(folder):
            size = save(model, path, biz_code=options.biz_code, side_file=True)
            if eyes is not None and vision is not None:
                size += save(eyes, vision, biz_code=options.biz_code, side_file=True)
            size += parts[DESCRIPTION].write_text(described.text(), encoding="utf-8")
            size += parts[TOKENIZER].write_text(tokenizer or "{}\n", encoding="utf-8")
        assert side_path(path).exists()
        if options.verify:
            with step("verify"):
                lossy = options.compression is not None
                model.notices.append(compare(checkpoint, path, vision, described, lossy))
        if options.prepack:
            with step("prepack"):
                packed = write_packed(path, vision, described)
            text = f"packed weights ({readable_size(packed)}) are in the companion file {MODEL}{PACKED}"
            model.notices.append(Notice(text, "companion-file"))
    return size, model, after


def _compressed(model: Model, compression: Compression, for_mnn: bool = False) -> Model:
    """The model with smaller weights, where the source has floats."""
    from minnow.optimizer.quantize.compress import Compressor, check_compressible

    compressor = Compressor(model, replace(compression.recipe, for_mnn=for_mnn))
    check_compressible(compressor, model)
    return compressor.apply()[0]


def description_of(checkpoint: Checkpoint, model: Model, eyes: Model | None) -> Description:
    """What `llm.json` says of a model."""
    from minnow.converter.llm.build import sizes_of
    from minnow.converter.llm.llava import image_token

    sizes = sizes_of(checkpoint)
    kind = model.metadata.get("minnow.llm.kind", "generate")
    pooling = model.metadata.get("minnow.llm.pooling", "")
    image = None
    if eyes is not None and checkpoint.sight is not None:
        (_, pixels), (_, rows) = eyes.inputs[0], eyes.outputs[0]
        sizes_of_image = {"size": (pixels.shape or ())[-1], "rows": (rows.shape or ())[1]}
        table = {"token": image_token(checkpoint), **sizes_of_image, **checkpoint.sight.preprocessing}
        image = ImageDescription.of(table, str(checkpoint.path))
    return Description(
        architecture=checkpoint.model_type,
        name=checkpoint.name,
        vocab_size=sizes.vocab,
        hidden_size=sizes.hidden,
        layers=sizes.layers,
        heads=sizes.heads,
        kv_heads=sizes.kv_heads,
        head_size=sizes.head_size,
        context=sizes.context,
        block=sizes.block,
        bos=_known(checkpoint.bos, sizes.vocab),
        eos=[t for t in checkpoint.eos if _known(t, sizes.vocab) is not None],
        add_bos=checkpoint.add_bos,
        chat_template=checkpoint.chat_template,
        kind=kind,  # type: ignore[arg-type]
        pooling=pooling,  # type: ignore[arg-type]
        normalize=model.metadata.get("minnow.llm.normalize") == "1",
        image=image,
    )


def _known(token: int | None, vocab: int) -> int | None:
    return token if token is not None and token < vocab else None
