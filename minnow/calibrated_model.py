"""A float model with what a calibration has shown of its tensors, from which quantized models are made and measured."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from minnow.calibration_data import Inputs
from minnow.optimizer.quantize.activations import (
    LAYERS,
    Plan,
    Step,
    Weights,
    bias_of,
    function_of,
    insert,
    planned,
    read_by_layers,
    wide_results,
)
from minnow.optimizer.quantize.equalize import equalize
from minnow.optimizer.quantize.exact import exact_scales, exact_sums
from minnow.optimizer.quantize.histogram import Channels, Histogram
from minnow.optimizer.quantize.layers import layers_of
from minnow.optimizer.quantize.ranges import range_of
from minnow.optimizer.quantize.seen import MOST_INPUTS, Seen
from minnow.options.run import RunOptions
from minnow.schema.errors import MinnowError, StoppedError, UsageError
from minnow.schema.ir import DType, Node

if TYPE_CHECKING:
    from minnow.optimizer.quantize.layers import Layer
    from minnow.options.quantize import QuantizeOptions
    from minnow.runtime.session import Session
    from minnow.schema.ir import Model, Value

Array = npt.NDArray[Any]
_log = logging.getLogger("minnow.quantize")

_FETCHED_BYTES = 1 << 28
"""Tensors that a run gives at a time."""


@dataclass
class Error:
    """Sums over the numbers of a tensor and of the one that takes its place."""

    power: float = 0.0
    other: float = 0.0
    product: float = 0.0
    error: float = 0.0

    def add(self, want: Array, got: Array) -> None:
        """Takes the numbers of one run; where either is no finite number, nothing is compared."""
        x, y = (np.asarray(a, np.float64).reshape(-1) for a in (want, got))
        finite = np.isfinite(x) & np.isfinite(y)
        if not finite.all():
            x, y = x[finite], y[finite]
        self.power += float(x @ x)
        self.other += float(y @ y)
        self.product += float(x @ y)
        self.error += float(np.square(x - y).sum())

    @property
    def sqnr_db(self) -> float | None:
        """Power of the tensor divided by that of the error, in dB; None without an error."""
        if self.error == 0:
            return None
        return float(10 * np.log10(max(self.power, 1e-300) / self.error))

    @property
    def cosine(self) -> float:
        """The cosine of both."""
        norm = float(np.sqrt(self.power * self.other))
        return 1.0 if self.error == 0 else self.product / norm if norm else 0.0


class CalibratedModel:
    """A float model, and the distribution of the numbers of its tensors.

    Args:
        model: prepared: what follows a layer stands behind it, and all tensors have names of their own.
        options: how to quantize.
        path: where to write the float model.
        threads: of sessions; None for all. No result depends on them.

    Attributes:
        plan: what can become integers.
        method: how ranges are chosen.
        wide: results have 16 bits where that can be.
        histograms: by tensor.
        channels: by input of a layer.
        runs: how many inputs were run.
        unused: patterns that exclude nothing.
        is_equalized: channels were made alike.
        first_part: the same, with what the first inputs of a calibration have shown.
    """

    def __init__(self, model: Model, options: QuantizeOptions, path: Path, threads: int | None = None) -> None:
        self.model, self.options, self.path, self.threads = model, options, path, threads
        self.method: str = "mse" if options.activation_method == "auto" else options.activation_method
        given = options.exclude
        self.wide = options.activations == "int16"
        self._patterns = [given] if isinstance(given, str) else list(given)
        self._used: set[str] = set()
        self.plan = planned(model.graph, self._excluded)
        self._read_by_layers = read_by_layers(model.graph)
        self.histograms: dict[Value, Histogram] = {}
        self.channels: dict[Value, Channels] = {}
        self._steps: dict[Value, Step] = {}
        self._rounded: dict[Node, Weights] = {}
        self.runs = 0
        self.is_equalized = False
        self.first_part: CalibratedModel | None = None

    def choose(self, method: str) -> None:
        """Takes ranges by this method from now on."""
        self.method = method
        self._steps.clear()

    @property
    def unused(self) -> list[str]:
        return [p for p in self._patterns if p not in self._used]

    def _excluded(self, node: Node) -> str:
        names = [node.name, node.op, *(v.name for v in node.inputs if v is not None and v.data is not None)]
        found = [p for p in self._patterns if any(n and fnmatchcase(n, p) for n in names)]
        self._used.update(found)
        return f"excluded by '{found[0]}'" if found else ""

    @property
    def results(self) -> list[list[Value]]:
        """What models are compared by: for each output of floats some tensors whose errors count alike.

        One is the output, or of probabilities the numbers that they are made of: probabilities near 0 or 1 hide errors,
        and those between show them at a few inputs alone. The other is what the last layer reads: of an output with
        few numbers the error is mostly chance.
        """
        found = []
        for value in (_in_front_of_probabilities(v) for v in self.model.graph.outputs if v.type.dtype.is_float):
            layer = _behind_views(value)
            has_features = layer is not None and layer.op in LAYERS and layer.input(0).data is None
            found.append([value, layer.input(0)] if layer is not None and has_features else [value])
        return found

    def session(self, path: Path) -> Session:
        """A session for one of the files."""
        from minnow.runtime.session import load

        return load(path, **{**vars(self.options.only(RunOptions)), "threads": self.threads})

    def write(self) -> None:
        """Writes the float model."""
        from minnow.schema.mnn import save

        save(self.model, self.path)

    def calibrate(self, inputs: Iterator[Inputs], part: int = 0) -> None:
        """Runs the float model with all inputs, and counts the numbers of its tensors.

        Args:
            inputs: of the runs.
            part: after so many of them, what is known is kept as `first_part`.
        """
        session = self.session(self.path)
        self._steps.clear()
        self.histograms = {value: Histogram() for value in self.plan.points}
        self.channels = {n.input(0): Channels(1 if n.op == "Conv" else -1) for n in self.plan.layers}
        self.runs = 0
        for one in inputs:
            self.runs += 1
            try:
                for value, array in self._tensors(session, one):
                    self.histograms[value].add(array)
                    if value in self.channels:
                        self.channels[value].add(array)
            except StoppedError:
                raise
            except MinnowError as e:
                shapes = ", ".join(f"{name}{list(np.shape(array))}" for name, array in one.items())
                raise UsageError(
                    f"the model does not run with input {self.runs} of the calibration: {shapes}",
                    why=e.message,
                    hint="other inputs; for pictures `--preprocess size=HEIGHT,WIDTH` gives the size, where it is free",
                ) from e
            if self.runs == part:
                self.first_part = copy(self)
                self.first_part.histograms = {v: deepcopy(h) for v, h in self.histograms.items()}
                self.first_part.channels = {v: deepcopy(c) for v, c in self.channels.items()}
                self.first_part._steps = {}
        strange = [v.name for v, h in self.histograms.items() if h.strange and not h.total]
        if strange:
            raise UsageError(
                f"the tensor '{strange[0]}' is NaN or infinite for all inputs of the calibration",
                hint="`--exclude` the layers around it, or give other inputs",
            )
        _log.info("calibrated %d tensors with %d runs", len(self.histograms), self.runs)

    def _tensors(self, session: Session, inputs: Inputs) -> Iterator[tuple[Value, Array]]:
        """The contents of all tensors, some at a time."""
        part: list[Value] = []
        size = 0
        for value in [*self.histograms, None]:
            if value is not None:
                part.append(value)
                size += 4 * (value.type.count or 0)
            if part and (value is None or size > _FETCHED_BYTES):
                if self.model.states:
                    session.reset()
                found = session.run(inputs, fetch=[v.name for v in part])
                yield from ((v, found[v.name]) for v in part)
                part, size = [], 0

    def equalized(self, path: Path, functions: bool = False) -> CalibratedModel | None:
        """The same function, with channels in front of layers that are alike; None where nothing changes.

        Args:
            path: where its float model is written; it is to be calibrated again.
            functions: also the channels behind functions, which are divided in a node of their own.
        """
        graph = self.model.graph.clone()
        values = dict(zip(self.model.graph.values(), graph.values(), strict=True))
        if not equalize(graph, {values[v]: c.largest for v, c in self.channels.items()}, functions):
            return None
        made = CalibratedModel(replace(self.model, graph=graph), self.options, path, self.threads)
        made.method, made.wide, made.is_equalized = self.method, self.wide, True
        made.write()
        return made

    def widened(self) -> CalibratedModel:
        """The same model with results of 16 bits, where that can be."""
        made = copy(self)
        made.wide, made._steps = True, {}
        return made

    def _step(self, value: Value) -> Step:
        function = function_of(value, self.plan)
        # What no layer depends on is a result: its few largest numbers, which count most, are not to be cut off.
        is_result = self.options.activation_method == "auto" and value not in self._read_by_layers
        method = "minmax" if is_result else self.method
        return Step.of(*range_of(self.histograms[value], method, self.options.percentile, function))

    def quantized(self, kept: Collection[str] = ()) -> QuantizedModel:
        """The model with steps to integers and back.

        Args:
            kept: names of layers that stay float.
        """
        plan = planned(self.model.graph, lambda n: self._excluded(n) or "chosen to stay float" * (n.name in kept))
        steps = {value: self._shared_step(value, owner) for value, owner in plan.points.items()}
        for value in wide_results(plan) if self.wide else ():
            steps[value] = Step.wide(self.histograms[value].low, self.histograms[value].high)
        if self.options.target == "mnn":
            steps = exact_sums(self.model.graph, plan, steps)
        graph = self.model.graph.clone()
        values = dict(zip(self.model.graph.values(), graph.values(), strict=True))
        nodes = dict(zip(self.model.graph, graph, strict=True))
        weights = {}
        for node in plan.layers:
            x, y = steps[node.input(0)], steps[plan.ends[node]]
            exact = partial(exact_scales, node, x, y) if self.options.target == "mnn" else _as_they_are
            weights[node] = self.weights(node, exact).holding_bias(x)
        moved = plan.moved(values, nodes)
        made = insert(
            graph,
            moved,
            {values[v]: step for v, step in steps.items()},
            {nodes[n]: w for n, w in weights.items()},
        )
        model = replace(self.model, graph=graph, notices=[*self.model.notices], metadata=dict(self.model.metadata))
        names = {v.name: made[values[v]].name for v in plan.points}
        numbers = {v: made[values[v]].input(0).name for v in plan.points}
        return QuantizedModel(model, plan, steps, weights, names, numbers)

    def _shared_step(self, value: Value, owner: Value) -> Step:
        """The step that a tensor shares with another one, if its activation is nothing but the end of that range."""
        if value not in self._steps:
            step = self._step(owner)
            cut = value.producer is not None and value.producer.op in ("Relu", "Clip")
            self._steps[value] = self._step(value) if cut and step.zero and self.histograms[value].low >= 0 else step
        return self._steps[value]

    def round_by_outputs(self, inputs: Sequence[Inputs]) -> int:
        """Rounds the weights of layers so that their outputs stay near for some inputs; returns how many layers it did.

        Those with more inputs than a matrix of all products can have are rounded as before.
        """
        session = self.session(self.path)
        for layer in layers_of(self.model.graph):
            node = layer.node
            if node not in self.plan.ends or layer.operand != 1 or node.input(0).type.dtype is not DType.F32:
                continue
            if np.prod(layer.stored_shape[1:]) > MOST_INPUTS:
                continue
            found = Seen.mean_of(self._seen(session, layer, inputs))
            if found is not None:
                # What the mean of the inputs makes of the error is taken from the bias.
                squares = (found.centered if self.options.bias_correction else found).squares
                array = np.asarray(node.input(1).array, np.float32)
                self._rounded[node] = Weights.of(array, bias_of(node), squares)
        return len(self._rounded)

    def _seen(self, session: Session, layer: Layer, inputs: Sequence[Inputs]) -> Iterator[Seen | None]:
        """What each run shows of the inputs of a layer."""
        name = layer.node.input(0).name
        for one in inputs:
            if self.model.states:
                session.reset()
            yield Seen.of(layer, session.run(one, fetch=[name])[name])

    def weights(self, node: Node, larger: Callable[[Array], Array]) -> Weights:
        """The weights of a layer as integers, with a bias that makes up for the mean of their error.

        Args:
            node: the layer.
            larger: scales that are to be used in place of the smallest ones that hold all weights.
        """
        array = np.asarray(node.input(1).array, np.float32)
        bias = bias_of(node)
        made = self._rounded.get(node) or Weights.of(array, bias, larger=larger)
        if not self.options.bias_correction or node.input(0) not in self.channels:
            return made
        mean = self.channels[node.input(0)].mean
        error = array.astype(np.float64) - made.floats
        sums = error.reshape(*error.shape[:2], -1).sum(2)
        group = len(mean) // sums.shape[1]
        by_group = sums.reshape(group, -1, sums.shape[1])
        shift = np.einsum("goi,gi->go", by_group, mean.reshape(group, -1)).reshape(-1)
        return replace(made, bias=((0 if bias is None else bias) + shift).astype(np.float32))


def _as_they_are(scale: Array) -> Array:
    return scale


# op list: they make probabilities of numbers
_PROBABILITIES = ("Softmax", "LogSoftmax", "Sigmoid")
# op list: they only give the numbers of a tensor another shape
_VIEWS = ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Cast")


def _behind_views(value: Value) -> Node | None:
    """The node that makes the numbers of a tensor, perhaps in another shape."""
    node = value.producer
    while node is not None and node.op in _VIEWS:
        node = node.input(0).producer
    return node


def _in_front_of_probabilities(value: Value) -> Value:
    """The numbers that probabilities are made of; else the tensor itself."""
    node = _behind_views(value)
    if node is not None and node.op in _PROBABILITIES and node.input(0).data is None:
        return node.input(0)
    return value


@dataclass
class QuantizedModel:
    """A model with steps to integers and back.

    Attributes:
        model: the graph, in which the steps stand beside the float ops.
        plan: what became integers, in terms of the float model.
        steps: by tensor of the float model.
        weights: by layer of the float model.
        names: by name of a tensor in the float model, the name of what is made of its integers.
        numbers: by tensor of the float model, the name of its integers.
    """

    model: Model
    plan: Plan
    steps: dict[Value, Step]
    weights: dict[Node, Weights]
    names: dict[str, str]
    numbers: dict[Value, str]


def outputs_of(session: Session, inputs: Sequence[Inputs], resets: bool) -> list[dict[str, Array]]:
    """The outputs of a model for some inputs, as arrays by name."""
    from minnow.runtime.verify.verification import flattened

    found = []
    for one in inputs:
        if resets:
            session.reset()
        found.append(flattened(session.run(one)))
    return found


def errors(
    session: Session,
    other: Session,
    names: Mapping[str, str],
    inputs: Sequence[Inputs],
    resets: bool,
    floats: Mapping[str, Callable[[Array], Array]] | None = None,
) -> dict[str, Error]:
    """The errors of tensors of a model, by name.

    Args:
        session, other: of the float model, and of the quantized one.
        names: those in the float model, and in the other one.
        inputs: of some runs.
        resets: whether the models have states.
        floats: by name in the float model, what gives the floats that the integers of the other one mean.
    """
    found = {name: Error() for name in names}
    as_floats = floats or {}
    for one in inputs:
        if resets:
            session.reset()
            other.reset()
        want = session.run(one, fetch=list(names))
        got = other.run(one, fetch=list(names.values()))
        for name, its in names.items():
            found[name].add(want[name], as_floats[name](got[its]) if name in as_floats else got[its])
    return found
