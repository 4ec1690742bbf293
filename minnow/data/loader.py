"""`Dataset` and `DataLoader`."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from minnow.expr.dtype import to_array
from minnow.expr.names import named
from minnow.expr.var import Var
from minnow.schema.errors import UsageError

Batch = tuple[list[Var], list[Var]]


@named("data", like="torch.utils.data.Dataset")
class Dataset:
    """Examples by their number. A subclass defines `__getitem__` and `__len__`."""

    def __getitem__(self, index: int) -> tuple[Sequence[Any], Sequence[Any]]:
        """One example: a list of inputs and a list of targets, each a Var or an array without an axis for the batch."""
        raise NotImplementedError(f"{type(self).__name__} does not define __getitem__")

    def __len__(self) -> int:
        """Number of examples."""
        raise NotImplementedError(f"{type(self).__name__} does not define __len__")


@named("data", like="torch.utils.data.DataLoader")
class DataLoader:
    """Batches of the examples of a data set, in order or shuffled. The last one may be smaller.

        loader.reset()
        for _ in range(loader.iter_number):
            inputs, targets = loader.next()

    Or `for inputs, targets in loader`, which begins anew. `numpy.random.seed` decides the order.

    Args:
        dataset: a `Dataset`, or what has its two methods.
        batch_size: examples of a batch.
        shuffle: whether each pass has another order.
        num_workers: threads that prepare the next batches meanwhile; 0: none, a batch is made when it is asked for.

    Attributes:
        iter_number: batches of one pass.
        size: examples of one pass.

    Raises:
        UsageError: an argument is wrong.
    """

    def __init__(self, dataset: Any, batch_size: int, shuffle: bool = True, num_workers: int = 0) -> None:
        if not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
            raise UsageError(f"{type(dataset).__name__} is no data set", hint="a subclass of data.Dataset")
        for name, value, least in (("batch_size", batch_size, 1), ("num_workers", num_workers, 0)):
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
                raise UsageError(f"{name} is {value!r}, not an integer of at least {least}")
        self._dataset = dataset
        self._batch_size = int(batch_size)
        self._shuffle = bool(shuffle)
        self._workers = ThreadPoolExecutor(int(num_workers), "minnow-data") if num_workers else None
        self._ahead = 2 * int(num_workers)
        self._waiting: deque[Future[Batch]] = deque()
        self.reset()

    @property
    def iter_number(self) -> int:
        return -(-self.size // self._batch_size)

    @property
    def size(self) -> int:
        return len(self._dataset)

    def __len__(self) -> int:
        return self.iter_number

    def reset(self) -> None:
        """Begins a new pass, in a new order if it is shuffled."""
        for waiting in self._waiting:
            waiting.cancel()
        self._waiting.clear()
        count = self.size
        self._order = np.random.permutation(count) if self._shuffle else np.arange(count)
        self._next = 0

    def next(self) -> Batch:
        """The next batch: Vars of the inputs and of the targets, the examples along a new axis 0.

        Raises:
            UsageError: the pass is over, or the shapes of the examples differ.
        """
        if self._workers is not None:
            while self._next < len(self._order) and len(self._waiting) < self._ahead:
                self._waiting.append(self._workers.submit(self._made, self._taken()))
            if self._waiting:
                return self._waiting.popleft().result()
        if self._next >= len(self._order):
            raise UsageError(f"all {self.iter_number} batches have been given", hint="reset() begins a new pass")
        return self._made(self._taken())

    def _taken(self) -> list[int]:
        places = [int(i) for i in self._order[self._next : self._next + self._batch_size]]
        self._next += self._batch_size
        return places

    def __iter__(self) -> Iterator[Batch]:
        self.reset()
        for _ in range(self.iter_number):
            yield self.next()

    def _made(self, places: Sequence[int]) -> Batch:
        rows = []
        for place in places:
            example = self._dataset[place]
            if not isinstance(example, (tuple, list)) or len(example) != 2:
                raise UsageError(
                    f"example {place} is no pair of inputs and targets", where=type(self._dataset).__name__
                )
            rows.append(example)
        inputs, targets = zip(*rows, strict=True)
        return self._stacked(inputs, "input", places), self._stacked(targets, "target", places)

    def _stacked(self, rows: Sequence[Any], what: str, places: Sequence[int]) -> list[Var]:
        if not all(isinstance(row, (tuple, list)) and len(row) == len(rows[0]) for row in rows):
            raise UsageError(f"the {what}s of examples are lists of one length", where=type(self._dataset).__name__)
        made = []
        for i, column in enumerate(zip(*rows, strict=True)):
            arrays = [v._shown() if isinstance(v, Var) else to_array(v) for v in column]
            shape, kind = arrays[0].shape, arrays[0].dtype
            if not all(a.shape == shape and a.dtype == kind for a in arrays):
                kinds = sorted({f"{a.dtype}{list(a.shape)}" for a in arrays})
                raise UsageError(
                    f"{what} {i} of the examples {', '.join(map(str, places[:4]))}, ... differs: {' and '.join(kinds)}",
                    where=type(self._dataset).__name__,
                )
            form = column[0].data_format if isinstance(column[0], Var) else None
            made.append(Var.from_array(np.stack(arrays)) if form is None else Var.from_array(np.stack(arrays), form))
        return made
