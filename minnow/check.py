"""`minnow.check`: checks whether a model can be converted, without converting it."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minnow.converter.formats import find_format
from minnow.options.read import ReadOptions
from minnow.options.signature import takes
from minnow.schema.errors import Refused, UnsupportedError

if TYPE_CHECKING:
    from minnow.converter.base import Description, Port
    from minnow.schema.ir import Model, TensorType


_log = logging.getLogger("minnow.check")


@dataclass
class Check:
    """The result of `check`.

    Attributes:
        source: path of the model file.
        framework: its format.
        description: what the file contains: inputs, outputs, operators, producer, versions.
        symbols: the dynamic dimensions of the graph inputs, "?" for one without a name; `inputs` and `batch` fix them.
        macs: multiply-accumulates of one run, with 1 for a dynamic batch; None if other dynamic dimensions matter.
        macs_note: which dimensions the number depends on, or which values it was counted for.
        refused: what is unsupported: the reason, the nodes, what to try.
    """

    source: str
    framework: str
    description: Description
    symbols: list[str]
    macs: int | None
    macs_note: str
    refused: list[Refused]

    @property
    def convertible(self) -> bool:
        return not self.refused

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        table = asdict(self)
        table["refused"] = [r._asdict() for r in self.refused]
        return {**table, "convertible": self.convertible}

    def __str__(self) -> str:
        d = self.description
        nodes = sum(d.operators.values())
        versions = ", ".join(f"{name} {version}" for name, version in d.versions.items())
        versions = f"{d.versioned} {versions}".strip()
        rows = [
            f"{self.source}: {'can be converted' if self.convertible else 'cannot be converted'}",
            f"  format: {', '.join(filter(None, (self.framework, versions, d.producer and f'by {d.producer}')))}",
            f"  size:   {d.size:,} bytes, {nodes} nodes of {len(d.operators)} operators",
            *(f"  input:  {port}" for port in d.inputs),
            *(f"  output: {port}" for port in d.outputs),
        ]
        if self.symbols:
            rows.append(f"  dims:   {', '.join(self.symbols)} are dynamic (--input and --batch fix them)")
        if self.convertible:
            count = "unknown" if self.macs is None else f"{self.macs:,}"
            rows.append(f"  MACs:   {count}" + (f" ({self.macs_note})" if self.macs_note else ""))
        return "\n".join([*rows, *(f"  - {r}" for r in self.refused)])


@takes(ReadOptions)
def check(source: str | os.PathLike[str], options: ReadOptions) -> Check:
    """Checks whether a model can be converted, without converting it, and lists everything that is unsupported.

    Args:
        source: the model file.
        options:

    Raises:
        FormatError, ModelError: the file cannot be read or is invalid. UsageError: the call is wrong.
    """
    return check_file(Path(source), options)


def check_file(source: Path, options: ReadOptions) -> Check:
    """As `check`."""
    _log.info("read %s", source)
    frontend = find_format(source, options.framework).frontend()
    description = frontend.describe(source, options.companion, options.trust)
    refused: list[Refused] = []
    symbols = _symbols(port.shape for port in description.inputs)
    count, note = None, ""
    reading = options.for_reader()
    if plugins := reading.pop("op_plugins"):
        from minnow.converter import op_plugin

        op_plugin.load(plugins)
    try:
        model = frontend.read(source, **reading)
    except UnsupportedError as e:
        refused = list(e.refused) or [Refused(e.message + (f" ({e.why})" if e.why else ""), (e.where,), e.hint)]
    else:
        symbols = _symbols(type.shape for _, type in model.inputs)
        if options.signature or options.cut_inputs or options.cut_outputs:
            # The description is that of the file's default entry point without cuts.
            description.inputs, description.outputs = map(_ports, (model.user_inputs, model.user_outputs))
        count, note = _macs(model)
    return Check(str(source), frontend.name, description, symbols, count, note, refused)


def _ports(declared: Iterable[tuple[str, TensorType]]) -> list[Port]:
    from minnow.converter.base import Port

    return [Port(n, str(t.dtype), None if t.shape is None else list(t.shape)) for n, t in declared]


def _symbols(shapes: Iterable[Sequence[int | str] | None]) -> list[str]:
    return list(dict.fromkeys(d for shape in shapes for d in shape or () if isinstance(d, str)))


def _macs(model: Model) -> tuple[int | None, str]:
    from minnow.schema.registry.cost import UnknownDimensionError, macs

    # A symbol that is only used as first dimension is a batch.
    first = {t.shape[0] for _, t in model.inputs if t.shape and isinstance(t.shape[0], str)}
    other = {d for _, t in model.inputs for d in (t.shape or ())[1:]}
    batch = sorted(s for s in first - other if isinstance(s, str) and s != "?")
    try:
        count = macs(model.graph, dict.fromkeys(batch, 1))
    except UnknownDimensionError as e:
        what = "dynamic dimensions without a name" if e.symbol == "?" else f"the dimension {e.symbol}"
        return None, f"they depend on {what}"
    return count, f"for {', '.join(f'{s} = 1' for s in batch)}" if batch else ""


__all__ = ["Check", "check"]
