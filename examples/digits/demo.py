"""From an ONNX file to a verified .mnn file: converts a model, runs it on test images, and times it.

./dev demo
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np

import minnow

HERE = Path(__file__).parent
SOURCE, OUT = HERE / "digits.onnx", HERE / "out"


def accuracy(probability: np.ndarray, labels: np.ndarray) -> str:
    right = int((probability.argmax(1) == labels).sum())
    return f"{right / len(labels):.2%} ({right} of {len(labels)} digits)"


def main() -> int:
    OUT.mkdir(exist_ok=True)
    model = OUT / "digits.mnn"
    test = np.load(HERE / "digits_test.npz")
    images, labels = test["images"], test["labels"]
    compare = importlib.util.find_spec("onnxruntime") is not None

    # Convert, and compare the outputs of the new file with those of the source model.
    report = minnow.convert(SOURCE, output=model, optimize=2, verify=True)
    print(report)
    print(f"size: {SOURCE.stat().st_size} -> {model.stat().st_size} bytes")

    # The accuracy of both on digits that were not used for training.
    if compare:
        import onnxruntime

        onnxruntime.disable_telemetry_events()
        source = onnxruntime.InferenceSession(SOURCE, providers=["CPUExecutionProvider"])
        print(f"{SOURCE.name}: {accuracy(source.run(['probability'], {'image': images})[0], labels)}")
    session = minnow.load(model, threads=1)
    print(f"{model.name}:  {accuracy(session.run({'image': images})['probability'], labels)}")

    # The speed, measured by the command line, which does everything that the package does.
    command = [Path(sys.executable).with_name("mnnconvert"), "benchmark", model]
    against = ["--against", "onnxruntime", "--source", SOURCE] if compare else []
    return subprocess.run([*command, *against], check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main())
