"""`minnow.quantize`: converts a model to a `.mnn` file with weights of few bits, and measures what that costs."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from minnow.conversion_report import Report
from minnow.convert import convert
from minnow.metric import metric_of
from minnow.optimizer.quantize.choice import Rung, moves_of, reasons_of, rungs_of, undone, uniform, widths_after
from minnow.optimizer.quantize.compress import (
    BRAIN,
    FLOAT,
    HALF,
    PRUNED,
    Compressor,
    LayerResult,
    Recipe,
    Width,
    check_compressible,
)
from minnow.options.quantize import QuantizeOptions, parsed_drop, parsed_size
from minnow.options.run import RunOptions
from minnow.options.signature import takes
from minnow.quantization_speed import speed_of
from minnow.report.quantization import RANDOM_MARGIN, Quantization, Similarity, Speed, tolerance_for
from minnow.report.similarity import similarities, without_elements
from minnow.runtime.verify.weights import QUANTIZED, QUANTIZED_INPUTS, QUANTIZED_RANDOM, ranges_text
from minnow.schema.errors import BudgetError, MinnowError, StoppedError, UnsupportedError, UsageError
from minnow.schema.notice import Notice
from minnow.weight_fitting import WeightFitting

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.nn import Module

    from minnow.optimizer.quantize.layers import Names
    from minnow.options.convert import ConvertOptions
    from minnow.runtime.session import Session
    from minnow.schema.ir import Model

Array = npt.NDArray[Any]
_log = logging.getLogger("minnow.quantize")

_FETCHED = 16
"""Layers whose inputs are in memory at a time."""
_LEAST_CONSTANT = 16
"""Constants of fewer elements stay float32: they are limits and small numbers, to which float16 does harm."""
_PROBED = 4
"""Bits of a layer that is measured alone: enough of an error to see, and not so much that it is cut off."""
_PROBES = 2
"""Inputs that a layer alone is measured with."""
_LEAST_NOISE = 1e-16
_TOLERANCES = (QUANTIZED, QUANTIZED_RANDOM)


@takes(QuantizeOptions)
def quantize(source: str | os.PathLike[str] | ExportedProgram | Module, options: QuantizeOptions) -> Report:
    """Converts a model to a `.mnn` file with smaller weights, and measures what that costs.

    Args:
        source: path of the model file, of any format, `.mnn` too; or a PyTorch module, or an ExportedProgram of
            torch.export.
        options:

    Returns:
        The report of the conversion; its `quantization` says what became of each layer, how near the outputs are to
        those of the float model, and what became of size, latency and memory.

    Raises:
        BudgetError: no weights keep `max_size` or `max_drop`; no file is written.
        UnsupportedError: the model has no weights to quantize.
        The errors of `convert`.
    """
    if not options.has_integers:
        return convert(source, **_arguments(options))
    from minnow.static_quantization import quantize_calibrated

    if isinstance(source, (str, os.PathLike)):
        return quantize_calibrated(Path(source), options)

    from minnow.converter.torch.program.live import archived

    if options.output is None:
        raise UsageError("a PyTorch module has no file name to derive the output from", hint="give output='model.mnn'")
    with archived(source, options.example_inputs, options.dynamic_shapes) as path:
        return quantize_calibrated(Path(path), replace(options, trust=True))


def _arguments(options: QuantizeOptions) -> dict[str, Any]:
    made = options.for_conversion(Compression.of(options))
    return {**made.changed(), "compression": made.compression}


WIDTHS: dict[str, Width] = {
    "fp16": HALF, "bf16": BRAIN, "int8": 8, "int7": 7, "int6": 6, "int5": 5, "int4": 4, "int3": 3, "int2": 2,
}  # fmt: skip


@dataclass(frozen=True)
class Compression:
    """How the weights of a conversion are made smaller.

    Attributes:
        recipe: for each layer.
        max_size: bytes that the file may have; None for any.
        max_drop: loss of the score that is allowed, and whether it is a share of the score; None for any.
        metric: "FILE.py:FUNCTION" that gives the score; "": the similarity of the outputs.
        least: the fewest bits, where widths are chosen.
        samples: random inputs to measure with.
        measure: whether to measure latency and memory.
        required: it is an error if there is nothing to quantize.
        calibration: has the inputs of a calibration, which show how layers with smaller weights keep their outputs;
            None without.
    """

    recipe: Recipe
    max_size: int | None = None
    max_drop: tuple[float, bool] | None = None
    metric: str = ""
    least: int = 2
    samples: int = 2
    measure: bool = False
    required: bool = False
    calibration: QuantizeOptions | None = None

    @classmethod
    def of(cls, options: QuantizeOptions) -> Compression:
        """What the options ask for."""
        budget = bool(options.max_size or options.max_drop)
        patterns = [options.exclude] if isinstance(options.exclude, str) else list(options.exclude)
        width = WIDTHS[options.weights or ("int2" if budget else "int8")]
        if options.prune and options.weights is None:
            width = PRUNED
        recipe = Recipe(
            width=width,
            block=options.block_size(),
            symmetric=options.symmetric,
            method=options.method,
            half_scales=options.scale_bits == 16,
            exclude=tuple(patterns),
            constants=_LEAST_CONSTANT if width == HALF else 0,
            for_mnn=options.target == "mnn",
            prune=options.prune or "",
            sparsity=options.sparsity if options.prune else 0.0,
        )
        return cls(
            recipe,
            parsed_size(options.max_size) if options.max_size else None,
            parsed_drop(options.max_drop) if options.max_drop else None,
            os.fspath(options.metric),
            max(int(width), 2) if budget else 2,
            options.samples,
            options.measure,
            required=True,
            calibration=options if options.is_calibrated else None,
        )

    @classmethod
    def pruning(cls, options: ConvertOptions) -> Compression:
        """What a conversion with pruned float weights asks for."""
        assert options.prune
        return cls(Recipe(width=PRUNED, prune=options.prune, sparsity=options.sparsity), required=True)

    @property
    def chooses(self) -> bool:
        """Whether each layer gets bits of its own."""
        return self.max_size is not None or self.max_drop is not None

    def perform(
        self, model: Model, options: ConvertOptions, write: Callable[[Model, Path], int], runs: bool, names: Names
    ) -> _Done:
        """Makes the weights of an optimized model smaller.

        Args:
            model: it is not changed.
            options: of the conversion.
            write: writes a model to a path, and returns the bytes.
            runs: whether the engine runs the model.
            names: of its nodes in the source.

        Raises:
            UnsupportedError: there is nothing to quantize.
            BudgetError: no choice keeps the limits.
            UsageError: the inputs do not fit, or the metric cannot be used.
        """
        recipe = replace(self.recipe, for_mnn=options.target == "mnn")
        if options.strict_target and recipe.for_mnn and recipe.width == BRAIN:
            hint = "use `--weights fp16`, or leave out `--strict-target`"
            raise UnsupportedError("MNN's own runtime cannot load weights in bfloat16", hint=hint)
        compressor = Compressor(model, recipe, names)
        if self.required:
            check_compressible(compressor, model)
        with tempfile.TemporaryDirectory() as folder:
            work = _Work(self, compressor, Path(folder), options, write)
            work.open(runs)
            if self.calibration is not None and recipe.prune:
                work.fitting().prune()
            moments = work.moments() if self.required else {}
            widths = work.chosen(moments) if self.chooses else None
            if self.calibration is not None and not recipe.prune:
                work.fitting().round(widths, grows=self.max_size is None)
            made, layers = compressor.apply(widths, moments)
            done = work.finish(made, layers)
        if compressor.unused:
            patterns = ", ".join(f"'{p}'" for p in compressor.unused)
            done.notices.append(Notice(f"no layer has the name or pattern {patterns}", "lossy-form"))
        return done


@dataclass
class _Done:
    model: Model
    quantization: Quantization
    notices: list[str]


class _Work:
    """A quantization while it is carried out.

    Attributes:
        float_path: the file with float weights.
        inputs: what models are run with.
        wanted: the outputs of the float model for each.
    """

    def __init__(
        self,
        asked: Compression,
        compressor: Compressor,
        folder: Path,
        options: ConvertOptions,
        write: Callable[[Model, Path], int],
    ) -> None:
        self.asked, self.compressor, self.folder = asked, compressor, folder
        self.options, self.write = options, write
        self.float_path = folder / "float.mnn"
        self.float_bytes = 0
        self.inputs: list[dict[str, Any]] = []
        self.wanted: list[dict[str, Array]] = []
        self.notices: list[str] = []
        self.before: float | None = None
        self.reasons: dict[str, str] = {}
        self.tried = 0
        self.is_random = True
        self.given: Callable[[], Iterator[dict[str, Any]]] | None = None

    def open(self, runs: bool) -> None:
        """Writes the float model, and runs it with all inputs."""
        self.float_bytes = self.write(_named(self.compressor), self.float_path)
        if not runs:
            return
        calibration = self.asked.calibration
        if calibration is not None and not calibration.synthetic:
            from minnow.calibration_data import calibration_inputs

            self.given = calibration_inputs(calibration, self.compressor.model)
        try:
            with self._session(self.float_path) as session:
                self.inputs, self.wanted = self._runs(session)
                self.before = self._score(session, self.wanted) if self.inputs else None
            if self.asked.max_size is not None and not self.is_random and (text := ranges_text(self.inputs)):
                # Files that are tried for their size have what `finish` writes: numbers that are as long.
                self.compressor.model.metadata |= {QUANTIZED_INPUTS: text, **dict.fromkeys(_TOLERANCES, "0.0005")}
        except (StoppedError, UsageError):
            raise
        except MinnowError as e:
            if self.asked.max_drop is not None:
                raise
            self.notices.append(Notice(f"the outputs were not measured: {e.message}", "not-run"))

    @contextmanager
    def _session(self, path: Path) -> Iterator[Session]:
        from minnow.runtime.session import load

        yield load(path, **vars(self.options.only(RunOptions)))

    def _runs(self, session: Session) -> tuple[list[dict[str, Any]], list[dict[str, Array]]]:
        """Inputs that the model accepts, and its outputs."""
        from minnow.calibration_data import spread
        from minnow.converter.inputs.given import Inputs
        from minnow.runtime.verify.data import samples
        from minnow.runtime.verify.samples import Candidate, Search
        from minnow.runtime.verify.verification import flattened

        model = self.compressor.model
        given = Inputs.of(self.options.inputs).named([n for n, _ in model.user_inputs])
        arrays = {n: one.array for n, one in given.items() if getattr(one, "array", None) is not None}
        asked = samples(self.options.data or (), model, arrays)
        own = [sample.inputs for sample in asked]
        if not own and self.given is not None:
            own = spread(self.given(), sum(1 for _ in self.given()))
        if own:
            self.is_random = False
            return own, [self._outputs(session, i, flattened) for i in own]

        def run(candidate: Candidate) -> dict[str, Array]:
            candidate.inputs |= arrays
            return self._outputs(session, candidate.inputs, flattened)

        found: list[dict[str, Any]] = []
        wanted: list[dict[str, Array]] = []
        sizes: dict[str, int] = {}
        search = Search(model, range(self.asked.samples), run, (MinnowError,))
        for candidate, outputs in search:
            # All of the same sizes: arrays of several ones are not compared with each other.
            if found and candidate.symbols != sizes:
                break
            found.append(candidate.inputs)
            wanted.append(outputs)
            sizes = candidate.symbols
            if len(found) == self.asked.samples:
                break
        if not found:
            refused = search.refused.message if isinstance(search.refused, MinnowError) else ""
            message = f"the model runs with none of the random inputs ({refused}): give real ones with `--data`"
            if self.asked.max_drop is not None:
                raise UsageError(message, where="--max-drop")
            self.notices.append(Notice(f"the outputs were not measured: {message}", "not-run"))
        return found, wanted

    def _outputs(self, session: Session, inputs: Mapping[str, Any], flattened: Any) -> dict[str, Array]:
        if self.compressor.model.states:
            session.reset()
        found: dict[str, Array] = flattened(session.run(inputs))
        return found

    def _score(self, session: Session, got: Sequence[Mapping[str, Array]]) -> float:
        if self.asked.metric:
            return metric_of(self.asked.metric)(session)
        return min((s.cosine for s in similarities(self.wanted, got).values()), default=1.0)

    def try_(self, model: Model, path: Path) -> tuple[dict[str, Similarity], float]:
        """Runs a model: its similarities, and its score."""
        from minnow.runtime.verify.verification import flattened

        self.tried += 1
        with self._session(path) as session:
            got = [self._outputs(session, inputs, flattened) for inputs in self.inputs]
            return similarities(self.wanted, got), self._score(session, got)

    def chosen(self, moments: Mapping[str, Array]) -> dict[str, Width]:
        """The widths of the layers that keep the limits."""
        compressor, asked = self.compressor, self.asked
        rungs = rungs_of(compressor, asked.least, moments)
        moves = moves_of(rungs, self._gains(rungs))
        saved = [0]
        at = {layer.name: layer.float_bytes for layer in compressor.layers}
        for move in moves:
            saved.append(saved[-1] + at[move.layer] - move.rung.bytes)
            at[move.layer] = move.rung.bytes
        path = self.folder / "tried.mnn"
        sizes: dict[int, int] = {0: self.float_bytes}

        def written(n: int) -> int:
            made, _ = compressor.apply(widths_after(compressor, moves[:n]))
            sizes[n] = self.write(made, path)
            return sizes[n]

        def drop(n: int) -> float:
            written(n)
            _, score = self.try_(compressor.model, path)
            assert self.before is not None
            loss = self.before - score
            share = asked.max_drop is not None and asked.max_drop[1]
            _log.info("%d of %d steps: loss %.4g, %d bytes", n, len(moves), loss, sizes[n])
            return loss / abs(self.before) if share and self.before else loss

        most = len(moves)
        if asked.max_drop is not None:
            if self.before is None:
                raise UsageError("the loss cannot be measured", why="the engine does not run the model")
            low, high = 0, len(moves) + 1  # `low` keeps the limit, `high` does not
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if drop(middle) <= asked.max_drop[0] else (low, middle)
            most = low
            if most == 0:
                raise BudgetError(
                    f"no layer can be quantized within a loss of {limit_text(asked.max_drop)}",
                    hint="allow more with `--max-drop`, or use `--weights fp16`",
                )
        first = most
        if asked.max_size is not None:
            first = next((n for n, less in enumerate(saved) if self.float_bytes - less <= asked.max_size), most)
            while written(first) > asked.max_size and first < most:
                first += 1
            if sizes[first] > asked.max_size:
                limit = f" within a loss of {limit_text(asked.max_drop)}" if asked.max_drop is not None else ""
                raise BudgetError(
                    f"the smallest file{limit} has {sizes[first]} bytes, more than {asked.max_size}",
                    hint="allow a larger file or a larger loss, or longer blocks (`--block`), or 16-bit scales",
                )
        count = most if asked.max_drop is not None else first
        reasons = reasons_of(rungs, moves, count)
        self.reasons = {} if compressor.recipe.prune else reasons
        widths = widths_after(compressor, moves[:count])
        if asked.max_size is None or asked.max_drop is not None:
            return widths
        others = [undone(widths, rungs, moves[:count], asked.max_size - sizes[count])]
        others += (uniform(rungs, width) for width in WIDTHS.values() if width not in (HALF, BRAIN))
        return self._best(widths, [w for w in others if w != widths], asked.max_size, path)

    def _best(
        self, widths: dict[str, Width], others: Sequence[dict[str, Width]], most: int, path: Path
    ) -> dict[str, Width]:
        """The choice with the least error of the outputs, of those and the first of the others that are small enough.

        Without inputs to run with it is the first of the others.
        """
        best, least = widths, np.inf
        if self.inputs:
            self.write(self.compressor.apply(widths)[0], path)
            least = self._noise(path)
        left = 2
        for other in others:
            if self.write(self.compressor.apply(other)[0], path) > most:
                continue
            error = self._noise(path) if self.inputs else 0.0
            if error < least:
                best, least = other, error
            left -= 1
            if not left or not self.inputs:
                break
        self.reasons = {} if best is not widths else self.reasons
        return best

    def _gains(self, rungs: Mapping[str, Sequence[Rung]]) -> dict[str, float]:
        """The squared error of the outputs for one of each layer's output, measured with that layer alone in 4 bits."""
        found: dict[str, float] = {}
        path = self.folder / "alone.mnn"
        for name, ladder in rungs.items() if self.inputs else ():
            probe = min((r for r in ladder if r.error > 0), key=lambda r: abs(abs(r.width) - _PROBED), default=None)
            if probe is None:
                continue
            alone = {**dict.fromkeys(rungs, FLOAT), name: probe.width}
            self.write(self.compressor.apply(alone)[0], path)
            error = self._noise(path)
            if np.isfinite(error):
                found[name] = max(error, _LEAST_NOISE) / probe.error**2
        _log.debug("gains: %s", found)
        return found

    def _noise(self, path: Path) -> float:
        """The squared error of the outputs relative to their power, added up over all outputs."""
        from minnow.runtime.verify.verification import flattened

        with self._session(path) as session:
            got = [self._outputs(session, inputs, flattened) for inputs in self.inputs[:_PROBES]]
        near = similarities(self.wanted[:_PROBES], got).values()
        return sum(0.0 if s.sqnr_db is None else 10.0 ** (-s.sqnr_db / 10) for s in near)

    def fitting(self) -> WeightFitting:
        """What fits weights to the outputs of layers, with the inputs of a calibration."""
        if self.before is None and not self.inputs:
            raise UsageError("layers cannot be fitted to their inputs", why="the engine does not run the model")
        given = self.given or (lambda: iter(self.inputs))
        return WeightFitting(
            self.compressor, given, self.float_path, self.write, self.options.only(RunOptions), self.reasons
        )

    def moments(self) -> dict[str, Array]:
        """The mean square of each input channel of the layers in the main graph, over all inputs."""
        model = self.compressor.model
        own = set(model.graph)
        layers = [
            layer
            for layer in self.compressor.layers
            if layer.form in ("stream", "product") and layer.node in own and layer.node.input(0).data is None
        ]
        found: dict[str, Array] = {}
        if not self.inputs:
            return found
        with self._session(self.float_path) as session:
            for i in range(0, len(layers), _FETCHED):
                part = layers[i : i + _FETCHED]
                names = list(dict.fromkeys(layer.node.input(0).name for layer in part))
                for inputs in self.inputs:
                    try:
                        values = session.run(inputs, fetch=names)
                    except UsageError as e:
                        _log.debug("inputs of layers are not there: %s", e)
                        break
                    for layer in part:
                        x = np.asarray(values[layer.node.input(0).name], np.float64)
                        axis = x.ndim - 1 if layer.form == "product" else 1
                        square = np.square(x).mean(tuple(a for a in range(x.ndim) if a != axis))
                        found[layer.name] = found.get(layer.name, 0) + square
        return found

    def finish(self, model: Model, layers: list[LayerResult]) -> _Done:
        """The result: with measurements, and in the model what a later comparison has to know."""
        from minnow.runtime.verify.verification import largest_error

        path = self.folder / "result.mnn"
        for layer in layers:
            layer.why = "; ".join(filter(None, [layer.why, self.reasons.get(layer.name, "")]))
        quantization = Quantization(layers, self.float_bytes, tried=self.tried)
        quantization.after_bytes = self.write(model, path)
        if self.inputs:
            quantization.outputs, quantization.score = self.try_(model, path)
            quantization.before_score, quantization.tried = self.before, self.tried
            if empty := without_elements(self.wanted):
                self.notices.append(Notice(empty, "not-run"))
            model.metadata[QUANTIZED] = f"{quantization.tolerance:g}" if quantization.tolerance else ""
            if not self.is_random and (text := ranges_text(self.inputs)):
                model.metadata[QUANTIZED_INPUTS] = text
                self.write(model, path)
                random = tolerance_for(
                    largest_error(self.float_path, path, self.options.only(RunOptions)), RANDOM_MARGIN
                )
                model.metadata[QUANTIZED_RANDOM] = f"{random:g}" if random else ""
        else:
            model.metadata[QUANTIZED] = ""
        if self.asked.measure and self.inputs:
            quantization.speed = self._speed(path)
        brain = [r.name for r in layers if r.kind == "bf16"]
        if brain and self.compressor.recipe.for_mnn:
            text = "MNN's own runtime cannot load weights in bfloat16"
            self.notices.append(Notice(text, "not-for-mnn"))
        bad = [r.name for r in layers if "NaN" in r.why]
        if bad:
            self.notices.append(Notice(f"layers with NaN or infinity in their weights stay float: {', '.join(bad)}",
                                       "lossy-form"))  # fmt: skip
        return _Done(model, quantization, self.notices)

    def _speed(self, path: Path) -> Speed | None:
        names = [name for name, _ in self.compressor.model.outputs]
        made = speed_of(path, self.float_path, self.inputs[0], names, self.options.only(RunOptions))
        if isinstance(made, str):
            self.notices.append(Notice(f"latency was not measured: {made}", "not-run"))
            return None
        return made


def limit_text(drop: tuple[float, bool] | None) -> str:
    """A limit of the loss as the user writes it."""
    assert drop is not None
    number, share = drop
    return f"{100 * number:g}%" if share else f"{number:g}"


def _named(compressor: Compressor) -> Model:
    """The float model, in which the inputs of all layers have names of their own, so that a run can give them."""
    taken = {v.name for v in compressor.model.graph.values() if v.name}
    for k, layer in enumerate(compressor.layers):
        value = layer.node.input(0)
        if value.name or value.data is not None:
            continue
        name = f"quantize/{k}"
        while name in taken:
            name += "_"
        value.name = name
    return compressor.model
