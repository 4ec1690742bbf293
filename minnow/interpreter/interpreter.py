"""`Interpreter`: a model file and its sessions."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from minnow.interpreter import setting
from minnow.interpreter.model_file import ModelFile
from minnow.interpreter.operation import OpInfo, Stopped, watch
from minnow.interpreter.session import Session
from minnow.interpreter.setting import Configuration
from minnow.interpreter.tensor import Tensor
from minnow.schema.errors import CancelledError, FormatError, UsageError

STOPPED = 11
"""What a run returns that a callback has stopped."""

_INFO = ("memory in MB", "millions of operations", "number of the backend", "resize status", "threads")


class Runtime:
    """Backends that `createRuntime` has found.

    Attributes:
        configurations: of each.
    """

    def __init__(self, configurations: tuple[Configuration, ...]) -> None:
        self.configurations = configurations


class Interpreter:
    """A `.mnn` file, from which `createSession` makes sessions.

    Args:
        model: its path, or its bytes. Weights in a file of their own are found beside it (its path with ".weight"
            appended), or where `setExternalFile` says.

    Raises:
        FormatError: it cannot be read, or is damaged.
        UnsupportedError: the engine cannot run some of its ops.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._external = ""
        self._packed = ""
        self._wishes = setting.Wishes()
        self._file: ModelFile | None = None
        try:
            self._file = ModelFile(model)
        except FormatError:
            # The companion weights file may be said later.
            if not isinstance(model, (str, os.PathLike)) or not _needs_weights(os.fspath(model)):
                raise

    @property
    def _loaded(self) -> ModelFile:
        if self._file is None:
            self._file = ModelFile(self._model, self._external, self._packed)
        return self._file

    def _session(self, session: Any) -> Session:
        if not isinstance(session, Session):
            raise UsageError(f"{type(session).__name__} is not a session", hint="session = createSession()")
        return session

    # ---- sessions

    @staticmethod
    def createRuntime(configs: Any) -> tuple[Runtime, tuple[bool, ...]]:
        """Looks for backends.

        Args:
            configs: a tuple of configurations, as `createSession` takes them.

        Returns:
            What `createSession` takes as its second argument, and for each configuration whether this machine has the
            backend.

        Raises:
            UsageError: a configuration has an unknown value.
        """
        if not isinstance(configs, (tuple, list)):
            raise UsageError(f"createRuntime takes a tuple of dicts, not {type(configs).__name__}", hint="(config,)")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            read = tuple(setting.read(config) for config in configs)
        return Runtime(read), tuple(not c.fallback for c in read)

    def createSession(self, config: Any = None, runtime: Any = None) -> Session:
        """A new session.

        Args:
            config: a dict, or a tuple of dicts of which the first counts, with the keys backend ("CPU", "CUDA",
                "OPENCL", "VULKAN", "AUTO", or MNN's number of one), precision ("high", "normal", "low", "lowBF"),
                numThread, saveTensors (names of tensors to keep beside the outputs), inputPaths and outputPaths (names
                of tensors between which to run). Unknown keys are ignored with a warning; the CPU replaces a backend
                that this machine lacks, with a warning: `fallback` of the session says why. Of Minnow's own are timeout
                (seconds of a run) and maxMemory (bytes), as `minnow.load` takes them.
            runtime: what `createRuntime` gives.

        Raises:
            UsageError: a value is unknown, or there is no tensor of such a name.
        """
        if runtime is not None and not isinstance(runtime, Runtime):
            raise UsageError(f"runtime is {type(runtime).__name__}", hint="runtime, exists = createRuntime((config,))")
        return Session(self._loaded, self._wishes.applied(setting.read(config)))

    def resizeTensor(self, tensor: Any, shape: Any) -> None:
        """Gives an input of a session another shape, in the order of its axes; its numbers are zeros then.

        Raises:
            UsageError: the tensor is not an input of a session, or cannot have so many axes.
        """
        cell = tensor._cell if isinstance(tensor, Tensor) else None
        owner = getattr(cell, "_session", None)
        if not isinstance(owner, Session) or owner.file is not self._loaded:
            raise UsageError(
                "the tensor is not an input of a session of this interpreter", hint="getSessionInput(session)"
            )
        assert isinstance(tensor, Tensor)
        owner.resize(tensor, shape)

    def resizeSession(self, session: Any, reallocate: Any = 0) -> bool:
        """Plans the computation for the shapes of the inputs. A run does so, too, if need be.

        Raises:
            UsageError, ModelError: the model cannot run with these shapes.
        """
        self._session(session).plan()
        return True

    def runSession(self, session: Any) -> int:
        """Runs the model: 0. Errors are raised."""
        self._session(session).run()
        return 0

    def runSessionWithCallBack(self, session: Any, begin: Any, end: Any) -> int:
        """Runs the model and calls functions before and after each node.

        Nodes are those that the engine runs: those of the file, of which some are fused.

        Args:
            session: to run.
            begin: called with a list of the inputs (Tensors with copies), and the name of the op.
            end: the same, with the outputs. If it returns False, the run ends.

        Returns:
            0, or 11 if a callback has ended the run; the outputs are those of an earlier run then.

        Raises:
            UsageError: `begin` has returned False: MNN would leave out the op, and compute with what was in memory.
        """
        return self._watched(session, begin, end, lambda info: info.getName())

    def runSessionWithCallBackInfo(self, session: Any, begin: Any, end: Any) -> int:
        """The same with an `OpInfo` for the name."""
        return self._watched(session, begin, end, lambda info: info)

    def _watched(self, session: Any, begin: Any, end: Any, what: Callable[[OpInfo], Any]) -> int:
        one = self._session(session)
        if not one.configuration.has_callbacks:
            raise UsageError("Session_Release has no callbacks", hint="setSessionMode(0) before createSession()")
        stopped = Stopped()
        try:
            one.run(*watch(one, begin, end, what, stopped))
        except CancelledError:
            if not stopped.by_end:
                raise
            return STOPPED
        return 0

    # ---- inputs and outputs

    def getSessionInput(self, session: Any, name: Any = None) -> Tensor:
        """An input, by default the first one by name. Raises UsageError if there is none of this name."""
        return _one(self._session(session).inputs, name, "input")

    def getSessionOutput(self, session: Any, name: Any = None) -> Tensor:
        """An output, by default the first one by name. Raises UsageError if there is none of this name."""
        return _one(self._session(session).outputs, name, "output")

    def getSessionInputAll(self, session: Any) -> dict[str, Tensor]:
        """All inputs by name, in the order of their names."""
        return dict(self._session(session).inputs)

    def getSessionOutputAll(self, session: Any) -> dict[str, Tensor]:
        """All outputs by name, in the order of their names."""
        return dict(self._session(session).outputs)

    # ---- settings

    def getSessionInfo(self, session: Any, code: Any) -> float | int:
        """What a session needs and has.

        Args:
            session: of this interpreter.
            code: 0: memory in MB; 1: millions of multiply-accumulates; 2: MNN's number of the backend; 3: resize
                status, 0; 4: number of threads.

        Raises:
            UsageError: the code is unknown.
        """
        if isinstance(code, bool) or not isinstance(code, (int, np.integer)) or not 0 <= code < len(_INFO):
            known = ", ".join(f"{i}: {text}" for i, text in enumerate(_INFO))
            raise UsageError(f"getSessionInfo({code!r}): the code is unknown", hint=known)
        return self._session(session).info(int(code))

    def setExternalFile(self, path: Any) -> None:
        """Says where the weights are that lie in a file of their own. To be called before `createSession`."""
        self._external = setting.path(path)
        self._file = None

    def setCacheFile(self, path: Any) -> None:
        """Says where packed weights are looked for and `updateCacheFile` writes them. To be called before
        `createSession`. The file need not be there."""
        self._packed = setting.path(path)
        self._file = None

    def updateCacheFile(self, session: Any, flag: Any = 0) -> int:
        """Writes the weights as the session has packed them, so that later sessions need not: 0.

        Raises:
            UsageError: `setCacheFile` was not called, or the model does not come from a file.
            WriteError: the file cannot be written.
        """
        if not self._packed:
            raise UsageError("there is no cache file to update", hint="setCacheFile(path) before createSession()")
        self._session(session).write_packed(self._packed)
        return 0

    def setSessionMode(self, mode: Any) -> None:
        """Sets a mode (0 to 17) of the sessions that are made after it; docs/express.md says what each changes.

        Raises:
            UsageError: it is unknown.
        """
        self._wishes.set_mode(mode)

    def setSessionHint(self, hint: Any, value: Any) -> None:
        """Sets a hint (0 to 18) for the sessions that are made after it; docs/express.md says what each changes.

        Raises:
            UsageError: it is unknown, or the value is none that it can have.
        """
        self._wishes.set_hint(hint, value)

    def getModelVersion(self) -> str:
        """The version of the converter that wrote the file."""
        return self._loaded.version or "<2.0.0"

    def updateSessionToModel(self, session: Any) -> None:
        """Nothing: a session does not change the weights of its model."""
        self._session(session)

    def cache(self) -> None:
        """Nothing: for programs that call it."""

    def removeCache(self) -> None:
        """Nothing: for programs that call it."""


def get_model_uuid(path: Any) -> str:
    """The UUID of a model file, "" if it has none.

    Raises:
        FormatError: the file cannot be read, or is damaged.
    """
    from minnow.schema.mnn import wire

    return str(wire.read(_mapped(setting.path(path))).get("mnn_uuid", ""))


def version() -> str:
    """The version of MNN whose interface this is. Minnow's own is `minnow.__version__`."""
    return "3.6.1"


def _mapped(path: str) -> Any:
    try:
        return np.memmap(path, np.uint8, mode="r")
    except (OSError, ValueError) as error:
        raise FormatError("the model cannot be read", where=path, why=str(error)) from None


def _needs_weights(path: str) -> bool:
    """Whether the file is one whose companion weights file is missing."""
    from minnow.interpreter.model_file import _has_external
    from minnow.schema.mnn import wire

    return not os.path.exists(f"{path}.weight") and _has_external(wire.read(_mapped(path)))


def _one(tensors: dict[str, Tensor], name: Any, what: str) -> Tensor:
    if name is None:
        return next(iter(tensors.values()))
    if not isinstance(name, str) or name not in tensors:
        raise UsageError(f"the session has no {what} {name!r}", hint=f"its {what}s are {', '.join(tensors)}")
    return tensors[name]
