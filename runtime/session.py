"""Runs `.mnn` models on numpy arrays: `load`, `Model`, `Session`, `TensorInfo`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

import minnow.runtime._engine as _engine
from minnow.options.run import LimitOptions, LoadOptions, Precision, RunOptions
from minnow.options.signature import takes
from minnow.runtime.device_array import DeviceArray, capsule_of, device_of
from minnow.schema.errors import FormatError, UsageError

Array = np.ndarray[Any, Any]
Before = Callable[[str, str, list[Array | None]], object]
After = Callable[[str, str, list[Array | None], list[Array | None]], object]


@dataclass(frozen=True)
class TensorInfo:
    """A graph input or output, as the source model declares it or as `inputs` of a conversion describes it.

    Attributes:
        name: its name; may be left out in a mapping by name.
        dtype: name of the numpy dtype, or of a dtype of ml_dtypes such as "bfloat16". "": the one that the model
            declares.
        shape: one entry per dimension: its size, or for a dynamic dimension its symbol, "?" if it has none; None if the
            rank is unknown.
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
    """A loaded and checked `.mnn` model. Any number of sessions can be created from it; they share its weights.

    Loading the same, unchanged file again while it is in use shares the weights, too.

    Args:
        model: path of the file, or its bytes. A file is mapped into memory, so it must not change while in use. Weights
            that `mnnconvert convert --prepack` has written for this kind of processor are mapped, too.
        mmap: False: read these files into memory instead. A mapped file that another program cuts off ends the process
            (SIGBUS).
        packed: the file that `Session.write_packed` writes and where packed weights are looked for; by default the
            model's path with ".packed" appended.

    Raises:
        FormatError: the file cannot be read, or is damaged.
        UnsupportedError: the engine cannot run some of its ops; all of them are listed.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | bytes,
        *,
        mmap: bool = True,
        packed: str | os.PathLike[str] | None = None,
    ) -> None:
        if isinstance(model, (bytes, bytearray, memoryview)):
            self._engine = _engine.load_bytes(bytes(model))
        else:
            try:
                self._engine = _engine.load_file(os.fspath(model), mmap, os.fspath(packed or ""))
            except FormatError as e:
                path = os.fspath(model)
                if os.path.splitext(path)[1] not in (".mnn", "") and not e.hint:
                    e.hint = f"`mnnconvert {path} -o {os.path.splitext(path)[0]}.mnn` converts a source model"
                raise

    @takes(RunOptions)
    def session(self, options: RunOptions) -> Session:
        """A new session, which can run at the same time as other sessions of the model.

        Args:
            options:

        Raises:
            UsageError: an argument is wrong.
            DeviceError: the device is not available.
            DeadlineError: the timeout has passed before the session was created.
        """
        return self._open(options)

    def _open(self, options: RunOptions) -> Session:
        precision = get_args(Precision).index(options.precision)
        limits = [options.timeout or 0, int(options.max_memory or 0), int(options.max_rounds or 0)]  # 0: the default
        return Session(self._engine.session(int(options.threads or 0), precision, *limits, device=options.device))


class Session:
    """A model ready to run; created by `load` or `Model.session`.

    The first run with new input shapes plans the computation; plans for the most recent input shapes are kept. Runs of
    one session wait for each other. The interpreter lock is released while they compute.

    Attributes:
        inputs, outputs: `TensorInfo` of the graph inputs and outputs, in the order of the source model.
    """

    def __init__(self, engine: _engine.Session) -> None:
        self._engine = engine
        self.inputs = [TensorInfo(*row) for row in engine.inputs]
        self.outputs = [TensorInfo(*row) for row in engine.outputs]
        self._names = {info.name for info in self.inputs}
        self._states = [TensorInfo(*row) for row in engine.state_infos]

    def run(
        self,
        inputs: Mapping[str, Any],
        timeout: float | None = None,
        *,
        fetch: Sequence[str] | None = None,
        before: Before | None = None,
        after: After | None = None,
        device_outputs: bool = False,
    ) -> dict[str, Any]:
        """Runs the model, or a part of it.

        Args:
            inputs: for every graph input its name and an array, or what numpy converts to one. Layout and dtype are
                those of the source model. An array in the memory of a CUDA device on which the session runs is read
                there, if it is contiguous and of the model's dtype: of PyTorch, CuPy, or what else has DLPack. On the
                host, an array of another dtype of the same kind is converted unless integers
                would overflow. A sequence is a list of arrays, and an optional may be None.
            timeout: seconds for this run; None for the timeout of the session.
            fetch: names of the values to compute, instead of all graph outputs: of graph inputs and outputs, states,
                and values between nodes of the main graph (`mnnconvert inspect --graph` shows their names). Only the
                nodes that they need run, nodes that the engine would fuse are not fused where the values between them
                are wanted, and the states stay as they are.
            before: called before each node with its name, its op, and the list of its inputs: arrays, None for those
                that are missing. If it returns False, the run ends with CancelledError; its exceptions are raised here.
            after: the same after each node, with a list of its outputs as fourth argument.

            device_outputs: give the outputs as `DeviceArray`, in the memory of the CUDA device on which the session
                runs, instead of numpy arrays.

        Ctrl-C ends a run in the main thread, on the CPU also within a node that takes long.

        Nodes, for `before` and `after`, are those that run after fusion, as in `profile`; conversions of layout and
        copies between devices are among them. Arrays are copies in plain layout. The name of a node in a subgraph
        begins with those of the control flow nodes around it: "loop/add". Parallel nodes run one after the other. For
        a callback, methods of this session raise UsageError, except `cancel`.

        Returns:
            The graph outputs, or what `fetch` names, by name: new arrays with the dtypes and layout of the source
            model; a list for a sequence.

        Raises:
            UsageError: an input is missing or unknown, or has a wrong shape or type; or `fetch` has an unknown name,
                for which similar names are listed.
            ModelError: the model is invalid for these inputs.
            UnsupportedError: it needs more memory, or more iterations of loops, than allowed.
            DeadlineError: the timeout has passed.
            CancelledError: another thread has called `cancel`, or a callback has returned False.
        """
        seconds = -1.0 if timeout is None else float(LimitOptions(timeout=timeout).timeout or 0)
        arrays = self._arrays(inputs)
        if device_outputs:
            return self._run_to_device(arrays, seconds, fetch, before, after)
        if fetch is None and before is None and after is None:
            results = self._engine.run(arrays, seconds)
            return {info.name: _from_array(array, info) for info, array in zip(self.outputs, results, strict=True)}
        names = self._fetched(fetch)
        results = self._engine.run(arrays, seconds, before, after, None if fetch is None else names)
        infos = {info.name: info for info in (*self.inputs, *self.outputs)}
        return {
            name: _from_array(array, infos.get(name, TensorInfo())) for name, array in zip(names, results, strict=True)
        }

    def _fetched(self, fetch: Sequence[str] | None) -> list[str]:
        if isinstance(fetch, str):
            raise UsageError("fetch is a list of names, not one name", hint=f"fetch=[{fetch!r}]")
        return [info.name for info in self.outputs] if fetch is None else list(dict.fromkeys(fetch))

    def _run_to_device(
        self,
        arrays: list[Any],
        seconds: float,
        fetch: Sequence[str] | None,
        before: Before | None,
        after: After | None,
    ) -> dict[str, Any]:
        self._check_device_outputs()
        names = self._fetched(fetch)
        results = self._engine.run(arrays, seconds, before, after, None if fetch is None else names, True)
        return self._device_arrays(names, results)

    def _check_device_outputs(self) -> None:
        devices = self._engine.devices
        if len(devices) < 2 or not devices[1].startswith("cuda"):
            raise UsageError(
                f"device_outputs: the session runs on {' and '.join(devices)}", hint='load the model with device="cuda"'
            )
        if lists := [info.name for info in self.outputs if info.container]:
            raise UsageError(f"device_outputs: the output '{lists[0]}' is not a tensor, and lies on the host")

    def _device_arrays(self, names: Sequence[str], rows: Sequence[Any]) -> dict[str, DeviceArray]:
        device = self._engine.devices[1]
        return {
            name: DeviceArray(dtype, shape, device, memory, self._engine)
            for name, (dtype, shape, memory) in zip(names, rows, strict=True)
        }

    def bind(self, inputs: Mapping[str, Any], *, device_outputs: bool = False) -> BoundRun:
        """Prepares runs that read their inputs from, and write their outputs to, the same memory each time.

        Such runs allocate nothing. Where inputs and outputs lie on a CUDA device, one launch replays the whole run.

            bound = session.bind({"x": x}, device_outputs=True)
            outputs = bound.run()
            x.copy_(next_image)  # the next run reads it
            bound.run()          # overwrites `outputs`

        Args:
            inputs: for every graph input its name and an array that can be read in place: contiguous, with the dtype
                and layout of the model.
            device_outputs: as for `run`.

        Raises:
            UsageError: an input is missing or unknown, has a wrong dtype, or is not an array that can be read in place;
                or it is a sequence.
        """
        self._check_names(inputs)
        arrays = []
        for info in self.inputs:
            value = inputs[info.name]
            array = self._to_input(value, info)
            copied = isinstance(array, np.ndarray) and (
                not isinstance(value, np.ndarray) or (array.size and not np.may_share_memory(array, value))
            )
            if info.container or copied:
                raise UsageError(
                    f"input '{info.name}' cannot be read in place",
                    hint=f"bind a contiguous numpy array, or an array on the device, that is {info}",
                )
            arrays.append(array)
        if device_outputs:
            self._check_device_outputs()
        return BoundRun(self, self._engine.bind(arrays, device_outputs), device_outputs)

    def to_device(self, inputs: Mapping[str, Any]) -> dict[str, DeviceArray]:
        """Copies inputs to the CUDA device on which the session runs, for runs that find them there.

        Args:
            inputs: as for `run`.

        Raises:
            UsageError: an input does not fit, or the session does not run on a CUDA device.
        """
        return self._device_arrays([info.name for info in self.inputs], self._engine.to_device(self._arrays(inputs)))

    def placement(self, shapes: Mapping[str, Sequence[int]] | None = None) -> list[dict[str, str]]:
        """Where each node runs, without running the model.

        Args:
            shapes: the shapes of all graph inputs by name; None for those of the latest run, or of the model if it has
                no dynamic dimensions.

        Returns:
            One row per node, in order of execution, with `name`, `op`, `device` ("cpu", "cuda:0"), and `why` it runs
            there, "" where there was no choice. Nodes whose shapes depend on values, and subgraphs, follow when they
            have run.

        Raises:
            UsageError: the shapes do not fit the model, or None are given and it has not run.
        """
        if shapes is None:
            rows: list[dict[str, str]] = self._engine.placement(None)
            return rows
        self._check_names(shapes)
        rows = self._engine.placement([tuple(map(int, shapes[info.name])) for info in self.inputs])
        return rows

    def cancel(self) -> None:
        """Ends the current run in another thread, on the CPU also within a node that takes long.

        That run raises `CancelledError`. Without a current run nothing happens; later runs are not affected.
        """
        self._engine.cancel()

    @property
    def state_infos(self) -> list[TensorInfo]:
        """Names and types of the states. One that grows has the symbol of its first dimension."""
        return list(self._states)

    @property
    def states(self) -> dict[str, Array]:
        """The states of the model by name, as copies: the values that the next run starts with.

        A cache that a run writes in place, such as those of `PagedAttention`, may after a run that has failed hold some
        of its new tokens: behind the lengths that the caller knows, where no run looks before it has written.
        """
        return {info.name: array for info, array in zip(self._states, self._engine.states(), strict=True)}

    def reset(self, states: Mapping[str, Any] | None = None) -> None:
        """Restores the initial values of all states, so that the next run is like the first one.

        Args:
            states: values by name to set instead, as `states` has returned them; states that are not named keep theirs.

        Raises:
            UsageError: a state is unknown, or has a wrong shape or type.
        """
        if states is None:
            self._engine.reset(None)
            return
        self._check_states(states)
        merged = {**self.states, **states}
        self._engine.reset([to_array(merged[info.name], info) for info in self._states])

    def _check_states(self, given: Mapping[str, Any]) -> None:
        names = [info.name for info in self._states]
        if unknown := [name for name in given if name not in names]:
            raise UsageError(f"the model has no state '{unknown[0]}'", hint=f"its states: {', '.join(names) or 'none'}")

    def resize_states(self, dimension: str, size: int) -> None:
        """Sets a dynamic dimension of states, such as the number of blocks of a cache; at the beginning it is 0.

        States keep what they have, as far as there is room for it; what is added is 0.

        Args:
            dimension: its symbol, in the shapes of the states.
            size: its new size.

        Raises:
            UsageError: no state has this dimension, or the size is below 0.
            UnsupportedError: there is not so much memory, or `max_memory` is less. All states are as before.
        """
        self._engine.resize_states(dimension, int(size))

    def copy_in_states(self, dimension: str, source: int, target: int) -> None:
        """Copies what each state with a dynamic dimension has at one place of it to another: a block of a cache.

        Args:
            dimension: its symbol, in the shapes of the states.
            source, target: the places, from 0 on.

        Raises:
            UsageError: no state has this dimension, or there is no such place.
        """
        self._engine.copy_in_states(dimension, int(source), int(target))

    def retype_states(self, types: Mapping[str, tuple[str, Sequence[int]]]) -> None:
        """Gives states that grow, and are empty, other types, with which a cache takes less or more memory.

        Args:
            types: by name the dtype and the shape, whose first dimension is 0. The next run tells whether the model
                takes them.

        Raises:
            UsageError: a state is unknown, does not grow, or is not empty; or the shape is none for it.
        """
        self._check_states(types)
        places = {info.name: i for i, info in enumerate(self._states)}
        arrays = [np.zeros([int(d) for d in shape], _numpy_dtype(dtype)) for dtype, shape in types.values()]
        self._engine.retype_states([places[name] for name in types], arrays)
        for name, array in zip(types, arrays, strict=True):
            info = self._states[places[name]]
            shape = (*(info.shape or ())[:1], *array.shape[1:])
            self._states[places[name]] = TensorInfo(name, array.dtype.name, shape)

    def profile(self, inputs: Mapping[str, Any], runs: int = 10) -> list[dict[str, Any]]:
        """Mean times of the nodes over several runs, in order of execution.

        Args:
            inputs: as for `run`.
            runs: number of runs to average over.

        Returns:
            One row per node with `name`, `op`, `scheme` (the algorithm), `shape` (of its first output), `ms`
            (milliseconds per run), `macs` (multiply-accumulates), `bytes` (of operands and results), `copied` (bytes
            between the CPU and another device), `device` and `why` (see `placement`), `group` and `chain`: the chains
            of a group run in parallel, and their nodes share its time; 0 for all other nodes. The nodes of a subgraph
            follow the control flow node that runs them, whose name is prefixed to theirs.

        Raises:
            The errors of `run`.
        """
        rows: list[dict[str, Any]] = self._engine.profile(self._arrays(inputs), runs)
        return rows

    @property
    def stats(self) -> dict[str, int]:
        """Memory in bytes, and the number of `threads`.

        `arena_bytes` is the memory for intermediate tensors, `least_arena_bytes` the lower bound for it: the most bytes
        that are needed at the same time. `weight_bytes` are the constants of the file. `packed_bytes` are the weights
        in the layout of the kernels, over all sessions of the model, and `mapped_bytes` those of them that are mapped
        from a companion file.
        """
        stats: dict[str, int] = self._engine.stats
        return stats

    def write_packed(self, path: str | os.PathLike[str] = "") -> None:
        """Writes the weights that the model's sessions have packed so far to a file, for this kind of processor.

        Args:
            path: the file; by default the model's path with ".packed" appended, where `load` looks for it, or what
                `Model` was given as `packed`.

        Raises:
            UsageError: the folder does not exist, or the model was not loaded from a file.
            WriteError: the file cannot be written.
        """
        self._engine.write_packed(os.fspath(path))

    def _arrays(self, inputs: Mapping[str, Any]) -> list[Array]:
        self._check_names(inputs)
        return [self._to_input(inputs[info.name], info) for info in self.inputs]

    def _to_input(self, value: Any, info: TensorInfo) -> Any:
        if type(value) is not np.ndarray and not info.container and (device := device_of(value)):
            return capsule_of(value, device, info.name, info.dtype, self._engine.devices)
        return _to_input(value, info)

    def _check_names(self, inputs: Mapping[str, Any]) -> None:
        if isinstance(inputs, dict) and inputs.keys() == self._names:
            return
        names = [info.name for info in self.inputs]
        if not isinstance(inputs, Mapping):
            raise UsageError(
                f"inputs are given by name, not as {type(inputs).__name__}", hint=f"names are {', '.join(names)}"
            )
        if unknown := [name for name in inputs if name not in names]:
            raise UsageError(f"the model has no input '{unknown[0]}'", hint=f"its inputs are {', '.join(names)}")
        if missing := [info for info in self.inputs if info.name not in inputs]:
            raise UsageError(f"input '{missing[0].name}' is missing", hint=f"it is {missing[0]}")


class BoundRun:
    """Runs of a session from and to the same memory; created by `Session.bind`."""

    def __init__(self, session: Session, engine: _engine.BoundRun, device_outputs: bool) -> None:
        self._session = session
        self._engine = engine
        self._device_outputs = device_outputs
        self._outputs: dict[str, Any] = {}

    def run(self, timeout: float | None = None) -> dict[str, Any]:
        """Runs the model on what the inputs hold now.

        Returns:
            The outputs by name, as `Session.run` gives them: the same arrays each time, with new contents. A sequence
            is a new list each time.

        Raises:
            UsageError: an output has another shape than in the first run, as it depends on the contents of the inputs.
            The other errors of `Session.run`.
        """
        rows = self._engine.run(-1.0 if timeout is None else float(LimitOptions(timeout=timeout).timeout or 0))
        if self._outputs:
            return self._outputs
        infos = self._session.outputs
        if self._device_outputs:
            self._outputs = self._session._device_arrays([info.name for info in infos], rows)
            return self._outputs
        outputs = {info.name: _from_array(array, info) for info, array in zip(infos, rows, strict=True)}
        if not any(info.container for info in infos):
            self._outputs = outputs
        return outputs


def _numpy_dtype(name: str) -> np.dtype[Any]:
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return dtype


def _to_input(value: Any, info: TensorInfo) -> Array:
    """The value as the engine takes it: an array, or for a container the bytes of its arrays."""
    if not info.container:
        return to_array(value, info)
    from minnow.schema.mnn.container import to_bytes

    def element(value: Any, name: str) -> Array:
        array = to_array(value, TensorInfo(name, info.dtype, info.shape))
        check_shape(array, info, name)
        return array

    return to_bytes(value, info.container, info.name, element)


def check_shape(array: Array, info: TensorInfo, name: str) -> None:
    """Raises UsageError if the shape of an array differs from that of `info`."""
    if info.shape is None:
        return
    fits = array.ndim == len(info.shape)
    if not fits or any(isinstance(d, int) and d != n for d, n in zip(info.shape, array.shape, strict=True)):
        raise UsageError(f"input '{name}' has the shape {list(array.shape)}", hint=f"the model wants {info}")


def _from_array(array: Array, info: TensorInfo) -> Any:
    """The value as the user gets it. Arrays in a container are converted from the engine's types here."""
    if not info.container:
        return array
    from minnow.schema.mnn.container import of_bytes

    dtype = _numpy_dtype(info.dtype)
    value = of_bytes(array, info.container)
    if isinstance(value, list):
        return [a.astype(dtype, copy=False) for a in value]
    return None if value is None else value.astype(dtype, copy=False)


def to_array(value: Any, info: TensorInfo) -> Array:
    """The value as a contiguous array of the input's dtype. Raises UsageError if information would be lost."""
    want = _numpy_dtype(info.dtype)
    if type(value) is np.ndarray and value.dtype == want and value.flags.c_contiguous:
        return value  # what follows takes longer than a small model
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise UsageError(f"input '{info.name}' is not an array", why=str(error)) from None
    if array.dtype == np.dtype((np.void, want.itemsize)) and want.isbuiltin == 2:
        array = array.view(want)  # numpy stores the types of ml_dtypes as raw bytes
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
    """The array with a type of 8 bits or less, which must represent all of its values exactly."""
    narrow = np.zeros(0, want)
    if array.dtype.kind in ("iub" if "int" in want.name else "fiub"):
        with np.errstate(all="ignore"):
            narrow = array.astype(want)
            if np.array_equal(narrow.astype(np.float64), array.astype(np.float64), equal_nan=True):
                return narrow
    raise UsageError(
        f"input '{info.name}' is {array.dtype}, the model wants {info.dtype}",
        why="that type cannot represent all of its values" if narrow.size else "",
        hint=f"pass an array of {info.dtype} of the package ml_dtypes",
    )


@takes(LoadOptions)
def load(model: str | os.PathLike[str] | bytes, options: LoadOptions) -> Session:
    """Loads a `.mnn` model.

    Args:
        model: path of the file, or its bytes. A file is mapped into memory, so it must not change while in use; with
            `mmap=False` it may.
        options:

    Raises:
        FormatError: the file cannot be read, or is damaged.
        UnsupportedError: the engine cannot run some of its ops (all of them are listed), or nested subgraphs multiply
            to too many nodes for the size of the file.
        UsageError: an argument is wrong.
        DeviceError: the device is not available.
        DeadlineError: the timeout has passed before the model was planned.
    """
    if options.device not in ("cpu", "auto") and "," not in options.device:
        _engine.start_device(options.device)  # while the file is read
    return Model(model, mmap=options.mmap)._open(options)
