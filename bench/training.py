"""Times the training of examples/train/digits.py beside the same network, batches and optimizer in PyTorch.

    python bench/training.py [--epochs 20] [--threads 2]

Both begin with the same weights, and their epochs take turns. Printed are for each the accuracy, the median time of an
epoch and the time of all epochs; then the ratios of Minnow to PyTorch: of all epochs, with the first one, which makes
the programs, and the median of neighbors.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "train"))
import digits
from oracles import torch_digits

from minnow import data, expr

RATE = 3e-3


@click.command()
@click.option("--epochs", default=20, help="Epochs of each.")
@click.option("--threads", default=2, help="Threads of each.")
def main(epochs: int, threads: int) -> None:
    np.random.seed(0)
    torch.set_num_threads(threads)
    expr.set_thread_number(threads)
    expr.lazy_eval(True)
    x, y, x_test, y_test = digits.digits()
    ours, theirs = digits.Net(), torch_digits.network()
    torch_digits.take_weights(theirs, ours)
    examples = digits.Digits(x, y)
    runs: dict[str, Any] = {
        "minnow": digits.train(ours, data.DataLoader(examples, 64), epochs, RATE),
        "PyTorch": torch_digits.train(theirs, data.DataLoader(examples, 64), epochs, RATE),
    }
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for epoch in range(epochs):
        for name, run in runs.items():
            np.random.seed(epoch)  # the same order of the examples
            start = time.perf_counter()
            next(run)
            seconds[name].append(time.perf_counter() - start)
    for run in runs.values():
        next(run, None)  # ends training
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "digits.mnn")
        digits.save(ours, path)
        accuracy = {
            "minnow": digits.accuracy(path, x_test, y_test),
            "PyTorch": torch_digits.accuracy(theirs, x_test, y_test),
        }
    for name, times in seconds.items():
        median = 1e3 * statistics.median(times)
        print(f"{name:8} accuracy {accuracy[name]:.2%}, {median:.1f} ms an epoch, {sum(times):.2f} s")
    mine, their = seconds.values()
    ratio = statistics.median(a / b for a, b in zip(mine, their, strict=True))
    print(f"minnow / PyTorch: {sum(mine) / sum(their):.2f} of all {epochs} epochs, {ratio:.2f} of neighbors")


if __name__ == "__main__":
    main()
