"""What a PyTorch file says of itself, without translating it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from minnow.converter.base import Description, Port
from minnow.converter.torch.program import Input
from minnow.converter.torch.reader import open_program


def describe(path: Path) -> Description:
    """Raises FormatError for what is no PyTorch program."""
    program = open_program(path, find=False)
    operators = Counter(node.target for node in program.block.all_nodes())
    names = program.outputs or []
    outputs = [Port(name or f"output_{i}", "?", None) for i, name in enumerate(names or [None])]
    return Description(
        {program.source: 1},
        f"PyTorch {program.version}".rstrip(),
        dict(operators),
        [_port(i) for i in program.inputs],
        outputs,
        path.stat().st_size,
    )


def _port(i: Input) -> Port:
    if i.type is None:
        return Port(i.name, (i.number or int).__name__, [])
    return Port(i.name, str(i.type.dtype.value), None if i.type.shape is None else list(i.type.shape))
