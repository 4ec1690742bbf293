"""What a model file may make of itself: the one place of the limits that readers, folding and the optimizer ask.

A file of a kilobyte can stand for more nodes or numbers than any machine holds: functions that call the next one twice,
constants joined with themselves. Nothing of that kind is computed: a limit grows with the file, from a floor that no
sensible small file reaches, and an error says which one it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from math import prod
from pathlib import Path

from minnow.schema.errors import ModelError


@dataclass(frozen=True)
class Limits:
    """The defaults. Bytes of the file are those of the model and of the weights that lie in its folder.

    Attributes:
        nodes, nodes_per_byte: nodes that reading a file may make: inlined calls, branches, loop iterations. Beyond
            the floor, one for so many bytes.
        computed_bytes, computed_per_byte: of all the numbers that are computed while it is read, and of constants that
            the optimizer makes of others.
        constant_bytes, constant_per_byte: of one value that depends on constants only. A larger one is refused: some
            program would have to compute it, since it is not stored.
        folded_elements: of the operands and results of a node that is replaced by its numbers.
        window: a padding, kernel or dilation of such a node.
        lazy_depth: how often constants are made of constants that are computed only when they are written.
        run_nodes: that the loops of a model may run, where their rounds are known, for it to be compared with its
            source.
        elements: of one tensor, whatever it is for: the sizes in bytes stay below 2^63.
    """

    nodes: int = 50_000
    nodes_per_byte: float = 1.0
    computed_bytes: int = 256 << 20
    computed_per_byte: int = 32
    constant_bytes: int = 1 << 30
    constant_per_byte: int = 16
    folded_elements: int = 4096
    window: int = 4096
    lazy_depth: int = 40
    run_nodes: int = 20_000_000
    elements: int = 1 << 56


LIMITS = Limits()
_LONGEST = 200
"""Characters of names that are not counted, and of what a message says of a place."""
_BLOCK, _SMALL = 512, 1 << 20
_COPIES = 4
"""That a node, its results and their errors make of a name."""


class Meter:
    """What is left of the limits while one file is read or optimized.

    Args:
        file_bytes: of the model.
    """

    def __init__(self, file_bytes: int, limits: Limits = LIMITS) -> None:
        self.file_bytes = file_bytes
        self.most_nodes = limits.nodes + int(file_bytes * limits.nodes_per_byte)
        self.most_bytes = limits.computed_bytes + file_bytes * limits.computed_per_byte
        self.nodes = self.bytes = self.stored = 0
        self.most_stored = limits.constant_bytes + file_bytes * limits.constant_per_byte
        self.beside: set[Path] = set()

    def add_nodes(self, count: int, where: str = "") -> None:
        """Counts nodes that are made. Raises ModelError when there are too many for the file."""
        self.nodes += count
        if self.nodes > self.most_nodes:
            raise self._error(f"more than {self.most_nodes:,} nodes", where)

    def add_bytes(self, count: int, where: str = "") -> None:
        """Counts bytes of numbers that are computed. Raises ModelError when they are too many for the file."""
        self.bytes += count
        if self.bytes > self.most_bytes:
            raise self._error(f"more than {self.most_bytes >> 20:,} MiB of constants and names", where)

    def add_stored(self, count: int, path: Path | None, where: str = "") -> None:
        """Counts bytes of numbers that lie in the file, or in one beside it, which the limit then grows with.

        Tensors may share their bytes, also in part; what is written of them does not. Raises ModelError when they come
        to far more than there is.
        """
        if path is not None and path not in self.beside:
            self.beside.add(path)
            self.most_stored += LIMITS.constant_per_byte * _stored(path)
        self.stored += count
        if self.stored > self.most_stored:
            raise self._error(f"more than {self.most_stored >> 20:,} MiB of weights", where)

    def takes(self, count: int) -> bool:
        """Whether so many bytes may be computed; they are counted then."""
        if self.bytes + count > self.most_bytes:
            return False
        self.bytes += count
        return True

    def _error(self, what: str, where: str) -> ModelError:
        return ModelError(
            "the model becomes far larger than its file",
            where=where[:_LONGEST],
            why=f"{what} are made from a file of {self.file_bytes:,} bytes: calls, branches or constants multiply",
            hint="export the model with its loops and calls written "
            "out and its constants stored; the limits are in `minnow.schema.limit`",
        )


_current: ContextVar[Meter | None] = ContextVar("meter", default=None)


def meter() -> Meter | None:
    """The meter of the file that is being read or optimized; None outside of that."""
    return _current.get()


@contextmanager
def metered(file_bytes: int, nodes: bool = True) -> Iterator[Meter]:
    """Counts what is made in the block against the limits of a file of that size.

    Args:
        nodes: also nodes; the optimizer, which moves them about, has limits of its own for what it writes out.
    """
    made = Meter(file_bytes)
    if not nodes:
        made.most_nodes = 1 << 62
    token = _current.set(made)
    try:
        yield made
    finally:
        _current.reset(token)


def add_nodes(count: int, where: str = "") -> None:
    """Counts nodes where something is being read. Raises ModelError when there are too many."""
    current = _current.get()
    if current is not None:
        current.add_nodes(count, where)


def add_bytes(count: int, where: str = "") -> None:
    """Counts bytes of computed numbers where something is being read. Raises ModelError when they are too many."""
    current = _current.get()
    if current is not None:
        current.add_bytes(count, where)


def add_stored(count: int, path: Path | None = None, where: str = "") -> None:
    """Counts bytes of weights in a file where something is being read.

    Args:
        path: the file, if it is another one than the model's.

    Raises:
        ModelError: tensors share the bytes of the file again and again.
    """
    current = _current.get()
    if current is not None:
        current.add_stored(count, path, where)


def add_name(name: str) -> str:
    """The name of a node or value that a reader puts together, where something is being read: its bytes are counted.

    A function that is called under a long name hands it on to everything in it. Raises ModelError when there are too
    many bytes.
    """
    current = _current.get()
    if current is not None and len(name) > _LONGEST:
        current.add_bytes(_COPIES * len(name), name)
    return name


def check_shape(shape: tuple[int, ...], where: str = "") -> None:
    """Raises ModelError for dimensions that no tensor has, also beside a dimension of 0, which multiplies them away."""
    if any(d < 0 for d in shape):
        raise ModelError(f"the shape {shape} has a negative dimension", where=where)
    if len(shape) > 64 or prod(d for d in shape if d) > LIMITS.elements:
        raise ModelError(f"no tensor has the shape {str(shape)[:200]}", where=where, why="it is too large")


def file_bytes(path: Path) -> int:
    """Bytes of a model that are stored: of the file, or of all files in a folder; holes in them are none."""
    try:
        if path.is_dir():
            return sum(_stored(p) for p in path.rglob("*") if p.is_file())
        return _stored(path)
    except OSError:
        return 0


def _stored(path: Path) -> int:
    found = path.stat()
    if found.st_size <= _SMALL or not hasattr(found, "st_blocks"):  # not every system tells it
        return found.st_size
    return min(found.st_size, max(found.st_blocks * _BLOCK, _SMALL))


__all__ = [
    "LIMITS", "Limits", "Meter", "add_bytes", "add_name", "add_nodes", "add_stored", "check_shape", "file_bytes",
    "meter", "metered",
]  # fmt: skip
