"""What a model loses, and what it gains, with smaller numbers: a table of accuracy, bytes and latency.

    python examples/quantize/table.py --sparsity 0.6
    python examples/quantize/table.py model.onnx PHOTOS --preprocess mean=123.7,116.3,103.5:std=58.4,57.1,57.4
    python examples/quantize/table.py faces.onnx PHOTOS --preprocess mean=127:std=128 --boxes scores,boxes

Without arguments the model is that of examples/digits, and its test images have labels. With a model and a folder of
photos, every second photo calibrates, and the others show how far the outputs are those of the float model.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from photos import crops, divided, photos_in, same_boxes, same_class, sqnr

import minnow
from minnow.options.calibration import parsed_preprocess

DIGITS = Path(__file__).parents[1] / "digits"
CALIBRATION = 60
"""Of the labelled digits; the others are measured with."""

Array = np.ndarray[Any, Any]
Run = Callable[[Array], dict[str, Array]]
Measure = Callable[[list[dict[str, Array]], list[dict[str, Array]]], dict[str, str]]
"""Columns of the table, from the outputs of the float model and those of another one."""


def models(
    source: Path, folder: Path, calibration: Sequence[Array], name: str, target: str, sparsity: float
) -> dict[str, Path]:
    """The model in each form, by the name of the form."""
    made = {"fp32": folder / "fp32.mnn"}
    minnow.convert(source, output=made["fp32"], target=target, verify=False)
    for form in ("fp16", "bf16", "int8 weights", "int4 weights"):
        made[form] = folder / f"{form.replace(' ', '_')}.mnn"
        weights = form.partition(" ")[0]
        minnow.quantize(
            source, output=made[form], weights=weights, target="minnow" if form == "bf16" else target,
            verify=False, measure=False,
        )  # fmt: skip
    if sparsity:
        made[f"{sparsity:.0%} zeros"] = zeros = folder / "zeros.mnn"
        minnow.quantize(
            source, output=zeros, prune="magnitude", sparsity=sparsity, calibration=[{name: x} for x in calibration],
            calibration_limit=len(calibration), target=target, verify=False, measure=False,
        )  # fmt: skip
    made["int8"] = folder / "int8.mnn"
    minnow.quantize(
        source, output=made["int8"], calibration=[{name: x} for x in calibration], calibration_limit=len(calibration),
        target=target, verify=False, measure=False,
    )  # fmt: skip
    return made


def runner(path: Path, name: str) -> Run:
    """Runs a file with one thread."""
    session = minnow.load(path, threads=1)
    return lambda x: {n: np.asarray(a) for n, a in session.run({name: x}).items()}


def latencies(runs: dict[str, Run], x: Array, rounds: int) -> dict[str, float]:
    """The median of the seconds of a run of each model. They run in turns, so that all meet the same disturbances."""
    found: dict[str, list[float]] = {form: [] for form in runs}
    for _ in range(rounds):
        for form, run in runs.items():
            begin = time.perf_counter()
            run(x)
            found[form].append(time.perf_counter() - begin)
    return {form: float(np.median(times)) for form, times in found.items()}


def table(
    source: Path,
    calibration: Sequence[Array],
    test: Iterable[Array],
    measure: Measure,
    rounds: int,
    target: str = "mnn",
    sparsity: float = 0,
) -> list[dict[str, str]]:
    """A row of columns for each form of a model with one input.

    Args:
        source: the model.
        calibration: inputs that show the ranges of the tensors.
        test: inputs to measure with.
        measure: what the outputs are worth.
        rounds: how often each model is timed.
        target: the runtimes that the files are for.
        sparsity: the share of the weights that one of the forms has set to 0; with 0 there is no such form.
    """
    inputs = list(test)
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder) / "input.mnn"
        minnow.convert(source, output=base, target="minnow", verify=False)
        (name,) = [i.name for i in minnow.load(base).inputs]
        made = models(source, Path(folder), calibration, name, target, sparsity)
        runs = {form: runner(path, name) for form, path in made.items()}
        outputs = {form: [run(x) for x in inputs] for form, run in runs.items()}
        seconds = latencies(runs, inputs[0], rounds)
        bytes_ = {form: path.stat().st_size for form, path in made.items()}
    rows = []
    for form, got in outputs.items():
        want = outputs["fp32"]
        decibels = "" if form == "fp32" else f"{sqnr(want, got):.1f}"
        size = f"{bytes_[form]:,} ({bytes_[form] / bytes_['fp32']:.0%})"
        took = f"{1e3 * seconds[form]:.2f} ({seconds[form] / seconds['fp32']:.2f})"
        rows.append({"form": form} | measure(want, got) | {"SQNR dB": decibels, "bytes": size, "ms": took})
    return rows


def digits(rounds: int, sparsity: float) -> list[dict[str, str]]:
    """The table for the digits, with the share of them that is recognized."""
    test = np.load(DIGITS / "digits_test.npz")
    images, labels = test["images"], test["labels"]

    def accuracy(_: list[dict[str, Array]], got: list[dict[str, Array]]) -> dict[str, str]:
        right = np.concatenate([o["probability"].argmax(1) for o in got]) == labels[CALIBRATION:]
        return {"accuracy": f"{right.mean():.2%}"}

    parts = [images[:CALIBRATION]], [images[CALIBRATION:]]
    return table(DIGITS / "digits.onnx", *parts, accuracy, rounds, sparsity=sparsity)


def photos(given: argparse.Namespace) -> list[dict[str, str]]:
    """The table for a model and a folder of photos."""
    how = parsed_preprocess(given.preprocess)
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder) / "base.mnn"
        minnow.convert(given.model, output=base, target="minnow", verify=False)
        (info,) = minnow.load(base).inputs
    assert info.shape is not None
    parts = divided(photos_in(given.photos))
    calibration, test = ([c for p in part for c in crops(p, info.shape, how, info.dtype)] for part in parts)

    def agreement(want: list[dict[str, Array]], got: list[dict[str, Array]]) -> dict[str, str]:
        if given.boxes:
            share, count = same_boxes(want, got, *given.boxes.split(","))
            return {f"F1 for {count} faces": f"{share:.1%}"}
        return {"same top-1": f"{same_class(want, got):.1%}"} if not given.no_classes else {}

    return table(given.model, calibration, test, agreement, given.rounds, given.target, given.sparsity)


def markdown(rows: list[dict[str, str]]) -> str:
    """The rows as a table."""
    lines = ["| " + " | ".join(rows[0]) + " |", "|---" * len(rows[0]) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row.values()) + " |" for row in rows])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, nargs="?", help="by default examples/digits/digits.onnx")
    parser.add_argument("photos", type=Path, nargs="?", help="a folder")
    parser.add_argument("--preprocess", default="", help="as for `mnnconvert quantize`")
    parser.add_argument("--boxes", default="", metavar="SCORES,BOXES", help="the outputs of a detector of faces")
    parser.add_argument("--no-classes", action="store_true", help="the model is no classifier")
    parser.add_argument("--target", default="mnn", choices=("mnn", "minnow"))
    parser.add_argument("--rounds", type=int, default=15, help="how often each model is timed")
    parser.add_argument("--sparsity", type=float, default=0, metavar="SHARE", help="add a model with these zeros")
    given = parser.parse_args()
    if given.model and not given.photos:
        parser.error("a model needs a folder of photos")
    print(markdown(photos(given) if given.model else digits(given.rounds, given.sparsity)))


if __name__ == "__main__":
    main()
