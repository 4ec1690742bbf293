"""Quantization with calibration: a float model becomes one whose layers compute with integers of 8 bits."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from minnow.calibrated_model import CalibratedModel, Error, QuantizedModel, errors, outputs_of
from minnow.calibration_data import Inputs, calibration_inputs, spread, synthetic_inputs
from minnow.conversion_report import Report
from minnow.convert import convert_file
from minnow.integer_layers import WrittenModel, refusals
from minnow.metric import metric_of
from minnow.mnnquant_file import with_mnnquant
from minnow.optimizer.quantize.activations import LAYERS, split, unique_names, wide_results
from minnow.optimizer.quantize.halves import widen_halves
from minnow.optimizer.quantize.layers import layers_of
from minnow.options.calibration import RangeMethod
from minnow.options.quantize import QuantizeOptions, parsed_drop
from minnow.options.run import RunOptions
from minnow.quantization_speed import speed_of
from minnow.quantize import limit_text
from minnow.report.calibration import Calibrated, CalibratedLayer, Measured
from minnow.report.quantization import RANDOM_MARGIN, tolerance_for
from minnow.report.similarity import similarities, without_elements
from minnow.runtime.verify.verification import largest_error
from minnow.runtime.verify.weights import QUANTIZED, QUANTIZED_INPUTS, QUANTIZED_RANDOM, ranges_text
from minnow.schema.errors import BudgetError, UnsupportedError
from minnow.schema.ir import DType
from minnow.schema.notice import Notice

if TYPE_CHECKING:
    from minnow.options.convert import ConvertOptions
    from minnow.report.quantization import Similarity
    from minnow.schema.ir import Model, Node, Value

_log = logging.getLogger("minnow.quantize")

_APART = ("fuse_residual", "fuse_activation", "fuse_binary_relu", "fuse_conv_activation", "fuse_elementwise")
"""Rules that put into layers what the rules for integers look for behind them."""

_CHOICES: tuple[RangeMethod, ...] = ("mse", "percentile", "minmax")
"""What "auto" chooses from: the first one, unless another one is clearly better."""
_Form = Literal["equalized", "wide"]
_CLEAR_DB = 0.5
_WIDE_DB = 3.0
"""What results of 16 bits have to gain where they are not asked for: half of the squared error."""
_MOST_FLOATS = 0.7
"""The share of the weights that may be there as floats, too; the integers take a fourth."""
_FEWER_BITS = 0.75
"""A source that has less than that of the bytes of the float file has no float32 weights."""
_RANKED = 2
"""Inputs that the effect of each layer is measured with."""


def quantize_calibrated(source: Path, options: QuantizeOptions, threads: int | None = None) -> Report:
    """Quantizes a model file with the inputs of `options.calibration`.

    Args:
        source: the model.
        options: with `calibration`, or with `synthetic`.
        threads: of the sessions that run it; by default all. The result does not depend on it.

    Raises:
        UsageError: the calibration has no inputs, or such as do not fit.
        UnsupportedError: no layer can compute with integers.
        BudgetError: the loss is above `max_drop` even where one layer alone computes with integers.
        The errors of `convert`.
    """
    tell = options.progress or (lambda name: None)
    options = with_mnnquant(options)
    conversion = options.for_conversion(None)
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder) / "base.mnn"
        first = convert_file(source, replace(conversion, output=base, prepack=False, testdir=""))
        model = _read(source, conversion)
        given = calibration_inputs(options, model) if not options.synthetic else None
        _prepare(model, options)
        work = _Work(model, options, Path(folder), base, threads)
        tell("calibrate")
        work.calibrate(given)
        tell("quantize")
        made = work.chosen()
        path = work.write(made)
        destination = options.output if options.output is not None else source.with_suffix(".mnn")
        own = replace(conversion, output=destination, inputs=None, data=(), tolerance=None, **_READ_ALREADY)
        # Sums of floats decide otherwise between two integers of 16 bits than exact ones do, here and there.
        tolerance = (work.tolerance() or None) if work.calibrated.wide else None
        if options.verify:
            # Without the tolerance that goes into the file: the integers have to give what the steps beside floats say.
            verified = Path(folder) / "verified.mnn"
            convert_file(path, replace(own, output=verified, prepack=False, testdir="", tolerance=tolerance))
        work.write_tolerance(made)
        report = convert_file(path, replace(own, verify=False))
        tell("measure")
        report.quantization = work.record(made, Path(destination), report.output_bytes)
    report.source, report.framework, report.source_bytes = first.source, first.framework, first.source_bytes
    report.nodes_before, report.before, report.verification = first.nodes_before, first.before, first.verification
    report.seconds = {name: first.seconds.get(name, 0) + s for name, s in report.seconds.items()}
    sizes = _about_size(report, options.target)
    report.notices = list(dict.fromkeys([*_about_source(first), *report.notices, *work.notices(), *sizes]))
    return report


_READ_ALREADY: dict[str, Any] = {
    "framework": None, "batch": None, "signature": "", "cut_inputs": (), "cut_outputs": (), "custom_ops": False,
    "op_plugins": (), "dequantize": False, "prototxt": "",
}  # fmt: skip
"""How the source is read does not concern the file that is made of it."""


def _about_size(report: Report, target: str) -> list[str]:
    """Why a file is no smaller than one may expect, and what makes it smaller."""
    done = report.quantization
    assert done is not None
    found: list[str] = []
    if report.source_bytes < _FEWER_BITS * done.before_bytes:
        text = (
            f"the source has {report.source_bytes} bytes, since its weights have fewer bits than float32, which layers"
            " that stay float have in the file"
        )
        found.append(text)
    if target == "mnn" and done.after_bytes >= min(report.source_bytes, done.before_bytes):
        text = "the file also holds a graph for MNN's own runtime: without it, with `--target minnow`, it is smaller"
        found.append(Notice(text, "second-graph"))
    return found


def _about_source(report: Report) -> list[str]:
    """The notices of the conversion to a float model that hold for the quantized one."""
    from minnow.schema.notice import kind_of

    return [n for n in report.notices if kind_of(n) not in ("second-graph", "not-for-mnn", "companion-file")]


def _read(source: Path, conversion: ConvertOptions) -> Model:
    from minnow.converter import read
    from minnow.converter.inputs.given import Inputs as Given

    if conversion.inputs is not None:
        conversion = replace(conversion, inputs=Given.of(conversion.inputs))
    return read(source, conversion.framework, **conversion.for_reader())


def _prepare(model: Model, options: QuantizeOptions) -> None:
    from minnow.optimizer import optimize

    widen_halves(model.graph)
    split(model.graph)
    optimize(model, 2, target="minnow", passes=[*options.passes, *(f"-{name}" for name in _APART)], int64="keep")
    unique_names(model.graph, [name for name, _ in model.outputs])


def _without_integers(model: Model) -> list[str]:
    """The layers that no calibration makes integers of, and why."""
    own = set(model.graph)
    inside = {node: part.name for part in model.graph.walk() for node in part if node not in own}
    found = []
    for layer in layers_of(model.graph):
        node = layer.node
        if node in inside:
            found.append(f"{layer.name}: it is in the subgraph '{inside[node]}'")
        elif node.op not in LAYERS:
            found.append(f"{layer.name}: {node.op} has no form with integers")
    return found


class _Work:
    """A quantization while it is carried out."""

    def __init__(self, model: Model, options: QuantizeOptions, folder: Path, base: Path, threads: int | None) -> None:
        self.options, self.folder, self.base = options, folder, base
        self.calibrated = CalibratedModel(model, options, folder / "float.mnn", threads)
        self.before: float | None = None
        self.score: float | None = None
        self.kept: set[str] = set()
        self.effects: dict[str, float | None] = {}
        self.tried = self.fitted = 0
        self.inputs: list[Inputs] = []
        self._said: list[str] = []
        plan = self.calibrated.plan
        if not plan.layers:
            raise UnsupportedError(
                "no layer of the model can compute with integers",
                items=[*(f"{name}: {why}" for name, why in plan.kept.items()), *_without_integers(model)],
                hint="without `--calibration` only the weights are quantized",
            )
        self.path = folder / "integers.mnn"

    def calibrate(self, given: Callable[[], Iterator[Inputs]] | None) -> None:
        """Runs the float model with all inputs."""
        from minnow.runtime.verify.data import samples

        work = self.calibrated
        work.write()
        inputs = given if given is not None else self._synthetic()
        asked = samples(self.options.data or (), work.model, {})
        # Without other inputs the second half of the calibration is what the first half has to be good for.
        self._part = 0 if asked else sum(1 for _ in inputs()) // 2
        work.calibrate(inputs(), self._part)
        self._inputs = inputs
        self.inputs = [s.inputs for s in asked] or spread(inputs(), work.runs)
        others = islice(inputs(), self._part, None)
        self._others = self.inputs if asked else spread(others, work.runs - self._part)
        session = work.session(work.path)
        self.wanted = outputs_of(session, self.inputs, bool(work.model.states))
        if self.options.metric:
            self.before = metric_of(str(self.options.metric))(work.session(self.base))
        else:
            self.before = 1.0

    def _synthetic(self) -> Callable[[], Iterator[Inputs]]:
        work = self.calibrated
        session = work.session(work.path)
        kept = synthetic_inputs(work.model, self.options.samples, session.run)
        return lambda: iter(kept)

    def write(self, made: QuantizedModel) -> Path:
        """Writes a quantized model with its steps beside the float ops."""
        from minnow.schema.mnn import save

        save(made.model, self.path)
        return self.path

    def tolerance(self) -> float:
        """What a comparison of the model that was written with the source has to accept; 0 for nothing."""
        return Calibrated(outputs=self._similar(self.path)).tolerance or 0.0

    def write_tolerance(self, made: QuantizedModel) -> None:
        """Writes the model again, with what a comparison with the source has to accept."""
        tolerance = self.tolerance()
        made.model.metadata[QUANTIZED] = f"{tolerance:g}" if tolerance else ""
        if not self.options.synthetic and (text := ranges_text(self.inputs)):
            made.model.metadata[QUANTIZED_INPUTS] = text
            random = tolerance_for(
                largest_error(self.base, self.write(made), self.options.only(RunOptions)), RANDOM_MARGIN
            )
            made.model.metadata[QUANTIZED_RANDOM] = f"{random:g}" if random else ""
        self.write(made)

    def chosen(self) -> QuantizedModel:
        """The model that keeps the limit of the loss, with as many layers as possible in integers."""
        self._take_best_form()
        if self.options.rounding == "fitted":
            self.fitted = self.calibrated.round_by_outputs(spread(self._inputs(), self.calibrated.runs))
        made = self.calibrated.quantized()
        if not self.options.max_drop:
            return made
        names = [node.name for node in self.calibrated.plan.layers]
        if self._keeps(made, ()):
            return made
        if self.options.activations == "auto" and not self.calibrated.wide:
            self.calibrated.wide = True
            made = self.calibrated.quantized()
            if self._keeps(made, ()):
                return made
        worst = self._ranked(names)
        # With `most` of the worst layers in float the loss is within the limit, with `least` it is not.
        least, most = 0, len(worst)
        while most - least > 1:
            middle = (least + most) // 2
            kept = worst[:middle]
            within = self._keeps(self.calibrated.quantized(kept), kept)
            least, most = (least, middle) if within else (middle, most)
        if most == len(worst):
            raise BudgetError(
                f"no layer can compute with integers within a loss of {limit_text(parsed_drop(self.options.max_drop))}",
                hint="allow more with `--max-drop`, give more inputs, or quantize only the weights",
            )
        self.kept = set(worst[:most])
        return self.calibrated.quantized(self.kept)

    def _take_best_form(self) -> None:
        """Chooses ranges, equalizes channels and gives results more bits, as far as the outputs gain by it.

        Forms are compared with inputs that they were not calibrated with.
        """
        options = self.options
        forms: list[_Form] = ["equalized"] if options.equalize != "off" else []
        trial = self.calibrated.first_part or self.calibrated
        if (options.activations == "auto" and self._may_widen(trial)) or (options.activations == "int16" and forms):
            forms.append("wide")
        taken: _Form | None = None
        others = {form: made for form in forms if (made := self._in_form(form, trial, self._part)) is not None}
        if options.equalize == "on" and "equalized" in others:
            trial, taken = others.pop("equalized"), "equalized"
        widened = False
        if others or options.activation_method == "auto":
            best = self._best(trial)
            for form, other in others.items():
                if other.wide and not trial.wide and options.equalize != "off":
                    # The channels as they are, with more bits: what is equalized may be worse.
                    alone = trial.widened()
                    found = self._sqnr(alone)
                    _log.info("widened: SQNR of the outputs %g dB, %g dB without", found, best)
                    if found > best + _WIDE_DB:
                        trial, best, widened = alone, found, True
                found = self._best(other)
                _log.info("%s: SQNR of the outputs %g dB, %g dB without", form, found, best)
                if found > best + (_WIDE_DB if other.wide and not trial.wide else 0.0):
                    trial, taken, best, widened = other, form, found, False
        if taken is not None:
            made = self._in_form(taken, self.calibrated, 0)
            assert made is not None
            self.calibrated = made
        if widened:
            self.calibrated = self.calibrated.widened()
        self.calibrated.choose(trial.method)

    def _may_widen(self, work: CalibratedModel) -> bool:
        """Whether results of 16 bits leave the file clearly smaller than that of the float model: MNN's runtime
        computes such layers with floats, which a file for it has beside the integers.
        """
        wide = wide_results(work.plan)
        sizes = {node: node.input(1).type.count or 0 for node in work.plan.layers}
        floats = sum(size for node, size in sizes.items() if work.plan.ends[node] in wide)
        return self.options.target != "mnn" or floats <= _MOST_FLOATS * sum(sizes.values())

    def _in_form(self, form: _Form, work: CalibratedModel, part: int) -> CalibratedModel | None:
        """The model in another form, calibrated with the first `part` inputs (0: all); None where nothing differs."""
        is_wide = form == "wide"
        if is_wide and not wide_results(work.plan):
            return None
        path = self.folder / f"{form}-{part}.mnn"
        other = work.equalized(path, functions=is_wide) if self.options.equalize != "off" else None
        if other is None:
            return work.widened() if is_wide and not work.wide else None
        other.wide = is_wide or work.wide
        other.calibrate(islice(self._inputs(), part or None))
        return other

    def _best(self, work: CalibratedModel) -> float:
        """Takes the best of the methods for ranges there, and returns the SQNR of its results in dB."""
        if self.options.activation_method != "auto":
            return self._sqnr(work)
        found: dict[str, float] = {}
        for method in _CHOICES:
            work.choose(method)
            found[method] = self._sqnr(work)
        _log.info("ranges: SQNR of the outputs %s", found)
        # A little more is chance: which numbers lie near the middle of two integers.
        best = max(found, key=lambda m: found[m] + (_CLEAR_DB if m == _CHOICES[0] else 0.0))
        work.choose(best)
        return found[best]

    def _sqnr(self, work: CalibratedModel) -> float:
        self.tried += 1
        made = work.quantized()
        results = work.results
        names = {v.name: made.names.get(v.name, v.name) for result in results for v in result}
        floats, integers = work.session(work.path), work.session(self.write(made))
        found = errors(floats, integers, names, self._others, bool(work.model.states))
        exact = float("inf")
        decibels = {name: exact if (db := error.sqnr_db) is None else db for name, error in found.items()}
        return min((float(np.mean([decibels[v.name] for v in result])) for result in results), default=exact)

    def _keeps(self, made: QuantizedModel, kept: Collection[str]) -> bool:
        limit, is_share = parsed_drop(self.options.max_drop)
        score = self._score(made)
        assert self.before is not None
        loss = self.before - score
        if is_share and self.before:
            loss /= abs(self.before)
        _log.info("%d layers in float: score %g, loss %g", len(kept), score, loss)
        return bool(loss <= limit)

    def _score(self, made: QuantizedModel) -> float:
        self.tried += 1
        path = self.write(made)
        session = self.calibrated.session(path)
        if self.options.metric:
            return metric_of(str(self.options.metric))(session)
        return min((s.cosine for s in self._similar(path).values()), default=1.0)

    def _similar(self, path: Path) -> dict[str, Similarity]:
        work = self.calibrated
        return similarities(self.wanted, outputs_of(work.session(path), self.inputs, bool(work.model.states)))

    def _ranked(self, names: list[str]) -> list[str]:
        """The layers by the error of the outputs if that layer alone is quantized, the largest first."""
        work = self.calibrated
        own = [name for name, _ in work.model.outputs]
        session = work.session(work.path)
        for name in names:
            made = work.quantized([n for n in names if n != name])
            found = errors(
                session, work.session(self.write(made)), {n: n for n in own}, self.inputs[:_RANKED],
                bool(work.model.states),
            )  # fmt: skip
            found_db = [e.sqnr_db for e in found.values() if e.sqnr_db is not None]
            self.effects[name] = min(found_db, default=None)
        infinite = float("inf")
        return sorted(names, key=lambda n: infinite if (db := self.effects[n]) is None else db)

    def record(self, made: QuantizedModel, written: Path, size: int) -> Calibrated:
        """What became of the model, measured with the file that was written."""
        work, options = self.calibrated, self.options
        outputs = self._similar(written)
        score = min((s.cosine for s in outputs.values()), default=1.0)
        if options.metric:
            score = metric_of(str(options.metric))(work.session(written))
        file = WrittenModel.of(written, made)
        wide = sum(step.dtype is DType.I16 for step in made.steps.values())
        found = Calibrated(
            before_bytes=self.base.stat().st_size,
            after_bytes=size,
            outputs=outputs,
            before_score=self.before,
            score=score,
            tried=self.tried,
            method=work.method,
            runs=work.runs,
            tensors=sum(map(file.has_integers, made.numbers.values())),
            calibrated=self._layers(made, written, file),
            corrections=["biases corrected"] * options.bias_correction
            + ["channels equalized"] * work.is_equalized
            + [f"weights of {self.fitted} layers rounded by outputs"] * bool(self.fitted)
            + [f"{wide} results of 16 bits"] * bool(wide),
        )
        if options.measure:
            names = [name for name, _ in work.model.outputs]
            speed = speed_of(written, self.base, self.inputs[0], names, options.only(RunOptions))
            if isinstance(speed, str):
                self._said.append(Notice(f"latency was not measured: {speed}", "not-run"))
            else:
                found.speed = speed
        return found

    def _layers(self, made: QuantizedModel, written: Path, file: WrittenModel) -> list[CalibratedLayer]:
        """What the file has of each layer of the float model, in order."""
        work = self.calibrated
        refused = refusals(self.path, self.options, made, (n for n in made.plan.layers if n not in file.integers))
        measured = self._errors(made, written, file)
        named = {layer.node: layer.name for layer in layers_of(work.model.graph) if layer.form != "table"}
        rows: list[CalibratedLayer] = []
        for graph in work.model.graph.walk():
            for node in graph:
                name = named.get(node, node.name)
                if node in made.weights:
                    why = refused.get(node, "")
                    rows.append(self._row(made, node, why, *measured[made.plan.ends[node]]))
                elif graph is work.model.graph and node.op in LAYERS:
                    rows.append(CalibratedLayer(name, node.op, "f32", why=made.plan.kept[node.name]))
                elif node in named:
                    inside = f"it is in the subgraph '{graph.name}'"
                    why = inside if node.op in LAYERS else f"{node.op} has no form with integers"
                    rows.append(CalibratedLayer(name, node.op, "f32", why=why))
        for row in rows:
            row.effect_db = self.effects.get(row.name)
        return rows

    def _row(self, made: QuantizedModel, node: Node, why: str, error: Error, where: Measured) -> CalibratedLayer:
        end = made.plan.ends[node]
        step = made.steps[end]
        weights = np.asarray(node.input(1).array, np.float32)
        norm = float(np.linalg.norm(weights))
        return CalibratedLayer(
            node.name,
            node.op,
            "f32" if why else "int8",
            step.low,
            step.high,
            self.calibrated.histograms[end].beyond(step.low, step.high),
            error.sqnr_db,
            error.cosine,
            where,
            float(np.linalg.norm(weights - made.weights[node].floats)) / norm if norm else 0.0,
            why=why,
        )

    def _errors(self, made: QuantizedModel, written: Path, file: WrittenModel) -> dict[Value, tuple[Error, Measured]]:
        """The errors of the results of layers in the file, or beside float layers where the file has no such tensor."""
        work = self.calibrated
        ends = [made.plan.ends[node] for node in made.plan.layers]
        integers = {v: made.numbers[v] for v in ends if file.has_integers(made.numbers[v])}
        floats = {v: made.names[v.name] for v in ends if v not in integers and file.has_floats(made.names[v.name])}
        steps = {v: made.names[v.name] for v in ends if v not in integers and v not in floats}
        found: dict[Value, tuple[Error, Measured]] = {}
        places: list[tuple[Path, dict[Value, str], Measured]] = [
            (written, {**integers, **floats}, "file"),
            (self.path, steps, "steps"),
        ]
        for path, names, where in places:
            if not names:
                continue
            rounded = {v.name: made.steps[v].floats for v in integers}
            measured = errors(
                work.session(work.path), work.session(path), {v.name: name for v, name in names.items()},
                self.inputs[:_RANKED], bool(work.model.states), rounded,
            )  # fmt: skip
            found |= {v: (measured[v.name], where) for v in names}
        return found

    def notices(self) -> list[str]:
        """What the user should know."""
        if unused := self.calibrated.unused:
            text = f"no layer is left out by {', '.join(repr(p) for p in unused)}"
            self._said.append(Notice(text, "lossy-form"))
        if empty := without_elements(self.wanted):
            self._said.append(Notice(empty, "not-run"))
        return self._said
