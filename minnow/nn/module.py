"""`Module`: a function with parameters, which may be made of other modules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from minnow.expr.names import named
from minnow.expr.var import TRAINABLE, Var
from minnow.schema.errors import UsageError


def batch(values: Any, what: str = "the inputs") -> list[Var]:
    """One Var, or a list or tuple of them, as a list. What numpy takes for an array becomes a Var.

    Raises:
        UsageError: something is not a tensor.
    """
    if isinstance(values, Var):
        return [values]
    if isinstance(values, (list, tuple)) and any(isinstance(v, (Var, np.ndarray)) for v in values):
        return [v if isinstance(v, Var) else _as_var(v, f"{what}: number {i}") for i, v in enumerate(values)]
    return [_as_var(values, what)]


def _as_var(value: Any, what: str) -> Var:
    if value is None or isinstance(value, (str, bytes, dict, set)):
        raise UsageError(f"{what}: {type(value).__name__} is not a tensor", hint="pass a Var or a numpy array")
    return Var(value)


@named("nn", like="torch.nn.Module")
class Module:
    """A function with parameters. A subclass assigns modules and Vars in `__init__`, and defines `forward`.

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.conv = nn.conv(1, 20, [5, 5])
                self.fc = nn.linear(800, 10)

            def forward(self, x):
                ...

    What is assigned to an attribute is registered under its name: modules as parts, Vars as parameters.
    """

    _children: dict[str, Module]
    _vars: dict[str, Var]
    _is_training: bool
    _name: str

    def __init__(self) -> None:
        self.__dict__.update(_children={}, _vars={}, _is_training=True, _name="")

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, (Module, Var)) and "_children" not in self.__dict__:
            raise UsageError(
                f"'{name}' is assigned before super().__init__()",
                where=type(self).__name__,
                hint="call super().__init__() first",
            )
        if isinstance(value, Module) and (value is self or any(part is self for part in value.modules())):
            raise UsageError(f"'{name}': a module cannot be a part of itself", where=type(self).__name__)
        if "_children" in self.__dict__:
            self._children.pop(name, None)
            self._vars.pop(name, None)
        if isinstance(value, Module):
            value.set_name(name)
            self._children[name] = value
        elif isinstance(value, Var):
            value.name = name
            self._vars[name] = value
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        object.__delattr__(self, name)
        self._children.pop(name, None)
        self._vars.pop(name, None)

    def _own_vars(self) -> dict[str, Var]:
        if "_vars" not in self.__dict__:
            raise UsageError(f"{type(self).__name__}.__init__ does not call super().__init__()")
        return self._vars

    # ---- parts and parameters

    def modules(self) -> Iterator[Module]:
        """This module, and all modules that it is made of, each once."""
        self._own_vars()
        seen: set[int] = set()
        stack: list[Module] = [self]
        while stack:
            module = stack.pop()
            if id(module) in seen:
                continue
            seen.add(id(module))
            yield module
            stack += module._children.values()

    @property
    def parameters(self) -> list[Var]:
        """All Vars of the module and its parts: what `expr.save` writes and `load_parameters` reads.

        Those of this module come first, in the order of their assignment, then those of its parts, the latest one
        first. Statistics that batch normalization collects are among them.
        """
        self.settle()
        return self._variables()

    def _variables(self) -> list[Var]:
        return [var for module in self.modules() for var in module._own_vars().values()]

    @property
    def trainables(self) -> list[Var]:
        """The parameters that an optimizer changes: without the statistics of batch normalization, and constants."""
        kept = {id(var) for module in self.modules() for var in module._statistics()}
        return [var for var in self._variables() if var.op_type == TRAINABLE and id(var) not in kept]

    def _statistics(self) -> Sequence[Var]:
        """Parameters that are computed, not trained."""
        return ()

    def load_parameters(self, parameters: Sequence[Any]) -> bool:
        """Sets all parameters, given in the order of `parameters`; their values are copied.

        Args:
            parameters: Vars or arrays, such as `expr.load_as_list` gives.

        Raises:
            UsageError: their number or a shape does not fit; nothing is changed then.
        """
        own = self.parameters
        if isinstance(parameters, (Var, np.ndarray, str)) or not isinstance(parameters, Sequence):
            raise UsageError(f"parameters are a list, not {type(parameters).__name__}")
        if len(parameters) != len(own):
            raise UsageError(f"{len(parameters)} parameters are given to a module that has {len(own)}")
        new = [v if isinstance(v, Var) else _as_var(v, f"parameter {i}") for i, v in enumerate(parameters)]
        for i, (old, var) in enumerate(zip(own, new, strict=True)):
            if list(old.shape) != list(var.shape) and not old.size == var.size == 1:  # a file has [1] for a number
                name = f" '{old.name}'" if old.name else ""
                raise UsageError(f"parameter {i}{name} has the shape {list(old.shape)}, not {list(var.shape)}")
            if old.dtype != var.dtype:
                raise UsageError(f"parameter {i} is of {old.dtype}, not {var.dtype}")
        for old, array in zip(own, [var.read() for var in new], strict=True):
            old.write(array.reshape(old.shape))
        return True

    # ---- modes

    @property
    def is_training(self) -> bool:
        """It is in the mode for training, in which dropout drops and batch normalization takes statistics of the batch.

        A new module is.
        """
        return self._is_training

    def train(self, mode: Any = True) -> None:
        """Sets the mode of the module and its parts: for training (True), or for use (False)."""
        if not isinstance(mode, (bool, int, np.bool_)):
            raise UsageError(f"train({mode!r}): the mode is True or False")
        self.settle()
        for module in self.modules():
            module.__dict__["_is_training"] = bool(mode)

    def pending(self) -> list[tuple[Var, Var]]:
        """Parameters that the latest `forward` in training changes, each with a Var that `settle` needs for that.

        Where a graph is computed as a whole, as an optimizer does, these can be computed with it.
        """
        return [pair for module in self.modules() for pair in module._pending()]

    def _pending(self) -> list[tuple[Var, Var]]:
        return []

    def settle(self) -> None:
        """Gives the parameters of `pending` their new values."""
        for module in self.modules():
            module._settle()

    def _settle(self) -> None:
        pass

    # ---- use

    def forward(self, x: Any) -> Any:
        """The function: Vars in, Vars out. Subclasses define it."""
        raise NotImplementedError(f"{type(self).__name__} does not define forward")

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        return self.forward(*inputs, **named)

    def onForward(self, inputs: Any) -> list[Any]:
        """`forward` of a list of Vars; gives a list of Vars."""
        given = batch(inputs)
        outputs = self.forward(given[0] if len(given) == 1 else given)
        return list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]

    @property
    def name(self) -> str:
        """The attribute of another module that it was assigned to, or what `set_name` has set; "" at first."""
        return self._name

    def set_name(self, name: str) -> None:
        """Gives it a name."""
        if not isinstance(name, str):
            raise UsageError(f"a name is a text, not {type(name).__name__}")
        self.__dict__["_name"] = name

    def get_info(self) -> dict[str, Any]:
        """What a model file says of itself; see `load_module_from_file`.

        Raises:
            UsageError: the module does not come from a file.
        """
        raise UsageError(
            f"{type(self).__name__} does not come from a file", hint="load_module_from_file gives a module that does"
        )

    def clear_cache(self) -> None:
        """Frees what earlier calls of `forward` have left for later ones."""
        for module in self.modules():
            module._clear()

    def _clear(self) -> None:
        pass

    def clone(self) -> Module:
        """A module with the same function and copies of all parameters."""
        return self._cloned({}, {})

    def _cloned(self, modules: dict[int, Module], vars: dict[int, Var]) -> Module:
        """A copy that shares what the copies of other modules share; `modules` and `vars` are those made so far."""
        if id(self) in modules:
            return modules[id(self)]
        new = type(self).__new__(type(self))
        modules[id(self)] = new
        self._settle()
        own = self._own_vars()
        new.__dict__.update(self.__dict__)
        new.__dict__["_children"] = {k: m._cloned(modules, vars) for k, m in self._children.items()}
        new.__dict__["_vars"] = {k: _copy(v, vars) for k, v in own.items()}
        for name, value in (*new._children.items(), *new._vars.items()):
            if name in new.__dict__:
                new.__dict__[name] = value
        return new

    def __repr__(self) -> str:
        parts = ", ".join(self.__dict__.get("_children", ()))
        return f"{type(self).__name__}({parts})"


def _copy(var: Var, made: dict[int, Var]) -> Var:
    if id(var) not in made:
        new = Var.from_array(var.read(), var.data_format)
        new.name = var.name
        if var.op_type == TRAINABLE:
            new.fix_as_trainable()
        made[id(var)] = new
    return made[id(var)]


@named("nn", like="torch.nn.Identity")
class EmptyModule(Module):
    """A module that does nothing."""

    def forward(self, *inputs: Any) -> Any:
        """None."""
        return None
