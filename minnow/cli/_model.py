"""Opens a model of any format, `.mnn` included."""

from __future__ import annotations

from minnow.options.read import SourceOptions
from minnow.schema.ir import Graph, Model
from minnow.schema.ir.blob import nbytes


def open_model(path: str, options: SourceOptions = SourceOptions()) -> Model:
    """The model in a file.

    Raises:
        FormatError: the format is unknown. UsageError: a companion file is given for a format without one.
    """
    from minnow.cli._log import step
    from minnow.converter import read

    with step(f"read {path}"):
        return read(path, weights=options.companion, trust=options.trust)


def weight_bytes(graph: Graph) -> int:
    """Bytes of all constants of a graph and its subgraphs; shared weights count once."""
    blobs = {id(v.data): v.data for g in graph.walk() for v in g.constants() if v.data is not None}
    return sum(nbytes(b) for b in blobs.values())
