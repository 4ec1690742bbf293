"""Settings of sessions by the names and numbers of MNN: backends, precisions, threads, modes and hints."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from minnow.options.run import Precision
from minnow.schema.errors import UsageError


class Kind(NamedTuple):
    """A backend of MNN.

    Attributes:
        number: in `config["backend"]`, and in `getSessionInfo`.
        device: what Minnow calls it; "" if it has none such.
    """

    number: int
    device: str = ""


BACKENDS = {
    "CPU": Kind(0, "cpu"), "METAL": Kind(1), "CUDA": Kind(2, "cuda"), "OPENCL": Kind(3, "opencl"),
    "AUTO": Kind(4, "auto"), "NN": Kind(5), "OPENGL": Kind(6), "VULKAN": Kind(7, "vulkan"), "HIAI": Kind(8),
    "TRT": Kind(9), "HEXAGON": Kind(10), "CPU_EXTENSION": Kind(13, "cpu"), "MUSA": Kind(15),
}  # fmt: skip
PRECISIONS: dict[str, Precision] = {
    "normal": "high", "high": "high", "low": "low", "lowbf": "low", "low_bf16": "low"
}  # fmt: skip
"""Normal is float32, as on MNN's CPU backend."""
_NUMBERED = {0: "normal", 1: "high", 2: "low", 3: "lowbf"}
_LEVELS = ("normal", "high", "low")
THREADS = 4
"""By default."""

MODES = (
    "Session_Debug", "Session_Release", "Session_Input_Inside", "Session_Input_User", "Session_Output_Inside",
    "Session_Output_User", "Session_Resize_Direct", "Session_Resize_Defer", "Session_Backend_Fix",
    "Session_Backend_Auto", "Session_Memory_Collect", "Session_Memory_Cache", "Session_Codegen_Disable",
    "Session_Codegen_Enable", "Session_Resize_Check", "Session_Resize_Fix", "Module_Forward_Separate",
    "Module_Forward_Combine",
)  # fmt: skip
HINTS = (
    "MAX_TUNING_NUMBER", "STRICT_CHECK_MODEL", "MEM_ALLOCATOR_TYPE", "WINOGRAD_MEMORY_LEVEL", "GEOMETRY_COMPUTE_MASK",
    "DYNAMIC_QUANT_OPTIONS", "CPU_LITTLECORE_DECREASE_RATE", "ATTENTION_OPTION", "KVCACHE_SIZE_LIMIT",
    "OP_ENCODER_NUMBER_FOR_COMMIT", "KVCACHE_INFO", "MMAP_FILE_SIZE", "USE_CACHED_MMAP", "INIT_THREAD_NUMBER",
    "CPU_CORE_IDS", "CPU_SME2_INSTRUCTIONS", "CPU_ENABLE_KLEIDIAI", "CPU_SME2_NEON_DIVISION_RATIO", "CPU_SME_CORES",
)  # fmt: skip
"""They say how MNN's backends find a plan. The engine finds its own: they are checked, and change nothing."""


@dataclass(frozen=True)
class Configuration:
    """How to run.

    Attributes:
        backend: name in `BACKENDS`.
        device, precision, threads: as `minnow.load` takes them.
        fallback: why the CPU runs instead of the backend that was asked for, "" if it does not.
        keep: tensors to keep beside the outputs.
        inputs, outputs: tensors between which to run; empty for those of the model.
    """

    backend: str = "CPU"
    device: str = "cpu"
    precision: Precision = "high"
    threads: int = THREADS
    fallback: str = ""
    keep: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()


def backend_name(value: Any) -> str:
    """The name of a backend that is given by its name, its number, or a constant of `expr.Backend`.

    Raises:
        UsageError: it is unknown.
    """
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, str) and value.upper() in BACKENDS:
        return value.upper()
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        for name, kind in BACKENDS.items():
            if kind.number == value:
                return name
    raise UsageError(f"the backend {value!r} is unknown", hint=f"one of {', '.join(BACKENDS)}, or its number")


def _level(value: Any, key: str) -> str:
    if isinstance(value, Enum):
        value = value.value
    name = _NUMBERED.get(value) if isinstance(value, int) and not isinstance(value, bool) else value
    known = PRECISIONS if key == "precision" else _LEVELS
    if not isinstance(name, str) or name.lower() not in known:
        raise UsageError(f"{key} {value!r} is unknown", hint=f"one of {', '.join(known)}")
    return name.lower()


def thread_count(value: Any) -> int:
    """A number of threads, at most as many as there are processors.

    Raises:
        UsageError: it is not a positive integer.
    """
    if isinstance(value, str) and value.strip().isdigit():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise UsageError(f"{value!r} is not a number of threads", hint="a positive integer")
    return min(int(value), os.cpu_count() or 1, 256)


def _names(value: Any, key: str) -> tuple[str, ...]:
    names = (value,) if isinstance(value, str) else value
    if not isinstance(names, (tuple, list)) or not all(isinstance(n, str) for n in names):
        raise UsageError(f"{key} is {value!r}, not names of tensors", hint=f"{{{key!r}: ('name',)}}")
    return tuple(names)


def read(config: Any) -> Configuration:
    """A configuration that is given as a dict, or as a tuple of dicts of which the first counts.

    Unknown keys are ignored with a warning. A backend that this machine lacks is replaced by the CPU with a warning.

    Raises:
        UsageError: a value is unknown, or it is not a dict.
    """
    if isinstance(config, (tuple, list)):
        rows = list(config)
        if not all(isinstance(row, Mapping) for row in rows):
            raise UsageError("a configuration is a dict, or a tuple of dicts")
        config = rows[0] if rows else {}
    if config is None:
        config = {}
    if not isinstance(config, Mapping):
        raise UsageError(
            f"a configuration is a dict, not {type(config).__name__}",
            hint="{'backend': 'CPU', 'numThread': 4, 'precision': 'high'}",
        )
    values: dict[str, Any] = {"threads": min(THREADS, os.cpu_count() or 1)}
    backend = "CPU"
    for key, value in config.items():
        if key == "backend":
            backend = backend_name(value)
        elif key == "precision":
            values["precision"] = PRECISIONS[_level(value, key)]
        elif key in ("memory", "power"):
            _level(value, key)
        elif key == "numThread":
            values["threads"] = None if _is_mode(value) else thread_count(value)
        elif key == "saveTensors":
            values["keep"] = _names(value, key)
        elif key == "inputPaths":
            values["inputs"] = _names(value, key)
        elif key == "outputPaths":
            values["outputs"] = _names(value, key)
        else:
            warnings.warn(f"configuration: '{key}' is unknown, and ignored", stacklevel=3)
    if values["threads"] is None:
        values["threads"] = THREADS
    device, why = device_of(backend)
    if why:
        warnings.warn(f"{why}: the CPU runs the model instead", stacklevel=3)
    return Configuration(backend, device, fallback=why, **values)


def _is_mode(value: Any) -> bool:
    """Whether it is a number that says how a GPU is tuned, rather than how many threads there are."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 64


def device_of(backend: str) -> tuple[str, str]:
    """The device for a backend, and why it is the CPU where another one was asked for, else ""."""
    device = BACKENDS[backend].device
    if not device:
        return "cpu", f"there is no backend {backend}"
    if device in ("cpu", "auto"):
        return device, ""
    from minnow.runtime import _engine
    from minnow.schema.errors import DeviceError

    try:
        _engine.run_op("Relu", {}, [np.zeros(1, np.float32)], device=device)
    except DeviceError as error:
        return "cpu", error.message
    return device, ""


def path(value: Any) -> str:
    """The path of a file or a folder. Raises UsageError if it is none."""
    if not isinstance(value, (str, os.PathLike)) or not os.fspath(value) or "\0" in str(value):
        raise UsageError(f"{value!r} is not a path")
    return str(os.fspath(value))


def mode(value: Any) -> int:
    """The number of a mode. Raises UsageError if it is unknown."""
    return _numbered(value, MODES, "mode")


def hint(value: Any, setting: Any) -> tuple[int, int | tuple[int, ...]]:
    """The number and the value of a hint. Raises UsageError if it is unknown, or the value is neither one nor several
    integers."""
    number = _numbered(value, HINTS, "hint")
    row = setting if isinstance(setting, (list, tuple)) else [setting]
    if not row or not all(isinstance(n, (int, np.integer)) for n in row):
        raise UsageError(f"hint {HINTS[number]} is {setting!r}, not an integer or a list of them")
    return number, tuple(map(int, row)) if isinstance(setting, (list, tuple)) else int(setting)


def _numbered(value: Any, names: tuple[str, ...], what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not 0 <= value < len(names):
        raise UsageError(f"the {what} {value!r} is unknown", hint=f"0 ({names[0]}) to {len(names) - 1} ({names[-1]})")
    return int(value)
