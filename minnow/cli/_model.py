"""Opens a model of any format, `.mnn` included."""

from __future__ import annotations

from pathlib import Path

from minnow.schema.ir import Graph, Model
from minnow.schema.ir.blob import nbytes


def open_model(path: str, weights: str = "") -> Model:
    """The model in a file; `weights` is the other file of a source that is two.

    Raises:
        FormatError: it is of no known format. UsageError: it is one file.
    """
    from minnow.converter.base import detect, detect_readable

    file = Path(path)
    detect_readable(file)
    if file.suffix.lower() == ".mnn":
        import numpy as np

        from minnow.schema.mnn import decode, side_path

        return decode(np.memmap(file, np.uint8, mode="r"), side_path(file))
    return detect(file).read(file, weights=weights)


def weight_bytes(graph: Graph) -> int:
    """Bytes of all constants of a graph and those in it, each blob once."""
    blobs = {id(v.data): v.data for g in graph.walk() for v in g.constants() if v.data is not None}
    return sum(nbytes(b) for b in blobs.values())
