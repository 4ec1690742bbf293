"""`minnow.convert`: the whole way from a foreign file to a verified `.mnn` file."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from minnow.output import replaced, target_of, writing
from minnow.schema.errors import UnsupportedError, UsageError, VerifyError

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.nn import Module

    from minnow.converter.inputs.given import Inputs
    from minnow.optimizer.effect import Effect
    from minnow.runtime.verify import Verification
    from minnow.schema.ir import Model

Progress = Callable[[str], None]

PACKED = ".packed"
"""What is appended to the model's name for the file with the packed weights."""


@dataclass
class Report:
    """What a conversion did.

    Attributes:
        source, output: the two files.
        framework: format of the source.
        source_bytes, output_bytes: their sizes.
        nodes_before, nodes_after: number of nodes by op, as read and as written.
        before, after: what the graph costs, as read and as written.
        seconds: time of each step: read, optimize, write, verify.
        notices: what the user should know, one sentence each.
        statistics: per rule and pass: attempts, applications, nodes removed and milliseconds.
        explained: (rule, node, reason) where the rule or pass asked for with `explain` did not apply.
        applied: (rule, node) where it did. unused: why it did not run at all, by name.
        verification: the comparison with the source; None where it was switched off.
    """

    source: str
    output: str
    framework: str
    source_bytes: int
    output_bytes: int
    nodes_before: dict[str, int]
    nodes_after: dict[str, int]
    before: Effect
    after: Effect
    seconds: dict[str, float]
    notices: list[str] = field(default_factory=list)
    statistics: dict[str, dict[str, float]] = field(default_factory=dict)
    explained: list[tuple[str, str, str]] = field(default_factory=list)
    applied: list[tuple[str, str]] = field(default_factory=list)
    unused: dict[str, str] = field(default_factory=dict)
    verification: Verification | None = None

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON-ready values."""
        table = asdict(self)
        table["verification"] = None if self.verification is None else self.verification.as_dict()
        return table

    def __str__(self) -> str:
        before, after = sum(self.nodes_before.values()), sum(self.nodes_after.values())
        rows = [
            f"{self.source} ({self.framework}, {_size(self.source_bytes)}, {before} nodes)"
            f" -> {self.output} ({_size(self.output_bytes)}, {after} nodes)"
        ]
        rows += [f"note: {text}" for text in self.notices]
        if self.verification is not None:
            rows.append(str(self.verification))
        times = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in self.seconds.items())
        return "\n".join([*rows, f"time: {times}"])


def convert(
    source: str | os.PathLike[str] | ExportedProgram | Module,
    example_inputs: Sequence[Any] | Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    output: str | os.PathLike[str] | None = None,
    framework: str | None = None,
    inputs: Any = None,
    batch: int | None = None,
    signature: str = "",
    cut_inputs: Sequence[str] = (),
    cut_outputs: Sequence[str] = (),
    weights: str | os.PathLike[str] = "",
    prototxt: str | os.PathLike[str] = "",
    dequantize: bool = False,
    trust: bool = False,
    optimize: int = 2,
    target: Literal["mnn", "minnow"] = "mnn",
    strict_target: bool = False,
    verify: bool = True,
    data: Any = (),
    tolerance: float | None = None,
    passes: Sequence[str] = (),
    int64: Literal["auto", "narrow", "keep"] = "auto",
    explain: str = "",
    check_each: bool = False,
    check_limit: float = 300.0,
    biz_code: str = "",
    side_file: bool | None = None,
    prepack: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Converts a model to `.mnn`, or optimizes a `.mnn` file again.

    Args:
        source: the model file; or a PyTorch module, or a program of torch.export.
        example_inputs: of a module: its positional arguments, or its keyword arguments by name. Of a ScriptModule they
            are what `inputs` says.
        dynamic_shapes: of a module: which extents stay open, in the form of `torch.export.export`.
        output: the file to write; by default the source's name with the suffix `.mnn`. It appears only when
            everything, the verification included, has succeeded.
        framework: format of the source ("onnx"); None finds it by content.
        inputs: what is said of the inputs, by name ({"x": ...}) or, as a list, by position. A shape, (1, 3, 224, 224),
            fixes or replaces that in the file; "?" leaves a dimension as it is, and a symbol that becomes a number does
            so in every input. ("int64", (1, 128)) or a `TensorInfo` also gives the element type, which TorchScript
            files do not tell, and which must be the one of the file otherwise. An array, of numpy or anything that
            numpy can make one of, gives shape, element type, and the numbers to compare on.
        batch: takes the place of the first open extent of every input.
        signature: entry point of a source that has several ("serving_default"); by default the only or first one.
        cut_inputs, cut_outputs: names of tensors to begin and end at, instead of the source's inputs and outputs: what
            is outside stays out of the file.
        weights: the other file of a source that is two: the .caffemodel of a Caffe net, or its .prototxt; by default
            what lies beside the source. prototxt: another name for the same.
        dequantize: compute in float what the source computes with integers; inputs and outputs keep their types.
        trust: code of the file may run: a TorchScript program, which PyTorch runs to compare with it, and the methods
            that restore its objects. Without it such a program is compared as it was read. A module or program of
            this process is the caller's own.
        optimize: level 0 (none) to 3 (also what may change the last bits).
        target: who is to run the file: "mnn", MNN's own runtime too; "minnow", only Minnow's engine, with fewer nodes.
        strict_target: refuse what MNN's own runtime cannot run, instead of a notice; for the target "mnn".
        verify: run the written file and compare its outputs with those of the source.
        data: what to compare on instead of random inputs: arrays by name; the path of an .npz file with them, or of a
            picture, for the input that takes pictures; or a list of these, one for each run.
        tolerance: of the comparison, as a fraction of the output's scale; None chooses by dtype (see `minnow.verify`).
        passes: names of passes to run instead of the level's, or with a leading "-" to leave out.
        int64: MNN's own runtime has no int64. "auto" makes int32 of what provably fits, and of what only counts
            places; "narrow" of everything but constants that do not fit, and a notice lists what is not proven; "keep"
            of nothing. In all cases the session shows the source's types, and refuses inputs that do not fit.
        explain: "RULE" or "RULE@NODE", a rule or pass: where it was applied, and why not elsewhere.
        check_each: run the numpy reference of the graph after every step of the optimizer, on the same few inputs, and
            end with a VerifyError at the first step that changes the numbers. Each comparison takes two runs of the
            reference: seconds for an image network. Open extents get small numbers.
        check_limit: seconds for that; steps after so many are compared together, and a notice says which.
        biz_code: free text kept in the file.
        side_file: True: big weights go to a file of their own, `output` + ".weight"; False: never; None: where the
            model would be larger than one file may be, 2 GiB.
        prepack: also write `output` + ".packed": the weights in the form that this kind of processor computes with, so
            that loading maps them instead of packing them. Other processors, and other runtimes, ignore it.
        progress: called with the name of each step when it begins.

    Returns:
        The report; its `verification` says how far the outputs are from the source's. Where its verdict is
        "inconclusive", random inputs have not tested some output: the file is written, and a notice says so.

    Raises:
        UsageError: the call is wrong. FormatError, ModelError: the source cannot be read or is invalid.
        UnsupportedError: it holds what Minnow cannot convert, or with `strict_target` what MNN's own runtime cannot
            run; everything is listed.
        WriteError: the output cannot be written.
        VerifyError: the result does not give the numbers of the source, or with `check_each` a step changes them; no
            file is written.
    """
    if not isinstance(source, (str, os.PathLike)):
        given = {k: v for k, v in locals().items() if k not in ("source", "example_inputs", "dynamic_shapes")}

        from minnow.converter.torch.program.live import archived, is_scripted

        if inputs is None and is_scripted(source):
            given["inputs"] = example_inputs
        if output is None:
            raise UsageError("a model that is no file needs an output", hint="output='model.mnn'")
        with archived(source, example_inputs, dynamic_shapes) as path:
            return convert(path, **{**given, "trust": True})
    if example_inputs is not None or dynamic_shapes is not None:
        raise UsageError("example inputs are for modules", hint="shapes for the inputs of a file: inputs={'x': (1, 3)}")
    source = Path(source)
    destination = Path(output) if output is not None else source.with_suffix(".mnn")
    if not 0 <= int(optimize) <= 3:
        raise UsageError(f"optimize is {optimize}", hint="0 to 3")
    if not verify and (data or tolerance is not None):
        raise UsageError("data and a tolerance are for the verification, which is switched off", hint="leave out one")
    if target_of(destination if output is None else output) == Path(os.path.realpath(source)):
        raise UsageError("the output is the source itself", where=str(destination))
    step = _Clock(progress or (lambda name: None))

    # What takes time to import comes when it is needed: a file that is missing, or no model, is refused at once.
    from minnow.converter import other_file, read
    from minnow.converter.formats import is_mnn

    said = None
    if inputs is not None:
        from minnow.converter.inputs.given import Inputs

        said = Inputs.of(inputs)
    reading: dict[str, Any] = {"inputs": said, "batch": batch, "signature": signature}
    reading |= {"cut_inputs": cut_inputs, "cut_outputs": cut_outputs, "dequantize": dequantize}
    reading |= {"weights": other_file(weights, prototxt), "trust": trust}
    if side_file:
        from minnow.schema.mnn.side_file import side_path

        target_of(side_path(destination))
    if prepack:
        target_of(packed_path(destination))
    with step("read"):
        model = read(source, framework, **reading)

    from minnow.optimizer import optimize as run_optimizer
    from minnow.optimizer.effect import effect_of
    from minnow.optimizer.rewrite import Trace
    from minnow.schema.mnn import save
    from minnow.schema.mnn.side_file import SUFFIX, side_path

    before = effect_of(model.graph)
    log = Trace(explain=frozenset(filter(None, [explain.partition("@")[0]])), node=explain.partition("@")[2])
    choices: dict[str, Any] = {"target": target, "passes": passes, "int64": int64}
    check = None
    if check_each:
        from minnow.runtime.verify.proof import StepCheck

        with step("check"):
            bisect = bisect_command(source, framework, reading, optimize, **choices)
            check = StepCheck(model, log.hits, seconds=check_limit, where=str(source), bisect=bisect)
    with step("optimize"):
        summary = run_optimizer(model, optimize, **choices, log=log, check=check)
    if check is not None and (notice := check.finish(model)):
        model.notices.append(notice)
    if strict_target and target == "mnn":
        _check_target(model, str(source))
    with replaced(destination, beside=(SUFFIX, PACKED)) as temporary:
        with step("write"), writing(destination):
            written = save(model, temporary, biz_code=biz_code, side_file=side_file)
        report = Report(
            source=str(source),
            output=str(destination),
            framework="mnn" if is_mnn(source, framework) else model.source,
            source_bytes=_bytes(source),
            output_bytes=written,
            nodes_before=summary.before,
            nodes_after=summary.after,
            before=before,
            after=effect_of(model.graph),
            seconds=step.seconds,
            notices=model.notices,
            statistics=summary.statistics,
            explained=log.reasons,
            applied=log.applications,
            unused={name: why for name, why in log.unused.items() if why},
        )
        if verify:
            from minnow.runtime.verify import verify as compare

            with step("verify"):
                report.verification = compare(
                    source, temporary, framework=framework, data=data, tolerance=tolerance, **reading
                )
            report.verification.target = str(destination)
            if report.verification.verdict == "inconclusive":
                report.notices.append(_untested(report.verification))
            if report.verification.verdict == "fail":
                raise VerifyError(
                    "the converted model does not give the numbers of its source",
                    where=str(source),
                    why=str(report.verification),
                    hint="`--no-verify` writes the file all the same; `-O0` tells whether an optimization is the cause",
                )
        if prepack:
            with step("prepack"):
                written = _prepack(temporary, said, report.verification)
            report.notices.append(f"packed weights, {_size(written)}, are in {packed_path(destination).name}")
        if side_path(temporary).exists():
            report.notices.append(f"the weights are in {side_path(destination).name}: ship both files together")
    return report


def _check_target(model: Model, where: str) -> None:
    """Raises UnsupportedError for nodes that MNN's own runtime cannot run."""
    from minnow.optimizer.facts.format import foreign_nodes

    if refused := foreign_nodes(model.graph):
        raise UnsupportedError(
            "MNN's own runtime cannot run the model",
            where=where,
            hint="without `--strict-target` the file is written, for Minnow's engine",
            refused=refused,
        )


def bisect_command(
    source: Path,
    framework: str | None,
    reading: Mapping[str, Any],
    level: int,
    target: str,
    passes: Sequence[str],
    int64: str,
) -> str:
    """The command line that looks for what changes the numbers in a conversion."""
    from minnow.converter.inputs.given import Inputs, text_of

    words = ["mnnconvert", "debug", "bisect", os.fspath(source), f"-O{level}"]
    words += [f"--input={name}={text_of(given)}" for name, given in Inputs.of(reading["inputs"]).items()]
    others = {"framework": framework, "batch": reading["batch"], "signature": reading["signature"]}
    others |= {"weights": reading["weights"], "passes": ",".join(passes)}
    others |= {"inputs": ",".join(reading["cut_inputs"]), "outputs": ",".join(reading["cut_outputs"])}
    others |= {"target": target if target != "mnn" else "", "int64": int64 if int64 != "auto" else ""}
    words += [f"--{name}={value}" for name, value in others.items() if value not in ("", None)]
    words += ["--dequantize"] * bool(reading["dequantize"]) + ["--trust"] * bool(reading["trust"])
    return shlex.join(words)


def packed_path(path: Path) -> Path:
    """Where the packed weights of a model are."""
    return path.with_name(path.name + PACKED)


def _untested(verification: Verification) -> str:
    """The notice of a conversion whose verification is inconclusive."""
    names = list(dict.fromkeys(o.name for c in verification.cases for o in c.outputs if o.inconclusive))
    shown = ", ".join(f"'{n}'" for n in names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return f"inconclusive: no input tried has tested {shown}, so that it may be right or wrong"


def _prepack(path: Path, given: Inputs | None, verification: Verification | None) -> int:
    """Writes the packed weights of a model beside it; gives their bytes.

    What a weight is packed for can depend on the sizes of the inputs, and is not decided before they are known. Open
    ones are those of the last comparison with the source, or else 1.
    """
    from minnow.runtime.session import load
    from minnow.runtime.verify.samples import random_inputs

    session = load(path)
    known = {} if verification is None or not verification.cases else verification.cases[-1].shapes
    names = {info.name for info in session.inputs if not info.container}
    said = {name: one.shape for name, one in (given or {}).items() if one.shape is not None}
    session.run(random_inputs(path, {k: v for k, v in (known or said).items() if k in names}))
    session.write_packed(packed_path(path))
    return packed_path(path).stat().st_size


def _bytes(path: Path) -> int:
    """Size of a file, or of all in a folder."""
    return sum(p.stat().st_size for p in path.rglob("*") if p.is_file()) if path.is_dir() else path.stat().st_size


class _Clock:
    """Times the steps and announces them."""

    def __init__(self, progress: Progress) -> None:
        self.seconds: dict[str, float] = {}
        self._progress = progress
        self._name = ""
        self._begin = 0.0

    def __call__(self, name: str) -> _Clock:
        self._name = name
        return self

    def __enter__(self) -> None:
        self._progress(self._name)
        self._begin = time.perf_counter()

    def __exit__(self, *exc: object) -> None:
        self.seconds[self._name] = time.perf_counter() - self._begin


def _size(n: float) -> str:
    for unit in ("B", "kB", "MB"):
        if n < 1000:
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.1f} {unit}"
        n /= 1000
    return f"{n:.2f} GB"


__all__ = ["Report", "convert"]
