"""What a Caffe file declares, without converting it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from minnow.converter.base import Description, Port
from minnow.converter.caffe.net import declared_inputs, unread_tops
from minnow.converter.caffe.source import open_source


def describe(path: Path, weights: str = "") -> Description:
    """Reads a net's declarations.

    Args:
        weights: the other file of the pair, where it lies somewhere else.

    Raises:
        FormatError: not a Caffe net.
    """
    source = open_source(path, weights)
    inputs = declared_inputs(source.net, source.layers)
    return Description(
        versions={"prototxt": source.form},
        producer="Caffe",
        operators=dict(Counter(layer.type for layer in source.layers).most_common()),
        inputs=[Port(name, "float", None if shape is None else list(shape)) for name, shape in inputs.items()],
        outputs=[Port(name, "float", None) for name in unread_tops(source.layers)],
        size=sum(file.stat().st_size for file in source.files),
    )
