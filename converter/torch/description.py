"""What a PyTorch file declares, without converting it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from minnow.converter.base import Description, Port
from minnow.converter.torch.program.program import Input, Ref
from minnow.converter.torch.reader import open_program
from minnow.schema.ir import TensorType


def describe(path: Path, trust: bool = False) -> Description:
    """Raises FormatError for what is no PyTorch program. Args: trust: as of `reader.read`."""
    program = open_program(path, trust=trust)
    operators = Counter(node.target for node in program.block.all_nodes())
    results = program.block.results
    names = program.outputs or []
    if len(names) != len(results):
        names = [None] * len(results)
    types = {i.param: i.type for i in program.inputs} | {
        k: t for n in program.block.nodes for k, t in n.declared.items()
    }
    outputs = [
        _out(
            name or (f"output_{i}" if len(results) > 1 else "output"), types.get(r.name) if isinstance(r, Ref) else None
        )
        for i, (name, r) in enumerate(zip(names, results, strict=True))
    ]
    return Description(
        {program.source: 1},
        f"PyTorch {program.version}".rstrip(),
        dict(operators),
        [_port(i) for i in program.inputs],
        outputs,
        path.stat().st_size,
    )


def _out(name: str, type: TensorType | None) -> Port:
    if type is None:
        return Port(name, "?", None)
    return Port(name, str(type.dtype.value), None if type.shape is None else list(type.shape))


def _port(i: Input) -> Port:
    if i.type is None:
        return Port(i.name, (i.number or int).__name__, [])
    return Port(i.name, str(i.type.dtype.value), None if i.type.shape is None else list(i.type.shape))
