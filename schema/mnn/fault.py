"""What the reader and the writer throw at themselves: it collects its path on its way up, and costs nothing before."""

from __future__ import annotations


class Fault(Exception):  # noqa: N818, as it never leaves this folder
    """Something is wrong with a value; `offset` is its place in the file, if there is a file."""

    def __init__(self, why: str, offset: int | None = None) -> None:
        super().__init__(why)
        self.why = why
        self.offset = offset
        self.steps: list[str] = []

    def inside(self, step: str) -> Fault:
        """Adds an outer step, `.field` or `[index]`, to the path."""
        self.steps.append(step)
        return self

    def where(self, root: str) -> str:
        """`Net.oplists[3].main.weight, byte 1234`."""
        path = root + "".join(reversed(self.steps))
        return path if self.offset is None else f"{path}, byte {self.offset}"


class RangeFault(Fault):
    """A number of the model is out of the range of its field in the file, so that it cannot be written."""
