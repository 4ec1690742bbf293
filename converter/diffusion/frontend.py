"""The frontend of diffusion pipelines: their graphs are built, not translated."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from minnow.converter.base import Description, Frontend, Port
from minnow.converter.formats.diffusion import FORMAT
from minnow.schema.errors import UsageError
from minnow.schema.ir import Model


def _read(path: Path, **options: Any) -> Model:
    """The graph that removes noise, which is most of a pipeline."""
    from minnow.converter.diffusion.pipeline import open_pipeline
    from minnow.converter.diffusion.unet import unet

    if options["inputs"].say_more or options.get("batch") is not None:
        raise UsageError("the inputs of a diffusion pipeline are fixed: `--input` and `--batch` do not apply to it")
    return unet(open_pipeline(path).unet)


def _describe(path: Path) -> Description:
    from minnow.converter.diffusion.pipeline import graphs, open_pipeline

    pipeline = open_pipeline(path)
    made = graphs(pipeline)
    operators = Counter(node.op for model in made.values() for node in model.graph)
    return Description(
        versions={},
        producer="",
        operators=dict(operators.most_common()),
        inputs=[
            Port(f"{part}.{n}", t.dtype.value, list(t.shape or ())) for part, m in made.items() for n, t in m.inputs
        ],
        outputs=[
            Port(f"{part}.{n}", t.dtype.value, list(t.shape or ())) for part, m in made.items() for n, t in m.outputs
        ],
        size=sum(p.stat().st_size for p in path.rglob("*") if p.suffix in (".safetensors", ".json")),
        versioned="latent diffusion",
    )


frontend = Frontend(FORMAT, _read, _describe)
