"""Pictures are the same with each instruction set."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from minnow.runtime import _engine

# Prints a hash of the result of each function.
PROGRAM = """
import hashlib
import cv2
import numpy as np
import minnow.cv as cv

rng = np.random.default_rng(0)
image, floats = rng.integers(0, 256, (90, 131, 3), np.uint8), rng.random((90, 131, 3), np.float32)
gray, half = image[..., 0], rng.integers(0, 256, (60, 80), np.uint8)
weight = rng.random(gray.shape, np.float32)
turn = cv.getRotationMatrix2D((60, 40), 33, 1.1)
results = {"NV12": cv.cvtColor(half, cv.COLOR_YUV2BGR_NV12), "I420": cv.cvtColor(half, cv.COLOR_YUV2BGR_I420)}
for space in ("HSV", "HLS", "Lab", "Luv", "YUV", "YCrCb", "XYZ", "GRAY"):
    for kind, source in (("bytes", image), ("floats", floats)):
        results[space, kind] = cv.cvtColor(source, getattr(cv, "COLOR_BGR2" + space))
        if space != "GRAY":
            results[space, kind, "back"] = cv.cvtColor(source, getattr(cv, f"COLOR_{space}2BGR"))
for kind, source in (("bytes", image), ("floats", floats), ("gray", gray)):
    for method in (0, 1, 2, 4):
        results["resize", kind, method] = cv.resize(source, (57, 83), interpolation=method)
        results["warp", kind, method] = cv.warpAffine(source, turn, (120, 80), method)
    results["area", kind] = cv.resize(source, (50, 31), interpolation=cv.INTER_AREA)
    results["add", kind] = cv.addWeighted(source, 0.3, source[::-1].copy(), 0.6, 4)
    results["blend", kind] = cv.blendLinear(source, source[::-1].copy(), weight, weight[::-1].copy())
    results["normalize", kind] = cv.normalize(source, None, 0, 200, cv.NORM_MINMAX)
    results["Gaussian", kind] = cv.GaussianBlur(source, (5, 5), 1.2)
    results["mean", kind] = cv.blur(source, (5, 3))
    results["separable", kind] = cv.sepFilter2D(source, -1, np.array([0.2, 0.5, 0.3]), np.array([0.1, 0.7, 0.2]))
    results["window", kind] = cv.filter2D(source, -1, np.array([[0.1, 0.2], [-0.3, 0.7]]))
    results["Sobel", kind] = cv.Sobel(source, cv.CV_32F, 1, 1, scale=0.37)
    results["down", kind], results["up", kind] = cv.pyrDown(source), cv.pyrUp(source)
    results["dilate", kind] = cv.dilate(source, cv.getStructuringElement(cv.MORPH_ELLIPSE, (5, 5)))
for name, result in results.items():
    print(name, hashlib.sha256(np.ascontiguousarray(result).tobytes()).hexdigest())
"""


def results(isa: str) -> str:
    # The choice is made once per process.
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "MINNOW_ISA": isa},
        capture_output=True,
        text=True,
        check=False,
    )
    if "this machine has no such instruction set" in done.stderr:
        pytest.skip(f"this processor has no {isa}")
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("isa", [isa for isa in ("avx512", "avx2", "sse4") if isa != _engine.isa()])
def test_results_are_the_same(isa: str) -> None:
    assert results(isa).splitlines() == results(_engine.isa()).splitlines()
