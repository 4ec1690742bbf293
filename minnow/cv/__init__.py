"""Image processing with OpenCV's names, arguments and results, without OpenCV.

    import minnow.cv as cv2

    image = cv2.imread("photo.jpg")             # a `Var` of uint8, [height, width, 3], in the order blue, green, red
    small = cv2.resize(image, (224, 224))
    gray = cv2.cvtColor(small, cv2.COLOR_BGR2GRAY)

Functions take numpy arrays and `Var`s, and give `Var`s. Wrong arguments raise `minnow.errors.UsageError`.
"""

from __future__ import annotations

from minnow.cv.constant import *  # noqa: F403
from minnow.cv.transform import (
    getAffineTransform,
    getPerspectiveTransform,
    getRotationMatrix2D,
    invertAffineTransform,
)

__all__ = [
    "getAffineTransform",
    "getPerspectiveTransform",
    "getRotationMatrix2D",
    "invertAffineTransform",
]
