"""Learning rates that change with the number of steps."""

from __future__ import annotations

import math
from typing import Any

from minnow.expr.argument import integer
from minnow.expr.names import named
from minnow.optim.optimizer import Optimizer
from minnow.schema.errors import UsageError


class Schedule:
    """Sets the learning rate of an optimizer, at first and in each call of `step`.

    Attributes:
        count: calls of `step` so far.
    """

    def __init__(self, optimizer: Any) -> None:
        if not isinstance(optimizer, Optimizer):
            raise UsageError(f"a schedule is of an optimizer, not of {type(optimizer).__name__}", hint="optim.SGD(net)")
        self._optimizer = optimizer
        self._first = float(optimizer.learning_rate)
        self.count = 0

    def factor(self, count: int) -> float:
        """What the first learning rate is multiplied with after so many calls. Subclasses define it."""
        raise NotImplementedError(f"{type(self).__name__} does not define factor")

    def _set(self) -> None:
        self._optimizer.learning_rate = self._first * self.factor(self.count)

    def step(self) -> float:
        """The next learning rate, which it also gives."""
        self.count += 1
        self._set()
        return float(self._optimizer.learning_rate)


def _share(value: Any, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise UsageError(f"{what} is {value!r}, not a number from 0 to 1")
    return float(value)


@named("optim", like="torch.optim.lr_scheduler.StepLR", mnn=False)
class StepSchedule(Schedule):
    """Multiplies the learning rate with `factor` once in `every` steps."""

    def __init__(self, optimizer: Any, every: int, factor: float = 0.1) -> None:
        super().__init__(optimizer)
        self._every, self._factor = integer(every, "every", 1), _share(factor, "factor")

    def factor(self, count: int) -> float:
        return float(self._factor ** (count // self._every))


@named("optim", like="torch.optim.lr_scheduler.ExponentialLR", mnn=False)
class ExponentialSchedule(Schedule):
    """Multiplies the learning rate with `factor` in each step."""

    def __init__(self, optimizer: Any, factor: float) -> None:
        super().__init__(optimizer)
        self._factor = _share(factor, "factor")

    def factor(self, count: int) -> float:
        return float(self._factor**count)


@named("optim", like="torch.optim.lr_scheduler.CosineAnnealingLR", mnn=False)
class CosineSchedule(Schedule):
    """Lets the learning rate rise for `warmup` steps, and then fall along half a cosine to the share `least` of it,
    which it has after `steps` steps."""

    def __init__(self, optimizer: Any, steps: int, warmup: int = 0, least: float = 0.0) -> None:
        super().__init__(optimizer)
        self._steps, self._warmup = integer(steps, "steps", 1), integer(warmup, "warmup", 0)
        self._least = _share(least, "least")
        if self._warmup >= self._steps:
            raise UsageError(f"warmup is {self._warmup}, of {self._steps} steps in all")
        self._set()

    def factor(self, count: int) -> float:
        if count < self._warmup:
            return (count + 1) / (self._warmup + 1)
        done = min(1.0, (count - self._warmup) / (self._steps - self._warmup))
        return self._least + (1 - self._least) * (1 + math.cos(math.pi * done)) / 2
