"""Settings of sessions by the names and numbers of MNN: backends, precisions, threads, modes and hints."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from minnow.options.run import Precision, RunOptions
from minnow.runtime.session import Model, Session
from minnow.schema.errors import DeviceError, UsageError


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


class Wish(NamedTuple):
    """A mode or a hint of MNN.

    Attributes:
        name: MNN's.
        effect: what it changes here; "" if nothing.
        why: why it changes nothing.
    """

    name: str
    effect: str = ""
    why: str = ""


_OWN = "the engine plans by itself"
_ARM = "for processors with SME or KleidiAI"
_TEXT = "for language models: see `minnow.llm`"
MODES = (
    Wish("Session_Debug", "Callbacks of runs are called; the default."),
    Wish("Session_Release", "`runSessionWithCallBack` and `runSessionWithCallBackInfo` are errors."),
    Wish("Session_Input_Inside", why="inputs have memory of their own, which keeps its contents"),
    Wish("Session_Input_User", why="inputs have memory of their own, which keeps its contents"),
    Wish("Session_Output_Inside", why="each run gives new outputs"),
    Wish("Session_Output_User", why="each run gives new outputs"),
    Wish("Session_Resize_Direct", "`createSession` plans at once, for the sizes in the file."),
    Wish("Session_Resize_Defer", "`resizeSession` or the first run plans; the default."),
    Wish("Session_Backend_Fix", "A backend that the machine lacks is an error, and not replaced by the CPU."),
    Wish("Session_Backend_Auto", 'The engine chooses the device, as with the backend "AUTO".'),
    Wish("Session_Memory_Collect", why=_OWN),
    Wish("Session_Memory_Cache", why=_OWN),
    Wish("Session_Codegen_Disable", why="elementwise operations are always fused"),
    Wish("Session_Codegen_Enable", why="elementwise operations are always fused"),
    Wish("Session_Resize_Check", why="plans are kept for the latest sizes"),
    Wish("Session_Resize_Fix", why="plans are kept for the latest sizes"),
    Wish("Module_Forward_Separate", why=_OWN),
    Wish("Module_Forward_Combine", why=_OWN),
)
HINTS = (
    Wish("MAX_TUNING_NUMBER", why=_OWN),
    Wish("STRICT_CHECK_MODEL", why="files are always checked"),
    Wish("MEM_ALLOCATOR_TYPE", why=_OWN),
    Wish("WINOGRAD_MEMORY_LEVEL", why=_OWN),
    Wish("GEOMETRY_COMPUTE_MASK", why=_OWN),
    Wish("DYNAMIC_QUANT_OPTIONS", why="the file says what is computed in integers: see `minnow.quantize`"),
    Wish("CPU_LITTLECORE_DECREASE_RATE", why="work is shared between threads as they are done with theirs"),
    Wish("ATTENTION_OPTION", why=_TEXT),
    Wish("KVCACHE_SIZE_LIMIT", why=_TEXT),
    Wish("OP_ENCODER_NUMBER_FOR_COMMIT", why=_OWN),
    Wish("KVCACHE_INFO", why=_TEXT),
    Wish("MMAP_FILE_SIZE", why="files of packed weights are always mapped: `set_cache`"),
    Wish("USE_CACHED_MMAP", why="files of packed weights are always mapped: `set_cache`"),
    Wish("INIT_THREAD_NUMBER", "Number of threads where the configuration gives no `numThread`."),
    Wish("CPU_CORE_IDS", "At most as many threads as there are cores in the list; the system chooses the cores."),
    Wish("CPU_SME2_INSTRUCTIONS", why=_ARM),
    Wish("CPU_ENABLE_KLEIDIAI", why=_ARM),
    Wish("CPU_SME2_NEON_DIVISION_RATIO", why=_ARM),
    Wish("CPU_SME_CORES", why=_ARM),
)
RELEASE, DIRECT, FIXED_BACKEND, ANY_BACKEND = 1, 6, 8, 9
THREAD_NUMBER, CORES = 13, 14


@dataclass(frozen=True)
class Configuration:
    """How to run.

    Attributes:
        backend: name in `BACKENDS`.
        device, precision, threads: as `minnow.load` takes them.
        fallback: why the CPU runs instead of the backend that was asked for, "" if it does not.
        keep: tensors to keep beside the outputs.
        inputs, outputs: tensors between which to run; empty for those of the model.
        timeout, max_memory: limits, as `minnow.load` takes them; None: none.
        names_threads: the number of threads was asked for.
        has_callbacks: runs may call functions.
        plans_at_once: it is planned when the session is made.
    """

    backend: str = "CPU"
    device: str = "cpu"
    precision: Precision = "high"
    threads: int = THREADS
    fallback: str = ""
    keep: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    timeout: float | None = None
    max_memory: int | None = None
    names_threads: bool = False
    has_callbacks: bool = True
    plans_at_once: bool = False

    def open(self, model: Model) -> Session:
        """A session of the engine that runs so."""
        return model.session(
            threads=self.threads, precision=self.precision, device=self.device,
            timeout=self.timeout, max_memory=self.max_memory,
        )  # fmt: skip


class Wishes:
    """Modes and hints that were set, of two modes that exclude each other the latest."""

    def __init__(self) -> None:
        self._modes: dict[int, int] = {}
        self._hints: dict[int, int | tuple[int, ...]] = {}

    def set_mode(self, value: Any) -> None:
        """Raises UsageError if the mode is unknown."""
        number = mode(value)
        self._modes[number // 2] = number

    def set_hint(self, value: Any, setting: Any) -> None:
        """Raises UsageError if the hint is unknown, or the value none that it can have."""
        number, checked = hint(value, setting)
        if number == THREAD_NUMBER:
            thread_count(checked)
        self._hints[number] = checked

    @property
    def modes(self) -> list[str]:
        return sorted(MODES[m].name for m in self._modes.values())

    @property
    def hints(self) -> dict[str, int | tuple[int, ...]]:
        return {HINTS[k].name: v for k, v in sorted(self._hints.items())}

    def applied(self, configuration: Configuration) -> Configuration:
        """The configuration with what they change.

        Raises:
            DeviceError: the backend must not be replaced, but the machine lacks it.
        """
        chosen = set(self._modes.values())
        changes: dict[str, Any] = {"has_callbacks": RELEASE not in chosen, "plans_at_once": DIRECT in chosen}
        if FIXED_BACKEND in chosen and configuration.fallback:
            raise DeviceError(f"{configuration.fallback}, and Session_Backend_Fix asks for it")
        if ANY_BACKEND in chosen:
            changes["device"] = "auto"
        threads = configuration.threads
        if THREAD_NUMBER in self._hints and not configuration.names_threads:
            threads = thread_count(self._hints[THREAD_NUMBER])
        if CORES in self._hints:
            cores = self._hints[CORES]
            threads = min(threads, len(cores) if isinstance(cores, tuple) else 1)
        return replace(configuration, threads=threads, **changes)


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
            values["names_threads"] = values["threads"] is not None
        elif key == "timeout":
            values["timeout"] = RunOptions(timeout=value).timeout
        elif key == "maxMemory":
            values["max_memory"] = RunOptions(max_memory=value).max_memory
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
        raise UsageError(f"hint {HINTS[number].name} is {setting!r}, not an integer or a list of them")
    return number, tuple(map(int, row)) if isinstance(setting, (list, tuple)) else int(setting)


def _numbered(value: Any, known: tuple[Wish, ...], what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not 0 <= value < len(known):
        last = len(known) - 1
        raise UsageError(f"the {what} {value!r} is unknown", hint=f"0 ({known[0].name}) to {last} ({known[last].name})")
    return int(value)
