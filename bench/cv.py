"""Times the functions of `minnow.cv` beside OpenCV, in turns, and checks that they give the same.

    python bench/cv.py [--size 1920x1080] [--size 224x224] [--threads 1] [--rounds 15] [--only TEXT]

With one thread, times are of the processor, without those of other programs. Printed are the least times, their ratio
(at most 1.5 is wanted), and the largest difference, the worst ratio first.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import click
import cv2
import numpy as np

import minnow.cv as cv

Case = Callable[[Any, dict[str, Any]], Any]
Clock = Callable[[], float]

CASES: dict[str, Case] = {
    "resize linear to 224": lambda m, d: m.resize(d["bgr"], (224, 224)),
    "resize linear to 640x360": lambda m, d: m.resize(d["bgr"], (640, 360)),
    "resize linear to 1.5": lambda m, d: m.resize(d["bgr"], d["larger"]),
    "resize linear to half": lambda m, d: m.resize(d["bgr"], d["half"]),
    "resize linear gray to half": lambda m, d: m.resize(d["gray"], d["half"]),
    "resize linear gray": lambda m, d: m.resize(d["gray"], (224, 200)),
    "resize linear floats": lambda m, d: m.resize(d["bgr32"], (224, 224)),
    "resize cubic": lambda m, d: m.resize(d["bgr"], (224, 224), interpolation=cv2.INTER_CUBIC),
    "resize cubic to 1.5": lambda m, d: m.resize(d["bgr"], d["larger"], interpolation=cv2.INTER_CUBIC),
    "resize Lanczos": lambda m, d: m.resize(d["bgr"], (224, 224), interpolation=cv2.INTER_LANCZOS4),
    "resize area": lambda m, d: m.resize(d["bgr"], (224, 224), interpolation=cv2.INTER_AREA),
    "resize area to half": lambda m, d: m.resize(d["bgr"], d["half"], interpolation=cv2.INTER_AREA),
    "resize nearest": lambda m, d: m.resize(d["bgr"], (224, 224), interpolation=cv2.INTER_NEAREST),
    "BGR2RGB": lambda m, d: m.cvtColor(d["bgr"], cv2.COLOR_BGR2RGB),
    "BGR2GRAY": lambda m, d: m.cvtColor(d["bgr"], cv2.COLOR_BGR2GRAY),
    "GRAY2BGR": lambda m, d: m.cvtColor(d["gray"], cv2.COLOR_GRAY2BGR),
    "BGR2BGRA": lambda m, d: m.cvtColor(d["bgr"], cv2.COLOR_BGR2BGRA),
    "BGR2HSV": lambda m, d: m.cvtColor(d["bgr"], cv2.COLOR_BGR2HSV),
    "HSV2BGR": lambda m, d: m.cvtColor(d["bgr"], cv2.COLOR_HSV2BGR),
    "BGR2HLS": lambda m, d: m.cvtColor(d["bgr"], cv2.COLOR_BGR2HLS),
    "HLS2BGR": lambda m, d: m.cvtColor(d["bgr"], cv2.COLOR_HLS2BGR),
    "BGR2YCrCb": lambda m, d: m.cvtColor(d["bgr"], cv2.COLOR_BGR2YCrCb),
    "YCrCb2BGR": lambda m, d: m.cvtColor(d["bgr"], cv2.COLOR_YCrCb2BGR),
    "BGR2YUV": lambda m, d: m.cvtColor(d["bgr"], cv2.COLOR_BGR2YUV),
    "YUV2BGR": lambda m, d: m.cvtColor(d["bgr"], cv2.COLOR_YUV2BGR),
    "BGR2XYZ": lambda m, d: m.cvtColor(d["bgr"], cv2.COLOR_BGR2XYZ),
    "XYZ2BGR": lambda m, d: m.cvtColor(d["bgr"], cv2.COLOR_XYZ2BGR),
    "BGR2Lab": lambda m, d: m.cvtColor(d["bgr"], cv2.COLOR_BGR2Lab),
    "Lab2BGR": lambda m, d: m.cvtColor(d["bgr"], cv2.COLOR_Lab2BGR),
    "BGR2Luv": lambda m, d: m.cvtColor(d["bgr"], cv2.COLOR_BGR2Luv),
    "Luv2BGR": lambda m, d: m.cvtColor(d["bgr"], cv2.COLOR_Luv2BGR),
    "BGR2BGR565": lambda m, d: m.cvtColor(d["bgr"], cv2.COLOR_BGR2BGR565),
    "BGR2RGB floats": lambda m, d: m.cvtColor(d["bgr32"], cv2.COLOR_BGR2RGB),
    "BGR2GRAY floats": lambda m, d: m.cvtColor(d["bgr32"], cv2.COLOR_BGR2GRAY),
    "YUV2BGR_NV12": lambda m, d: m.cvtColor(d["nv12"], cv2.COLOR_YUV2BGR_NV12),
    "YUV2BGR_I420": lambda m, d: m.cvtColor(d["nv12"], cv2.COLOR_YUV2BGR_I420),
    "BGR2YUV_I420": lambda m, d: m.cvtColor(d["bgr"], cv2.COLOR_BGR2YUV_I420),
    "warpAffine": lambda m, d: m.warpAffine(d["bgr"], d["turn"], d["size"]),
    "warpAffine gray": lambda m, d: m.warpAffine(d["gray"], d["turn"], d["size"]),
    "warpAffine cubic": lambda m, d: (
        m.warpAffine(d["bgr"], d["turn"], d["size"], None, cv2.INTER_CUBIC)
        if m is cv2
        else m.warpAffine(d["bgr"], d["turn"], d["size"], cv2.INTER_CUBIC)
    ),
    "warpAffine to 224": lambda m, d: m.warpAffine(d["bgr"], d["turn"], (224, 224)),
    "warpPerspective": lambda m, d: m.warpPerspective(d["bgr"], d["look"], d["size"]),
    "remap": lambda m, d: m.remap(d["bgr"], d["x"], d["y"], cv2.INTER_LINEAR),
    "rotate 90": lambda m, d: m.rotate(d["bgr"], cv2.ROTATE_90_CLOCKWISE),
    "rotate 180": lambda m, d: m.rotate(d["bgr"], cv2.ROTATE_180),
    "flip 0": lambda m, d: m.flip(d["bgr"], 0),
    "flip 1": lambda m, d: m.flip(d["bgr"], 1),
    "flip 1 gray": lambda m, d: m.flip(d["gray"], 1),
    "GaussianBlur 3": lambda m, d: m.GaussianBlur(d["bgr"], (3, 3), 0),
    "GaussianBlur 5": lambda m, d: m.GaussianBlur(d["bgr"], (5, 5), 1.2),
    "GaussianBlur 15": lambda m, d: m.GaussianBlur(d["bgr"], (15, 15), 2.5),
    "GaussianBlur 5 floats": lambda m, d: m.GaussianBlur(d["bgr32"], (5, 5), 1.2),
    "Sobel 16S": lambda m, d: m.Sobel(d["gray"], cv2.CV_16S, 1, 0),
    "Sobel 8U": lambda m, d: m.Sobel(d["gray"], -1, 0, 1),
    "Sobel 32F": lambda m, d: m.Sobel(d["gray"], cv2.CV_32F, 1, 0),
    "Sobel 5 16S": lambda m, d: m.Sobel(d["gray"], cv2.CV_16S, 1, 1, ksize=5),
    "Scharr 16S": lambda m, d: m.Scharr(d["gray"], cv2.CV_16S, 1, 0),
    "Laplacian 16S": lambda m, d: m.Laplacian(d["gray"], cv2.CV_16S),
    "Laplacian 3": lambda m, d: m.Laplacian(d["gray"], cv2.CV_16S, ksize=3),
    "spatialGradient": lambda m, d: m.spatialGradient(d["gray"]),
    "blur 3": lambda m, d: m.blur(d["bgr"], (3, 3)),
    "blur 9": lambda m, d: m.blur(d["bgr"], (9, 9)),
    "boxFilter 32F": lambda m, d: m.boxFilter(d["bgr"], cv2.CV_32F, (5, 5)),
    "filter2D 3": lambda m, d: m.filter2D(d["bgr"], -1, d["kernel"]),
    "sepFilter2D": lambda m, d: m.sepFilter2D(d["bgr"], -1, d["row"], d["row"]),
    "bilateralFilter": lambda m, d: m.bilateralFilter(d["bgr"], 5, 30, 30),
    "dilate 3": lambda m, d: m.dilate(d["bgr"], d["shape"]),
    "erode 3 gray": lambda m, d: m.erode(d["gray"], d["shape"]),
    "dilate ellipse 7": lambda m, d: m.dilate(d["gray"], d["ellipse"]),
    "pyrDown": lambda m, d: m.pyrDown(d["bgr"]),
    "pyrUp": lambda m, d: m.pyrUp(d["bgr"]),
    "pyrDown gray": lambda m, d: m.pyrDown(d["gray"]),
    "threshold": lambda m, d: m.threshold(d["gray"], 100, 255, cv2.THRESH_BINARY),
    "threshold Otsu": lambda m, d: m.threshold(d["gray"], 0, 255, cv2.THRESH_BINARY | cv2.THRESH_OTSU),
    "adaptiveThreshold": lambda m, d: m.adaptiveThreshold(
        d["gray"], 255, cv2.ADAPTIVE_THRESH_MEAN_C, cv2.THRESH_BINARY, 7, 3
    ),
    "blendLinear": lambda m, d: m.blendLinear(d["bgr"], d["bgr2"], d["w1"], d["w2"]),
    "addWeighted": lambda m, d: m.addWeighted(d["bgr"], 0.3, d["bgr2"], 0.6, 4),
    "addWeighted floats": lambda m, d: m.addWeighted(d["bgr32"], 0.3, d["bgr32"], 0.6, 4),
    "bitwise_and": lambda m, d: m.bitwise_and(d["bgr"], d["bgr2"]),
    "bitwise_or mask": lambda m, d: m.bitwise_or(d["bgr"], d["bgr2"], mask=d["mask"]),
    "copyTo": lambda m, d: m.copyTo(d["bgr"], d["mask"]),
    "split": lambda m, d: m.split(d["bgr"]),
    "merge": lambda m, d: m.merge(d["planes"]),
    "hconcat": lambda m, d: m.hconcat([d["bgr"], d["bgr2"]]),
    "vconcat": lambda m, d: m.vconcat([d["bgr"], d["bgr2"]]),
    "mean": lambda m, d: m.mean(d["bgr"]),
    "mean mask": lambda m, d: m.mean(d["bgr"], d["mask"]),
    "normalize min-max": lambda m, d: m.normalize(d["bgr"], None, 0, 255, cv2.NORM_MINMAX),
    "normalize L2 floats": lambda m, d: m.normalize(d["bgr"], None, 1, 0, cv2.NORM_L2, cv2.CV_32F),
    "normalize floats": lambda m, d: m.normalize(d["bgr32"], None, 0, 1, cv2.NORM_MINMAX),
    "calcHist": lambda m, d: m.calcHist([d["gray"]], [0], None, [256], [0, 256]),
    "findContours": lambda m, d: m.findContours(d["blobs"], cv2.RETR_TREE, cv2.CHAIN_APPROX_SIMPLE),
    "connectedComponentsWithStats": lambda m, d: m.connectedComponentsWithStats(d["blobs"]),
    "imdecode JPEG": lambda m, d: m.imdecode(d["jpeg"], cv2.IMREAD_COLOR),
    "imdecode PNG": lambda m, d: m.imdecode(d["png"], cv2.IMREAD_COLOR),
    "imencode JPEG": lambda m, d: m.imencode(".jpg", d["photo"])[0],
}


def material(width: int, height: int) -> dict[str, Any]:
    """Pictures of a size, and what the cases take beside them."""
    r = np.random.default_rng(0)
    smooth = cv2.resize(r.integers(0, 256, (height // 16 + 2, width // 16 + 2, 3), np.uint8), (width, height))
    photo = np.clip(smooth.astype(np.int16) + r.integers(-6, 7, smooth.shape), 0, 255).astype(np.uint8)
    bgr = r.integers(0, 256, (height, width, 3), np.uint8)
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    weight = r.random((height, width), np.float32)
    return {
        "bgr": bgr,
        "bgr2": r.integers(0, 256, bgr.shape, np.uint8),
        "bgr32": r.random(bgr.shape, np.float32),
        "gray": np.ascontiguousarray(bgr[..., 0]),
        "planes": [np.ascontiguousarray(bgr[..., c]) for c in range(3)],
        "photo": photo,
        "blobs": np.where(photo[..., 0] > 128, 255, 0).astype(np.uint8),
        "jpeg": cv2.imencode(".jpg", photo)[1],
        "png": cv2.imencode(".png", photo)[1],
        "mask": r.integers(0, 2, (height, width), np.uint8),
        "nv12": r.integers(0, 256, (height // 2 * 3, width), np.uint8),
        "size": (width, height),
        "half": (width // 2, height // 2),
        "larger": (width * 3 // 2, height * 3 // 2),
        "turn": cv2.getRotationMatrix2D((width / 2, height / 2), 20, 0.9),
        "look": np.array([[1, 0.05, 3], [0.02, 0.95, -4], [1e-5, 2e-5, 1]]),
        "x": x * np.float32(0.97) + np.float32(2.3),
        "y": y * np.float32(0.98) + np.float32(1.6),
        "kernel": r.standard_normal((3, 3)).astype(np.float32),
        "row": np.array([0.2, 0.3, 0.4, 0.1, 0.05], np.float32),
        "shape": np.ones((3, 3), np.uint8),
        "ellipse": cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (7, 7)),
        "w1": weight,
        "w2": 1 - weight,
    }


def difference(ours: Any, theirs: Any) -> float:
    """The largest difference of two results; NaN where they cannot be compared."""
    if isinstance(theirs, (tuple, list)):
        if len(theirs) == 2 and isinstance(theirs[0], float):  # of a threshold: ours is the image for all but unpacking
            return difference(np.asarray(ours), theirs[1])
        if len(ours) != len(theirs):
            return float("nan")
        return max((difference(a, b) for a, b in zip(ours, theirs, strict=True)), default=0.0)
    if theirs is None or isinstance(theirs, bool):
        return 0.0
    a, b = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
    return float(np.abs(a - b).max(initial=0)) if a.size == b.size else float("nan")


def timed(case: Case, module: Any, data: dict[str, Any], repeats: int, clock: Clock) -> float:
    start = clock()
    for _ in range(repeats):
        case(module, data)
    return (clock() - start) / repeats


def compared(case: Case, data: dict[str, Any], rounds: int, clock: Clock) -> tuple[float, float, float]:
    """Seconds of ours and of OpenCV, and the difference of the results."""
    off = difference(case(cv, data), case(cv2, data))
    longest = max(timed(case, m, data, 1, clock) for m in (cv, cv2))
    repeats = max(1, round(2e-3 / max(longest, 1e-7)))
    pairs = [(timed(case, cv, data, repeats, clock), timed(case, cv2, data, repeats, clock)) for _ in range(rounds)]
    ours, theirs = (min(column) for column in zip(*pairs, strict=True))
    return ours, theirs, off


@click.command()
@click.option("--size", "sizes", multiple=True, default=["1920x1080", "224x224"], show_default=True)
@click.option("--threads", default=1, show_default=True)
@click.option("--rounds", default=15, show_default=True)
@click.option("--only", default="", help="Only cases with this text in their names.")
def main(sizes: tuple[str, ...], threads: int, rounds: int, only: str) -> None:
    """Times minnow.cv against OpenCV."""
    cv.setNumThreads(threads)
    cv2.setNumThreads(threads)
    clock = time.thread_time if threads == 1 else time.perf_counter
    for size in sizes:
        width, height = (int(n) for n in size.split("x"))
        data = material(width, height)
        print(f"{size}, {threads} threads: ms of minnow.cv and OpenCV, ratio, largest difference")
        found = []
        for name, case in CASES.items():
            if only.lower() in name.lower():
                found.append((name, *compared(case, data, rounds, clock)))
        for name, ours, theirs, off in sorted(found, key=lambda row: -row[1] / row[2]):
            print(f"{name:30} {ours * 1e3:9.3f} {theirs * 1e3:9.3f} {ours / theirs:7.2f} {off:10.4g}")


if __name__ == "__main__":
    main()
