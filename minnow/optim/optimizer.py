"""SGD, Adam and AdamW: what a step makes of parameters and their gradients."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from enum import Enum
from typing import Any

import numpy as np

from minnow.expr.names import constant, named
from minnow.expr.var import TRAINABLE, Var
from minnow.optim.derivative import derivatives, updated
from minnow.optim.program import Programs
from minnow.schema.errors import UsageError
from minnow.schema.registry.gradient import Step, Term


@named("optim")
class Regularization_Method(Enum):
    """What `weight_decay` adds to a gradient: L1 its multiple of the sign of the parameter, L2 of the parameter."""

    L1 = 0
    L2 = 1
    L1L2 = 2


L1 = constant("optim", "L1", Regularization_Method.L1)
L2 = constant("optim", "L2", Regularization_Method.L2)
L1L2 = constant("optim", "L1L2", Regularization_Method.L1L2)


class Number:
    """A setting of an optimizer that is a number within bounds, and may be set at any time."""

    def __init__(self, doc: str, least: float = 0.0, below: float = math.inf) -> None:
        self.__doc__ = doc
        self._bounds = least, below

    def __set_name__(self, owner: Any, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else instance.__dict__[self._name]

    def __set__(self, instance: Any, value: Any) -> None:
        least, below = self._bounds
        if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not least <= value < below:
            room = f"of at least {least:g}" + (f" and below {below:g}" if below < math.inf else "")
            raise UsageError(f"{self._name} is {value!r}, not a number {room}")
        instance.__dict__[self._name] = float(value)


@named("optim", like="torch.optim.Optimizer")
class Optimizer:
    """Changes the parameters of a module so that a loss becomes smaller; see `SGD` and `ADAM`.

    Attributes:
        learning_rate, momentum, momentum2, weight_decay, eps, regularization_method: settings of its formula, which may
            be set at any time.
        steps: how many steps there have been.
    """

    learning_rate = Number("How far a step goes.")
    momentum = Number("The share of the previous direction that is kept.", below=1.0)
    momentum2 = Number("The share of the previous squares that is kept.", below=1.0)
    weight_decay = Number("What `regularization_method` multiplies.")
    eps = Number("Added to a divisor.")

    _states: Sequence[str] = ()
    """What is kept of each parameter from one step to the next: tensors of its shape, zeros at first."""

    def __init__(
        self,
        module: Any,
        learning_rate: float,
        momentum: float = 0.0,
        momentum2: float = 0.0,
        weight_decay: float = 0.0,
        eps: float = 0.0,
        regularization_method: Regularization_Method = L2,
    ) -> None:
        self._module = module if hasattr(module, "parameters") else None
        self._given = None if self._module is not None or module is None else _variables(module)
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.momentum2 = momentum2
        self.weight_decay = weight_decay
        self.eps = eps
        self.regularization_method = regularization_method
        self.steps = 0
        self._programs = Programs(self)

    @property
    def regularization_method(self) -> Regularization_Method:
        """L1, L2 or L1L2."""
        return self._method

    @regularization_method.setter
    def regularization_method(self, value: Any) -> None:
        if not isinstance(value, Regularization_Method):
            raise UsageError(f"regularization_method is {value!r}", hint="optim.L1, optim.L2 or optim.L1L2")
        self._method = value

    @property
    def parameters(self) -> list[Var]:
        """The Vars that a step changes: the trainable ones of the module."""
        if self._given is not None:
            return self._given
        if self._module is None:
            raise UsageError("the optimizer has no module", hint="optim.SGD(module, ...)")
        found = self._module.trainables if hasattr(self._module, "trainables") else self._module.parameters
        return [v for v in found if v.op_type == TRAINABLE]

    def step(self, loss: Any) -> bool:
        """One step: computes the loss, its gradients by all parameters, and their new values.

        All of it is one program of the engine, which is made in the first step and kept for losses of the same graph
        and shapes. `loss.read()` gives the loss of before the step.

        Args:
            loss: a Var of one float, lazily computed of the parameters. A constant changes no parameter: the module
                collects its statistics only, as programs for calibration want it.

        Raises:
            UsageError: it is no such Var, or a placeholder that it depends on has no value.
            UnsupportedError: an op between parameters and loss has no gradient; the message names it.
        """
        if not isinstance(loss, Var):
            raise UsageError(f"the loss is {loss!r}, not a Var", hint="expr.lazy_eval(True), and a function of nn.loss")
        parameters = self.parameters
        if not parameters:
            raise UsageError("there is no parameter to train", hint="Var.fix_as_trainable() makes one")
        self._programs.run(loss, parameters, self._module)
        self.steps += 1
        return True

    def grad(self, outputs: Any, output_diffs: Any, parameters: Any) -> tuple[list[Var], list[Var]]:
        """The gradients of outputs, each times a factor per element, by Vars.

        Args:
            outputs: a Var or a list of Vars.
            output_diffs: for each output what its elements count: a Var of its shape, or a list of them; None or an
                empty list: 1.
            parameters: the Vars to differentiate by.

        Returns:
            The parameters, and for each a Var of its shape.

        Raises:
            UsageError: an argument is no Var. UnsupportedError: an op has no gradient.
        """
        diffs = [] if output_diffs is None else _variables(output_diffs)
        variables = _variables(parameters)
        return variables, derivatives(_variables(outputs), diffs or None, variables)

    def get_update_graph(
        self, parameters: Any, gradients: Any, learning_rates: Any = None
    ) -> tuple[list[Var], list[Var]]:
        """The new values of parameters by this optimizer's formula, in its first step, as Vars.

        Args:
            parameters: the Vars to change.
            gradients: a Var for each.
            learning_rates: a Var for each, or one for all; None: `learning_rate`.

        Returns:
            The parameters, and the new value of each.

        Raises:
            UsageError: the numbers of arguments differ.
        """
        variables, slopes = _variables(parameters), _variables(gradients)
        rates = [] if learning_rates is None else _variables(learning_rates)
        if len(variables) != len(slopes) or len(rates) not in (0, 1, len(variables)):
            raise UsageError(f"{len(slopes)} gradients and {len(rates)} rates for {len(variables)} parameters")
        return variables, updated(self, variables, slopes, rates)

    def save_graph(self, path: str | os.PathLike[str], outputs: Any, parameters: Any, updates: Any) -> None:
        """Writes a file that computes outputs and the new values of parameters (named like these, with ":new").

        The parameters are inputs of the file: a loop gives it as `w` what it gave as `w:new`.

        Args:
            path: the file.
            outputs: Vars, such as the loss; [] for none.
            parameters: trainable Vars.
            updates: the new value of each parameter, of `get_update_graph`.

        Raises:
            UsageError: the numbers of parameters and updates differ, or two Vars have one name.
            WriteError: the file cannot be written.
        """
        from minnow import expr

        changed, variables = _variables(updates), _variables(parameters)
        if len(changed) != len(variables):
            raise UsageError(f"{len(changed)} updates for {len(variables)} parameters")
        for i, (parameter, update) in enumerate(zip(variables, changed, strict=True)):
            parameter.name = parameter.name or f"parameter_{i}"
            update.name = f"{parameter.name}:new"
        trained = [v for v in variables if v.op_type == TRAINABLE]
        for parameter in trained:
            parameter.fix_as_placeholder()  # what a file has as inputs; trainables are constants in it
        try:
            expr.save([*_variables(outputs), *changed], path)
        finally:
            for parameter in trained:
                parameter.fix_as_trainable()

    # ---- for the program of a step

    def _structure(self) -> tuple[Any, ...]:
        """What the formula of an update depends on beside `_numbers`."""
        return type(self).__name__, self._method if self.weight_decay else None

    def _numbers(self) -> dict[str, float]:
        """What the formula takes as numbers: they may be others in each step."""
        return {"learning_rate": self.learning_rate, "momentum": self.momentum, "weight_decay": self.weight_decay}

    def _decayed(self, g: Step, p: Term, dp: Term, n: dict[str, Term]) -> Term:
        """The gradient with what `weight_decay` adds to it."""
        if not self.weight_decay:
            return dp
        if self._method in (L1, L1L2):
            dp = dp + n["weight_decay"] * g.Sign(p)
        return dp + n["weight_decay"] * p if self._method in (L2, L1L2) else dp

    def _update(
        self, g: Step, p: Term, dp: Term, states: Sequence[Term], n: dict[str, Term]
    ) -> tuple[Term, Sequence[Term]]:
        """The new value of a parameter, and of its states, given its gradient."""
        raise UsageError("this optimizer only differentiates", hint="optim.SGD or optim.ADAM change parameters")


def _variables(given: Any) -> list[Var]:
    rows = [given] if isinstance(given, Var) else given
    if not isinstance(rows, (list, tuple)) or not all(isinstance(v, Var) for v in rows):
        raise UsageError(f"{type(given).__name__} is no list of Vars")
    return list(rows)


@named("optim", like="torch.optim.SGD", note="The learning rate is a part of what the momentum keeps, as in MNN.")
class SGD(Optimizer):
    """h = learning_rate * (gradient + decay) + momentum * h; parameter = parameter - h.

    Args:
        module: a module, or a list of trainable Vars.
    """

    _states = ("h",)

    def __init__(
        self,
        module: Any,
        learning_rate: float = 1e-3,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        regularization_method: Regularization_Method = L2,
    ) -> None:
        super().__init__(module, learning_rate, momentum, 0.0, weight_decay, 0.0, regularization_method)

    def _update(
        self, g: Step, p: Term, dp: Term, states: Sequence[Term], n: dict[str, Term]
    ) -> tuple[Term, Sequence[Term]]:
        h = n["learning_rate"] * self._decayed(g, p, dp, n) + n["momentum"] * states[0]
        return p - h, [h]


@named("optim", like="torch.optim.Adam", note="`eps` is added before the correction of the bias, as in MNN.")
class ADAM(Optimizer):
    """m and v are running means of the gradient and of its square; parameter = parameter - rate * m / (sqrt(v) + eps).

    The rate is learning_rate * sqrt(1 - momentum2^t) / (1 - momentum^t) in step t.

    Args:
        module: a module, or a list of trainable Vars.
    """

    _states = ("m", "v")

    def __init__(
        self,
        module: Any,
        learning_rate: float = 1e-3,
        momentum: float = 0.9,
        momentum2: float = 0.999,
        weight_decay: float = 0.0,
        eps: float = 1e-8,
        regularization_method: Regularization_Method = L2,
    ) -> None:
        super().__init__(module, learning_rate, momentum, momentum2, weight_decay, eps, regularization_method)

    def _numbers(self) -> dict[str, float]:
        t = self.steps + 1
        rate = self.learning_rate * math.sqrt(1 - self.momentum2**t) / (1 - self.momentum**t)
        numbers = {"rate": rate, "momentum2": self.momentum2, "rest": 1 - self.momentum, "rest2": 1 - self.momentum2}
        return {**super()._numbers(), **numbers, "eps": self.eps}

    def _update(
        self, g: Step, p: Term, dp: Term, states: Sequence[Term], n: dict[str, Term]
    ) -> tuple[Term, Sequence[Term]]:
        return self._moved(g, p, self._decayed(g, p, dp, n), states, n)

    def _moved(
        self, g: Step, p: Term, dp: Term, states: Sequence[Term], n: dict[str, Term]
    ) -> tuple[Term, Sequence[Term]]:
        """`_update` without the decay."""
        m = n["momentum"] * states[0] + n["rest"] * dp
        v = n["momentum2"] * states[1] + n["rest2"] * g.Square(dp)
        return p - n["rate"] * m / (g.Sqrt(v) + n["eps"]), [m, v]


Adam = named("optim", "Adam", like="torch.optim.Adam", mnn=False)(ADAM)


@named("optim", like="torch.optim.AdamW", mnn=False)
class AdamW(ADAM):
    """Adam whose decay is no part of the gradient: the parameter shrinks by learning_rate * weight_decay of itself.

    Args:
        module: a module, or a list of trainable Vars.
    """

    def __init__(
        self,
        module: Any,
        learning_rate: float = 1e-3,
        momentum: float = 0.9,
        momentum2: float = 0.999,
        weight_decay: float = 0.01,
        eps: float = 1e-8,
        regularization_method: Regularization_Method = L2,
    ) -> None:
        super().__init__(module, learning_rate, momentum, momentum2, weight_decay, eps, regularization_method)

    def _update(
        self, g: Step, p: Term, dp: Term, states: Sequence[Term], n: dict[str, Term]
    ) -> tuple[Term, Sequence[Term]]:
        decay = self._decayed(g, p, g.zeros(p), n)
        return self._moved(g, p - n["learning_rate"] * decay, dp, states, n)


@named("optim")
def Grad(*ignored: Any) -> Optimizer:
    """An optimizer that changes nothing: its method `grad` differentiates."""
    return Optimizer(None, 0.0)
