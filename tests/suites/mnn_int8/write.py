"""Has MNN's converter and quantizer write the files of this folder, and its runtime compute their outputs.

MINNOW_MNN_PYTHON=... python -m suites.mnn_int8.write FOLDER
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import mnn_oracle
import numpy as np
from suites.mnn_int8.nets import NETS, feed, model

FILES = Path(__file__).parent / "files"
TOOLS = Path(__file__).parent / "mnn_tools.py"
# The networks that are quantized with zero points other than 0 as well: those of which MNN's runtime computes what they
# mean. With zero points it is far off the network for pools of maxima, Relu6, a sum with Relu, Softmax and Concat; with
# any scales for pools of maxima and Max where numbers are negative, and for Resize between two scales.
WITH_ZERO_POINTS = ("conv", "depthwise", "squeeze", "deconv", "hard_swish", "pad", "mean_pool")


def names() -> list[str]:
    """FORM.METHOD, one for each file."""
    return [f"{n}.KL" for n in NETS] + [f"{n}.EMA" for n in WITH_ZERO_POINTS]


def _tool(*arguments: str) -> None:
    command = [mnn_oracle.PYTHON, str(TOOLS), *arguments]
    if shutil.which("unshare"):
        command = ["unshare", "-rn", *command]
    subprocess.run(command, capture_output=True, timeout=300, check=False)


def write(name: str, folder: Path) -> bytes:
    """The file that MNN's quantizer makes of a network."""
    form, method = name.split(".")
    images = folder / "images"
    if not images.exists():
        from PIL import Image

        images.mkdir(parents=True)
        rng = np.random.default_rng(1)
        for i in range(4):
            Image.fromarray(rng.integers(0, 256, (16, 16, 3)).astype(np.uint8)).save(images / f"{i}.png")
    source, plain, to, settings = (folder / f"{name}.{end}" for end in ("onnx", "plain.mnn", "mnn", "json"))
    source.write_bytes(model(form))
    _tool("mnnconvert", "-f", "ONNX", "--modelFile", str(source), "--MNNModel", str(plain), "--bizCode", "test")
    how = {
        "format": "RGB",
        "mean": [127.5] * 3,
        "normal": [1 / 128] * 3,
        "width": 16,
        "height": 16,
        "path": f"{images}/",
        "used_image_num": 4,
        "feature_quantize_method": method,
        "weight_quantize_method": "MAX_ABS",
        "batch_size": 2,
    }
    settings.write_text(json.dumps(how))
    _tool("mnnquant", str(plain), str(to), str(settings))
    return to.read_bytes()


def results(files: dict[str, bytes], folder: Path) -> dict[str, np.ndarray]:
    """What MNN's runtime computes with each file."""
    jobs = [mnn_oracle.File(data, {"x": feed()}, ["y"]) for data in files.values()]
    given = {}
    for name, answer in zip(files, mnn_oracle.run(jobs, folder), strict=True):
        assert answer.outputs is not None, f"{name}: {answer.log}"
        given[name] = answer.outputs[0]
    return given


if __name__ == "__main__":
    work = Path(sys.argv[1])
    made = {name: write(name, work) for name in names()}
    FILES.mkdir(exist_ok=True)
    for name, data in made.items():
        (FILES / f"{name}.mnn").write_bytes(data)
    np.savez_compressed(FILES / "outputs.npz", **results(made, work / "runs"))
