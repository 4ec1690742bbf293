"""Image processing with OpenCV's names, arguments and results, without OpenCV.

    import minnow.cv as cv2

    image = cv2.imread("photo.jpg")             # a `Var` of uint8, [height, width, 3], in the order blue, green, red
    small = cv2.resize(image, (224, 224))
    gray = cv2.cvtColor(small, cv2.COLOR_BGR2GRAY)

Functions take numpy arrays and `Var`s, and give `Var`s. Wrong arguments raise `minnow.errors.UsageError`.
"""

from __future__ import annotations

from minnow.cv import constant
from minnow.cv.arithmetic import (
    addWeighted,
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    copyTo,
    flip,
    hconcat,
    mean,
    merge,
    normalize,
    solve,
    split,
    vconcat,
)
from minnow.cv.calibration import (
    solvePnP,
)
from minnow.cv.codec import haveImageReader, haveImageWriter, imdecode, imencode, imread, imwrite
from minnow.cv.color import (
    cvtColor,
    cvtColorTwoPlane,
)
from minnow.cv.constant import *  # noqa: F403
from minnow.cv.contour import (
    drawContours,
    findContours,
)
from minnow.cv.drawing import (
    arrowedLine,
    circle,
    fillPoly,
    line,
    rectangle,
)
from minnow.cv.filter import (
    GaussianBlur,
    Laplacian,
    Scharr,
    Sobel,
    bilateralFilter,
    blur,
    boxFilter,
    filter2D,
    sepFilter2D,
    spatialGradient,
    sqrBoxFilter,
)
from minnow.cv.geometry import (
    convertMaps,
    getRectSubPix,
    remap,
    resize,
    rotate,
    warpAffine,
    warpPerspective,
)
from minnow.cv.histogram import (
    calcHist,
)
from minnow.cv.kernel import (
    getDerivKernels,
    getGaborKernel,
    getGaussianKernel,
    getStructuringElement,
)
from minnow.cv.morphology import (
    dilate,
    erode,
    pyrDown,
    pyrUp,
)
from minnow.cv.rotation import (
    Rodrigues,
)
from minnow.cv.structure import (
    boundingRect,
    boxPoints,
    connectedComponentsWithStats,
    contourArea,
    convexHull,
    minAreaRect,
)
from minnow.cv.thread import (
    getNumThreads,
    setNumThreads,
)
from minnow.cv.threshold import (
    adaptiveThreshold,
    blendLinear,
    threshold,
)
from minnow.cv.transform import (
    getAffineTransform,
    getPerspectiveTransform,
    getRotationMatrix2D,
    invertAffineTransform,
)
from minnow.expr import names

for _name, _value in vars(constant).items():
    if isinstance(_value, int):
        names.constant("cv", _name, _value, like=f"cv2.{_name}")

__all__ = [
    "GaussianBlur",
    "Laplacian",
    "Rodrigues",
    "Scharr",
    "Sobel",
    "adaptiveThreshold",
    "addWeighted",
    "arrowedLine",
    "bilateralFilter",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "blendLinear",
    "blur",
    "boundingRect",
    "boxFilter",
    "boxPoints",
    "calcHist",
    "circle",
    "connectedComponentsWithStats",
    "contourArea",
    "convertMaps",
    "convexHull",
    "copyTo",
    "cvtColor",
    "cvtColorTwoPlane",
    "dilate",
    "drawContours",
    "erode",
    "fillPoly",
    "filter2D",
    "findContours",
    "flip",
    "getAffineTransform",
    "getDerivKernels",
    "getGaborKernel",
    "getGaussianKernel",
    "getNumThreads",
    "getPerspectiveTransform",
    "getRectSubPix",
    "getRotationMatrix2D",
    "getStructuringElement",
    "haveImageReader",
    "haveImageWriter",
    "hconcat",
    "imdecode",
    "imencode",
    "imread",
    "imwrite",
    "invertAffineTransform",
    "line",
    "mean",
    "merge",
    "minAreaRect",
    "normalize",
    "pyrDown",
    "pyrUp",
    "rectangle",
    "remap",
    "resize",
    "rotate",
    "sepFilter2D",
    "setNumThreads",
    "solve",
    "solvePnP",
    "spatialGradient",
    "split",
    "sqrBoxFilter",
    "threshold",
    "vconcat",
    "warpAffine",
    "warpPerspective",
]
