"""Runs `.mnn` models on numpy arrays: `load`, `Model`, `Session`, `TensorInfo`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import minnow.runtime._engine as _engine
from minnow.schema.errors import UsageError

Array = np.ndarray[Any, Any]

_PRECISIONS = ("high", "normal", "low")


@dataclass(frozen=True)
class TensorInfo:
    """An input or output as the source model declares it, or as `inputs` of a conversion says that it is.

    Attributes:
        name: its name; in a mapping by name it can be left out.
        dtype: name of the numpy dtype; those that numpy itself does not have, such as "bfloat16", are of ml_dtypes. "":
            the one that the model declares.
        shape: a size or a symbol per axis, "?" for a size without a name; None when not even the rank is known.
        container: "" for a tensor; "sequence" (a list of arrays of this dtype and shape), "optional" (such an array or
            None), or "optional(sequence)" (a list or None).
    """

    name: str = ""
    dtype: str = ""
    shape: tuple[int | str, ...] | None = None
    container: str = ""

    def __str__(self) -> str:
        dims = "..." if self.shape is None else ", ".join(map(str, self.shape))
        text = f"{self.dtype}[{dims}]"
        for kind in reversed(self.container.rstrip(")").split("(")):
            text = f"{kind}({text})" if kind else text
        return f"{self.name}: {text}"


class Model:
    """A `.mnn` model, mapped and checked, of which any number of sessions can be made: all share its weights.

    A file that is loaded again while it is in use, unchanged, is the same model.

    Args:
        model: path of the file, or its bytes. By path the file is mapped, so it must not change while in use. Weights
            that `mnnconvert convert --prepack` has packed for this kind of processor are mapped, too.

    Raises:
        FormatError: the file cannot be read, or is damaged.
        UnsupportedError: the engine cannot run some of its ops; all of them are listed.
    """

    def __init__(self, model: str | os.PathLike[str] | bytes) -> None:
        if isinstance(model, (bytes, bytearray, memoryview)):
            self._engine = _engine.load_bytes(bytes(model))
        else:
            self._engine = _engine.load_file(os.fspath(model))

    def session(
        self,
        threads: int | None = None,
        precision: str = "high",
        timeout: float | None = None,
        max_memory: int | None = None,
        max_rounds: int | None = None,
    ) -> Session:
        """A session of its own, which may run beside the others.

        Args:
            threads: how many to compute with; None for as many as this process may use, and never more than these.
            precision: "high" computes in float32 throughout; "normal" and "low" allow faster, less exact arithmetic.
            timeout: seconds that making the session may take, and each run; see `load`.
            max_memory: bytes; see `load`.
            max_rounds: of loops; see `load`.

        Raises:
            UsageError: an argument is wrong.
            DeadlineError: the time was over before the session was made.
        """
        _check_options(threads, precision)
        limits = [_limit("max_memory", max_memory), _limit("max_rounds", max_rounds)]
        return Session(
            self._engine.session(threads or 0, _PRECISIONS.index(precision), _limit("timeout", timeout), *limits)
        )


class Session:
    """A model ready to run; made by `load`, or by a `Model`.

    Plans are kept for the latest input shapes. Runs of one session wait for each other; the interpreter lock is
    released while they compute.
    """

    def __init__(self, engine: _engine.Session) -> None:
        self._engine = engine
        self.inputs = [TensorInfo(*row) for row in engine.inputs]
        self.outputs = [TensorInfo(*row) for row in engine.outputs]
        self._states = [TensorInfo(*row) for row in engine.state_infos]

    def run(self, inputs: Mapping[str, Any], timeout: float | None = None) -> dict[str, Any]:
        """The model's outputs by name.

        Args:
            inputs: an array, or what numpy can make one of, for every input of the model. Layout and dtype are those of
                the source model; an array of another dtype of the same kind is converted when no integer is lost.
                A sequence is a list of these, and an optional may be None; so are they among the outputs.
            timeout: seconds this run may take; None for what the session was made with.

        An interrupt (Ctrl-C) ends a run in the main thread as soon as the node that is being computed is done.

        Raises:
            UsageError: an input is missing or unknown, or has a wrong shape or type.
            ModelError: the model turns out to be invalid for these inputs.
            UnsupportedError: it would take more memory, or more rounds of loops, than is allowed.
            DeadlineError: the time was over.
            CancelledError: another thread has called `cancel`.
        """
        seconds = -1.0 if timeout is None else _limit("timeout", timeout)
        results = self._engine.run(self._arrays(inputs), seconds)
        return {info.name: _from_array(array, info) for info, array in zip(self.outputs, results, strict=True)}

    def cancel(self) -> None:
        """Ends the run that is under way in another thread, as soon as the node that is being computed is done.

        That run raises `CancelledError`; without one nothing happens, and later runs are not concerned.
        """
        self._engine.cancel()

    @property
    def states(self) -> dict[str, Array]:
        """What the model remembers from run to run, by name: copies of the numbers that the next run begins with."""
        return {info.name: array for info, array in zip(self._states, self._engine.states(), strict=True)}

    def reset(self, states: Mapping[str, Any] | None = None) -> None:
        """Forgets what the runs so far have changed, so that the next run is like the first one.

        Args:
            states: instead of the numbers of the file those to go on with, as `states` gave them.

        Raises:
            UsageError: a state is unknown, or has a wrong shape or type.
        """
        if states is None:
            self._engine.reset(None)
            return
        names = [info.name for info in self._states]
        if unknown := [name for name in states if name not in names]:
            raise UsageError(f"the model has no state '{unknown[0]}'", hint=f"its states: {', '.join(names) or 'none'}")
        merged = {**self.states, **states}
        self._engine.reset([to_array(merged[info.name], info) for info in self._states])

    def profile(self, inputs: Mapping[str, Any], runs: int = 10) -> list[dict[str, Any]]:
        """Mean times of the nodes over some runs, in order of execution.

        Returns:
            One row per node with `name`, `op`, `scheme` (how it is computed), `shape` (of its first output), `ms`,
            `macs` (multiply-accumulates), `bytes` (of operands and results, as tensors), `group` and `chain`: the
            chains of a group ran side by side, and their nodes have shares of its time; 0 for all others. What a node
            of control flow calls follows with its name before it.
        """
        rows: list[dict[str, Any]] = self._engine.profile(self._arrays(inputs), runs)
        return rows

    @property
    def stats(self) -> dict[str, int]:
        """Memory in bytes, and `threads`.

        `arena_bytes` for intermediate tensors, of which `least_arena_bytes` are needed at one time, and `weight_bytes`
        of the constants as tensors. Of all sessions of the model together: `packed_bytes` of weights in the form that
        is computed with, and `mapped_bytes` of those that a file beside the model holds in that form.
        """
        stats: dict[str, int] = self._engine.stats
        return stats

    def write_packed(self, path: str | os.PathLike[str] = "") -> None:
        """Writes the weights that the model's sessions have packed so far, for this kind of processor.

        Args:
            path: the file; by default the model's path with ".packed" behind it, where `load` looks for it.

        Raises:
            UsageError: its folder does not exist, or the model was not loaded from a file.
            WriteError: it cannot be written.
        """
        self._engine.write_packed(os.fspath(path))

    def _arrays(self, inputs: Mapping[str, Any]) -> list[Array]:
        names = [info.name for info in self.inputs]
        if not isinstance(inputs, Mapping):
            raise UsageError(
                f"inputs are given by name, not as {type(inputs).__name__}", hint=f"names are {', '.join(names)}"
            )
        if unknown := [name for name in inputs if name not in names]:
            raise UsageError(f"the model has no input '{unknown[0]}'", hint=f"its inputs are {', '.join(names)}")
        if missing := [info for info in self.inputs if info.name not in inputs]:
            raise UsageError(f"input '{missing[0].name}' is missing", hint=f"it is {missing[0]}")
        return [_to_input(inputs[info.name], info) for info in self.inputs]


def _numpy_dtype(name: str) -> np.dtype[Any]:
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return dtype


def _to_input(value: Any, info: TensorInfo) -> Array:
    """What the engine gets: an array, or the bytes of several."""
    if not info.container:
        return to_array(value, info)
    from minnow.schema.mnn.container import to_bytes

    def element(value: Any, name: str) -> Array:
        array = to_array(value, TensorInfo(name, info.dtype, info.shape))
        check_shape(array, info, name)
        return array

    return to_bytes(value, info.container, info.name, element)


def check_shape(array: Array, info: TensorInfo, name: str) -> None:
    """Raises UsageError where an array has another shape than `info` says."""
    if info.shape is None:
        return
    fits = array.ndim == len(info.shape)
    if not fits or any(isinstance(d, int) and d != n for d, n in zip(info.shape, array.shape, strict=True)):
        raise UsageError(f"input '{name}' has the shape {list(array.shape)}", hint=f"the model wants {info}")


def _from_array(array: Array, info: TensorInfo) -> Any:
    """What the user gets. Numbers in a container are those that the engine computed with, and get their type here."""
    if not info.container:
        return array
    from minnow.schema.mnn.container import of_bytes

    dtype = _numpy_dtype(info.dtype)
    value = of_bytes(array, info.container)
    if isinstance(value, list):
        return [a.astype(dtype, copy=False) for a in value]
    return None if value is None else value.astype(dtype, copy=False)


def to_array(value: Any, info: TensorInfo) -> Array:
    """The value as a contiguous array of the input's dtype; refuses what would change its numbers' meaning."""
    want = _numpy_dtype(info.dtype)
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise UsageError(f"input '{info.name}' is no array", why=str(error)) from None
    if array.dtype == np.dtype((np.void, want.itemsize)) and want.isbuiltin == 2:
        array = array.view(want)  # what the files of numpy make of the types that it does not have itself
    if array.dtype != want:
        if array.size == 0 and not isinstance(value, (np.ndarray, np.generic)):
            array = array.astype(want)  # an empty list has no type of its own
        array = _convert(array, want, info)
    return np.require(array, requirements="C").reshape(array.shape)


def _convert(array: Array, want: np.dtype[Any], info: TensorInfo) -> Array:
    if want.itemsize == 1 and want.isbuiltin == 2:  # one of ml_dtypes
        return _stored(array, want, info)
    widened = want.kind == "V" or want.name == "bfloat16"
    same_kind = array.dtype.kind in "fiub" if widened else np.can_cast(array.dtype, want, "same_kind")
    hint = f"pass an array of {info.dtype}"
    if not same_kind and not (array.dtype.kind in "iu" and want.kind in "iu"):
        raise UsageError(f"input '{info.name}' is {array.dtype}, the model wants {info.dtype}", hint=hint)
    if array.dtype.kind in "iu" and want.kind in "iu" and array.size:
        limits = np.iinfo(want)
        if int(array.min()) < limits.min or int(array.max()) > limits.max:
            why = f"{array.min()} to {array.max()} are outside of {info.dtype}"
            raise UsageError(f"input '{info.name}' is {array.dtype}, the model wants {info.dtype}", why=why, hint=hint)
    return array.astype(want)


def _stored(array: Array, want: np.dtype[Any], info: TensorInfo) -> Array:
    """As a type of 8 bits or less: only numbers that it holds, since hardly any would survive rounding."""
    narrow = np.zeros(0, want)
    if array.dtype.kind in ("iub" if "int" in want.name else "fiub"):
        with np.errstate(all="ignore"):
            narrow = array.astype(want)
            if np.array_equal(narrow.astype(np.float64), array.astype(np.float64), equal_nan=True):
                return narrow
    raise UsageError(
        f"input '{info.name}' is {array.dtype}, the model wants {info.dtype}",
        why="not all of its numbers are of that type" if narrow.size else "",
        hint=f"pass an array of {info.dtype} of the package ml_dtypes",
    )


def load(
    model: str | os.PathLike[str] | bytes,
    threads: int | None = None,
    precision: str = "high",
    timeout: float | None = None,
    max_memory: int | None = None,
    max_rounds: int | None = None,
) -> Session:
    """Loads a `.mnn` model.

    Args:
        model: path of the file, or its bytes. By path the file is mapped, so it must not change while in use.
        threads: how many to compute with; None for as many as this process may use, and never more than these.
        precision: of products with constant weights; all sums, and everything else, are float32.
            "high": float32.
            "normal": as "high", but where the processor has AMX, convolutions and matrix products split each number in
            two of bfloat16, which keep 16 bits of its 24. An infinity among them gives NaN.
            "low": weights of recurrent layers and of matrix products with up to 4 rows are rounded to bfloat16, half
            the bytes to read. Where the processor has AMX, or is AMD's with AVX-512-BF16, convolutions and larger
            products round both operands to bfloat16, on Arm with vectors of float16 to that; elsewhere they stay in
            float32. The operands of attention are rounded as well, where there are AMX tiles.
        timeout: seconds that planning may take, and each run; None for any time. It is looked at between nodes.
        max_memory: bytes for intermediate tensors, states and results; weights in the form that is computed with come
            on top. None for 512 MiB and 256 times the size of the model and its inputs, but never more than three
            quarters of the machine's memory.
        max_rounds: of all loops in one run, and branches taken; None for 5 million.

    Raises:
        FormatError: the file cannot be read, or is damaged.
        UnsupportedError: the engine cannot run some of its ops, and all of them are listed; or the model holds
            subgraphs that come to more nodes than is in proportion to the file.
        UsageError: an argument is wrong.
        DeadlineError: the time was over before the model was planned.
    """
    return Model(model).session(threads, precision, timeout, max_memory, max_rounds)


def _limit(name: str, value: float | None) -> Any:
    """As the engine has it: 0 for none."""
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 2**63:
        raise UsageError(f"{name} is {value!r}", hint="a number above 0, or None for the default")
    return value if name == "timeout" else int(value)


def _check_options(threads: int | None, precision: str) -> None:
    if precision not in _PRECISIONS:
        raise UsageError(f"there is no precision '{precision}'", hint=f"one of {', '.join(_PRECISIONS)}")
    if threads is not None and (isinstance(threads, bool) or not isinstance(threads, int) or threads < 1):
        raise UsageError(f"threads is {threads!r}", hint="a number of at least 1, or None for all")
