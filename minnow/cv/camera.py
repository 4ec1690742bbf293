"""The pinhole camera with lens distortion: from points in space to pixels, and from pixels to directions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from minnow.cv import argument
from minnow.schema.errors import UsageError

Matrix = npt.NDArray[np.float64]

COUNTS = (4, 5, 8, 12, 14)
UNDISTORT_STEPS = 5  # as in OpenCV, whose results this has to give


@dataclass(frozen=True)
class Camera:
    """A camera.

    Attributes:
        matrix: [3, 3] with the focal lengths and the principal point in pixels.
        distortion: 14 coefficients: k1, k2, p1, p2, k3, k4, k5, k6, s1, s2, s3, s4, tau_x, tau_y.
    """

    matrix: Matrix
    distortion: Matrix

    @classmethod
    def of(cls, matrix: Any, distortion: Any) -> Camera:
        """From arguments: a matrix [3, 3], and None or 4, 5, 8, 12 or 14 coefficients.

        Raises:
            UsageError: they are something else.
        """
        k = argument.matrix(matrix, "cameraMatrix", (3, 3))
        if k[0, 0] == 0 or k[1, 1] == 0:
            raise UsageError("cameraMatrix has a focal length of 0")
        coefficients = np.zeros(14)
        if distortion is not None:
            given = argument.matrix(distortion, "distCoeffs").ravel()
            if given.size not in (0, *COUNTS):
                raise UsageError(f"distCoeffs has {given.size} coefficients: {argument.listed(COUNTS)} are possible")
            coefficients[: given.size] = given
        return cls(k, coefficients)

    def project(self, points: Matrix) -> Matrix:
        """Pixels [n, 2] of points [n, 3] in the frame of the camera."""
        x, y = points[:, 0] / points[:, 2], points[:, 1] / points[:, 2]
        k1, k2, p1, p2, k3, k4, k5, k6, s1, s2, s3, s4 = self.distortion[:12].tolist()
        r2 = x * x + y * y
        radial = (1 + ((k3 * r2 + k2) * r2 + k1) * r2) / (1 + ((k6 * r2 + k5) * r2 + k4) * r2)
        u = x * radial + 2 * p1 * x * y + p2 * (r2 + 2 * x * x) + (s1 + s2 * r2) * r2
        v = y * radial + p1 * (r2 + 2 * y * y) + 2 * p2 * x * y + (s3 + s4 * r2) * r2
        if self.distortion[12:].any():
            tilted = np.c_[u, v, np.ones(len(u))] @ self._tilt().T
            u, v = tilted[:, 0] / tilted[:, 2], tilted[:, 1] / tilted[:, 2]
        k = self.matrix
        return np.column_stack([u * k[0, 0] + k[0, 2], v * k[1, 1] + k[1, 2]])

    def directions(self, pixels: Matrix) -> Matrix:
        """The points [n, 2] at depth 1 that are seen at pixels [n, 2]."""
        k = self.matrix
        x, y = (pixels[:, 0] - k[0, 2]) / k[0, 0], (pixels[:, 1] - k[1, 2]) / k[1, 1]
        if not self.distortion.any():
            return np.column_stack([x, y])
        if self.distortion[12:].any():
            straight = np.c_[x, y, np.ones(len(x))] @ np.linalg.inv(self._tilt()).T
            x, y = straight[:, 0] / straight[:, 2], straight[:, 1] / straight[:, 2]
        k1, k2, p1, p2, k3, k4, k5, k6, s1, s2, s3, s4 = self.distortion[:12].tolist()
        u, v = x, y
        for _ in range(UNDISTORT_STEPS):
            r2 = x * x + y * y
            shrink = (1 + ((k6 * r2 + k5) * r2 + k4) * r2) / (1 + ((k3 * r2 + k2) * r2 + k1) * r2)
            shrink = np.where(shrink < 0, 1.0, shrink)
            dx = 2 * p1 * x * y + p2 * (r2 + 2 * x * x) + (s1 + s2 * r2) * r2
            dy = p1 * (r2 + 2 * y * y) + 2 * p2 * x * y + (s3 + s4 * r2) * r2
            x, y = (u - dx) * shrink, (v - dy) * shrink
        return np.column_stack([x, y])

    def _tilt(self) -> Matrix:
        """The homography of an image sensor that is tilted around x and y."""
        tau_x, tau_y = self.distortion[12:].tolist()
        about_x = np.array(
            [[1, 0, 0], [0, math.cos(tau_x), math.sin(tau_x)], [0, -math.sin(tau_x), math.cos(tau_x)]], np.float64
        )
        about_y = np.array(
            [[math.cos(tau_y), 0, -math.sin(tau_y)], [0, 1, 0], [math.sin(tau_y), 0, math.cos(tau_y)]], np.float64
        )
        r = about_y @ about_x
        return np.array([[r[2, 2], 0, -r[0, 2]], [0, r[2, 2], -r[1, 2]], [0, 0, 1]]) @ r
