"""`load_module_from_file`: a model file, or a part of it, as a module."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from minnow.expr.constant import Backend, MemoryMode, PowerMode, PrecisionMode
from minnow.expr.names import named
from minnow.expr.var import Var, placeholder
from minnow.interpreter import setting
from minnow.interpreter.constant import shown
from minnow.interpreter.model_file import ModelFile, Slot
from minnow.interpreter.program import Program
from minnow.interpreter.setting import Configuration
from minnow.nn.layout import FORMATS, change_for
from minnow.nn.module import Module, batch
from minnow.nn.runtime_manager import RuntimeManager
from minnow.schema.errors import UsageError

Array = np.ndarray[Any, Any]


class LoadedModule(Module):
    """A model file as a module; `load_module_from_file` makes it. Its parameters are none: they stay in the file."""

    def __init__(
        self, file: ModelFile, inputs: Sequence[str], outputs: Sequence[str], configuration: Configuration
    ) -> None:
        super().__init__()
        self._program = Program(file, inputs, outputs, configuration)
        self._is_warned = False

    def forward(self, x: Any) -> Any:
        """Runs the model, at once.

        Args:
            x: a Var or an array for a model with one input; a list of them, in the order of the inputs, for others. The
                data format of a Var (NCHW, NHWC, NC4HW4) need not be that of the model. An image [H, W, C] is a batch
                of one. The sizes may be others than in the call before.

        Returns:
            The first output for a single Var or array, a list of all outputs for a list.

        Raises:
            UsageError: an input is missing, has the wrong number of axes or channels, or is not of the model's type.
            The other errors of `minnow.Session.run`.
        """
        is_list = isinstance(x, (list, tuple)) and any(isinstance(v, (Var, np.ndarray)) for v in x)
        given = batch(x)
        slots = self._program.inputs
        if len(given) != len(slots):
            names = ", ".join(f"'{slot.name}' {slot}" for slot in slots)
            raise UsageError(
                f"{len(given)} inputs are given, the model has {len(slots)}", hint=f"forward([...]) with {names}"
            )
        arrays = {slot.name: self._array(var, slot) for var, slot in zip(given, slots, strict=True)}
        results = self._program.run(arrays)
        made = [self._result(name, results[name]) for name in self._program.outputs]
        return made if is_list else made[0]

    def _array(self, var: Var, slot: Slot) -> Array:
        array = np.asarray(var)
        change = change_for(array.shape, var.data_format, slot)
        if change.batch and not self._is_warned:
            self.__dict__["_is_warned"] = True
            warnings.warn(
                f"input '{slot.name}' is an image without a batch: it is taken as a batch of one", stacklevel=4
            )
        array = change.apply(array) if change != (None, False) else array
        return array != 0 if slot.dtype == "bool" else array

    def _result(self, name: str, value: Any) -> Var:
        if not isinstance(value, np.ndarray):
            raise UsageError(f"the output '{name}' is not a tensor", hint="minnow.load gives all outputs")
        array = np.asarray(value, shown(value.dtype.name))
        form = FORMATS[self._program.slot(name, array.shape, array.dtype.name).format]
        var = Var.from_array(array, form)
        var.name = name
        return var

    def get_info(self) -> dict[str, Any]:
        """What the file says.

        Returns:
            A dict with version (of the converter), bizCode, inputNames, outputNames, and inputs: a placeholder for each
            input, with its shape (-1 where the size is free), data format and dtype.
        """
        file = self._program.file
        return {
            "version": file.version,
            "bizCode": file.biz_code,
            "inputNames": [slot.name for slot in self._program.inputs],
            "outputNames": list(self._program.outputs),
            "inputs": [_placeholder(slot) for slot in self._program.inputs],
        }

    def _clear(self) -> None:
        self._program.close()

    def _cloned(self, modules: dict[int, Module], vars: dict[int, Var]) -> Module:
        if id(self) in modules:
            return modules[id(self)]
        program = self._program
        new = type(self)(program.file, [s.name for s in program.inputs], program.outputs, program.configuration)
        new.__dict__.update(_name=self._name, _is_training=self._is_training)
        modules[id(self)] = new
        return new

    def write_packed(self, path: str) -> None:
        """Writes the weights as they are packed so far."""
        self._program.whole.write_packed(path)

    def __repr__(self) -> str:
        inputs = ", ".join(f"{slot.name}: {slot}" for slot in self._program.inputs)
        return f"Module({self._program.file.path!r}, {inputs} -> {', '.join(self._program.outputs)})"


def _placeholder(slot: Slot) -> Var:
    var = placeholder(list(slot.shape or ()), FORMATS[slot.format], shown(slot.dtype))
    var.name = slot.name
    return var


@named("nn")
def load_module_from_file(
    file_name: Any,
    input_names: Any,
    output_names: Any,
    *,
    dynamic: bool = False,
    shape_mutable: bool = True,
    rearrange: bool = False,
    backend: Any = Backend.CPU,
    memory_mode: Any = MemoryMode.Normal,
    power_mode: Any = PowerMode.Normal,
    precision_mode: Any = PrecisionMode.Normal,
    thread_num: Any = setting.THREADS,
    runtime_manager: RuntimeManager | None = None,
) -> Module:
    """A `.mnn` file, of Minnow or of MNN, as a module.

    Args:
        file_name: its path, or its bytes. Weights in a file of their own are found beside it.
        input_names: names of the inputs, in the order in which `forward` takes them; also of tensors between nodes,
            from which the model is to run. []: those of the model.
        output_names: names of the tensors to compute; also of tensors between nodes. []: the outputs of the model.
        dynamic, shape_mutable, rearrange: accepted: shapes may always change, and weights are always rearranged.
        backend: a constant of `expr.Backend`, its name or number. One that this machine lacks is replaced by the CPU,
            with a warning.
        memory_mode, power_mode: accepted: they change nothing.
        precision_mode: a constant of `expr.PrecisionMode`. Normal and High are float32.
        thread_num: number of threads.
        runtime_manager: what `create_runtime_manager` gives; backend, precision and threads are its then.

    Raises:
        FormatError: the file cannot be read, or is damaged.
        UnsupportedError: the engine cannot run some of its ops.
        UsageError: there is no tensor of such a name, the outputs need other inputs, or an argument is wrong.
    """
    if runtime_manager is not None and not isinstance(runtime_manager, RuntimeManager):
        raise UsageError(
            f"runtime_manager is {type(runtime_manager).__name__}", hint="nn.create_runtime_manager((config,))"
        )
    if runtime_manager is None:
        values = {
            "backend": backend, "precision": precision_mode, "memory": memory_mode, "power": power_mode,
            "numThread": thread_num,
        }  # fmt: skip
        configuration = setting.read(values)
        file = ModelFile(file_name)
    else:
        configuration = runtime_manager.configuration
        file = runtime_manager.open(file_name)
    inputs = file.names(input_names, "input_names", file.input_names)
    outputs = file.names(output_names, "output_names", file.output_names)
    module = LoadedModule(file, inputs, outputs, configuration)
    if runtime_manager is not None:
        runtime_manager.note(module)
    return module
