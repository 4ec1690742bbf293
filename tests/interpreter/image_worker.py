"""Image processing by MNN's `CVImageProcess` and `CVMatrix`, which MNN and Minnow run alike.

python image_worker.py RESULTS.npz
"""

import sys

import MNN
import numpy as np

rng = np.random.default_rng(3)
found = {}
CHANNELS = {
    MNN.CV_ImageFormat_RGBA: 4, MNN.CV_ImageFormat_RGB: 3, MNN.CV_ImageFormat_BGR: 3, MNN.CV_ImageFormat_GRAY: 1,
    MNN.CV_ImageFormat_BGRA: 4,
}  # fmt: skip


def run(name, image, source, target, size, matrix=None, padding=None, caffe=False, stride=0, **config):
    process = MNN.CVImageProcess({"sourceFormat": source, "destFormat": target, **config})
    if matrix is not None:
        process.setMatrix(matrix)
    if padding is not None:
        process.setPadding(padding)
    channels = CHANNELS[target]
    shape = (1, channels, *size) if caffe else (1, *size, channels)
    order = MNN.Tensor_DimensionType_Caffe if caffe else MNN.Tensor_DimensionType_Tensorflow
    tensor = MNN.Tensor(shape, MNN.Halide_Type_Float, np.zeros(shape, np.float32), order)
    height, width = image.shape[:2]
    process.convert(image.ctypes.data, width - (2 if stride else 0), height, stride, tensor)
    found[name] = np.array(tensor.getData(), np.float32).reshape(shape)


def matrix(*calls):
    made = MNN.CVMatrix()
    for call, *arguments in calls:
        getattr(made, call)(*arguments)
    found[f"matrix {len(found)}"] = np.array(made.read(), np.float32)
    return made


picture = rng.integers(0, 256, (9, 11, 3)).astype(np.uint8)
BGR, RGB = MNN.CV_ImageFormat_BGR, MNN.CV_ImageFormat_RGB
normalized = {"mean": (103.94, 116.78, 123.68, 0.0), "normal": (0.017, 0.02, 0.03, 1.0)}
run("same", picture, BGR, BGR, (9, 11))
run("rows with padding", picture, BGR, BGR, (9, 9), stride=33)
run("normalized", picture, BGR, RGB, (9, 11), **normalized)
run("normalized first", picture, BGR, RGB, (9, 11), caffe=True, **normalized)
MISSING = [(RGB, MNN.CV_ImageFormat_BGRA), (BGR, MNN.CV_ImageFormat_BGRA), (BGR, MNN.CV_ImageFormat_RGBA),
           (MNN.CV_ImageFormat_GRAY, MNN.CV_ImageFormat_BGRA),
           (MNN.CV_ImageFormat_RGBA, MNN.CV_ImageFormat_BGRA)]  # fmt: skip
for source in CHANNELS:
    for target in CHANNELS:
        if target == MNN.CV_ImageFormat_GRAY or (source, target) in MISSING:
            continue  # MNN is one level off, or gives zeros
        pixels = rng.integers(0, 256, (4, 5, CHANNELS[source])).astype(np.uint8)
        run(f"{source} to {target}", pixels, source, target, (4, 5))
scaled = matrix(("setScale", 11 / 17, 9 / 13))
turned = matrix(
    ("setTranslate", -5.0, -4.0), ("postRotate", 30.0), ("postScale", 1.25, 0.8), ("postTranslate", 5.5, 4.25)
)
for filter in (MNN.CV_Filter_NEAREST, MNN.CV_Filter_BILINEAL):
    for wrap in (MNN.CV_Wrap_CLAMP_TO_EDGE, MNN.CV_Wrap_ZERO):
        run(f"scaled {filter} {wrap}", picture, BGR, RGB, (13, 17), scaled, filterType=filter, wrap=wrap)
        run(f"turned {filter} {wrap}", picture, BGR, BGR, (10, 12), turned, filterType=filter, wrap=wrap, **normalized)
run("padded", picture, BGR, BGR, (10, 12), turned, padding=77, wrap=MNN.CV_Wrap_ZERO, **normalized)
tall = rng.integers(0, 256, (12, 8)).astype(np.uint8)


def nv21():
    process = MNN.CVImageProcess({"sourceFormat": MNN.CV_ImageFormat_YUV_NV21, "destFormat": RGB})
    tensor = MNN.Tensor(
        (1, 8, 8, 3), MNN.Halide_Type_Float, np.zeros((1, 8, 8, 3), np.float32), MNN.Tensor_DimensionType_Tensorflow
    )
    process.convert(tall.ctypes.data, 8, 8, 0, tensor)
    found["nv21"] = np.array(tensor.getData(), np.float32)


nv21()
matrix(("setRotate", 30.0, 1.0, 2.0))
matrix(("setScale", 2.0, 3.0, 1.0, 1.0), ("preRotate", 20.0), ("preTranslate", 1.0, 2.0), ("preScale", 2.0, 0.5))
matrix(("setPolyToPoly", [0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 1.0, 1.0], [0.0, 0.0, 2.0, 0.0, 0.0, 2.0, 2.0, 3.0]))
matrix(("setPolyToPoly", [0.0, 0.0, 3.0, 1.0, 0.0, 1.0], [1.0, 0.0, 2.0, 5.0, 0.0, 2.0]))
matrix(("setPolyToPoly", [0.0, 1.0, 3.0, 1.0], [1.0, 0.0, 2.0, 5.0]))
matrix(("setScale", 2.0, 4.0), ("invert",))
matrix(("write", [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]))
np.savez(sys.argv[1], **found)
