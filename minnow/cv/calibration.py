"""The pose of an object of which some points are seen."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt

from minnow.cv import argument
from minnow.cv.boundary import Array, exported
from minnow.cv.camera import Camera
from minnow.cv.constant import SOLVEPNP_ITERATIVE, SOLVEPNP_SQPNP
from minnow.cv.rotation import CROSS, rotation_matrix, rotation_vector
from minnow.schema.errors import UnsupportedError, UsageError

Matrix = npt.NDArray[np.float64]
Pose = tuple[Matrix, Matrix]  # rotation [3, 3], translation [3]

STEPS = 100


@exported
def solvePnP(
    objectPoints: Array,
    imagePoints: Array,
    cameraMatrix: Array,
    distCoeffs: Array | None,
    rvec: Array | None = None,
    tvec: Array | None = None,
    useExtrinsicGuess: bool = False,
    flags: int = SOLVEPNP_ITERATIVE,
) -> tuple[bool, Array, Array]:
    """Where an object is, relative to a camera that sees it. (`flags` may be the fifth argument, as in MNN.)

    Args:
        objectPoints: points of the object, [n, 3].
        imagePoints: the pixels where they are seen, [n, 2].
        cameraMatrix: [3, 3], with focal lengths and principal point in pixels.
        distCoeffs: 4, 5, 8, 12 or 14 coefficients of lens distortion; None: without.
        rvec: with `useExtrinsicGuess`, the rotation to start from.
        tvec: with `useExtrinsicGuess`, the translation to start from.
        useExtrinsicGuess: whether to start from these.
        flags: `SOLVEPNP_ITERATIVE` (least squares of the distances in pixels; at least 4 points in a plane, or 6) or
            `SOLVEPNP_SQPNP` (least squares of the distances in space; at least 3 points).

    Returns:
        (whether it was found, rotation vector [3, 1], translation [3, 1]), float64.

    Raises:
        UsageError: there are too few points, or an argument is something else.
        UnsupportedError: `flags` is another method of OpenCV.
    """
    is_fifth = rvec is not None and tvec is None and isinstance(rvec, (int, np.integer))
    method = argument.integer(rvec if is_fifth else flags, "flags")
    if method not in (SOLVEPNP_ITERATIVE, SOLVEPNP_SQPNP):
        raise UnsupportedError(
            f"solvePnP has no method {method}", hint="use SOLVEPNP_ITERATIVE (0) or SOLVEPNP_SQPNP (8)"
        )
    points = _points(objectPoints, "objectPoints", 3)
    pixels = _points(imagePoints, "imagePoints", 2)
    if len(points) != len(pixels):
        raise UsageError(f"there are {len(points)} objectPoints, but {len(pixels)} imagePoints")
    if len(points) < 3:
        raise UsageError(f"there are {len(points)} points: at least 3 are needed")
    camera = Camera.of(cameraMatrix, distCoeffs)
    guess = argument.flag(useExtrinsicGuess, "useExtrinsicGuess")
    with np.errstate(all="ignore"):
        try:
            pose = _pose(points, pixels, camera, method, (rvec, tvec) if guess else None)
        except np.linalg.LinAlgError:  # numbers beyond what can be computed with
            pose = None
    if pose is None or not (np.isfinite(pose[0]).all() and np.isfinite(pose[1]).all()):
        return False, np.zeros((3, 1)), np.zeros((3, 1))
    return True, rotation_vector(pose[0]).reshape(3, 1), pose[1].reshape(3, 1)


def _pose(points: Matrix, pixels: Matrix, camera: Camera, method: int, guess: tuple[Any, Any] | None) -> Pose | None:
    directions = camera.directions(pixels)
    if method == SOLVEPNP_SQPNP:
        return _least_in_space(points, directions)
    if guess is None:
        return _refined(points, pixels, camera, _first_pose(points, directions))
    turn, shift = argument.matrix(guess[0], "rvec").ravel(), argument.matrix(guess[1], "tvec").ravel()
    if turn.size != 3 or shift.size != 3:
        raise UsageError("rvec and tvec must have three numbers each")
    return _refined(points, pixels, camera, (rotation_matrix(turn), shift))


def _points(value: Any, name: str, width: int) -> Matrix:
    points = argument.matrix(value, name)
    if points.ndim == 3 and 1 in points.shape[:2]:
        points = points.reshape(-1, points.shape[2])
    if points.ndim != 2 or points.shape[1] != width:
        raise UsageError(f"{name} must be points of shape [n, {width}], not {list(np.shape(value))}")
    return points


def _nearest_rotation(matrix: Matrix) -> Matrix:
    u, _, v = np.linalg.svd(matrix)
    if np.linalg.det(u @ v) < 0:
        u[:, 2] = -u[:, 2]
    return np.asarray(u @ v)


def _first_pose(points: Matrix, directions: Matrix) -> Pose:
    """From linear equations: of a homography for points in a plane, else of a projection matrix."""
    middle = points.mean(axis=0)
    _, spread, axes = np.linalg.svd((points - middle).T @ (points - middle))
    if spread[1] <= 1e-12 * max(spread[0], 1e-300):
        raise UsageError("objectPoints lie on one line: their pose is not determined")
    if spread[2] >= 1e-3 * spread[1]:
        if len(points) < 6:
            raise UsageError(
                f"there are {len(points)} points that do not lie in a plane: SOLVEPNP_ITERATIVE needs at least 6",
                hint="use SOLVEPNP_SQPNP",
            )
        return _from_projection(points, directions)
    if len(points) < 4:
        raise UsageError(f"there are {len(points)} points: at least 4 are needed", hint="use SOLVEPNP_SQPNP")
    if axes[2, 0] ** 2 + axes[2, 1] ** 2 < 1e-10:
        axes = np.eye(3)
    if np.linalg.det(axes) < 0:
        axes = -axes
    flat = (points - middle) @ axes.T
    h = _homography(flat[:, :2], directions)
    a, b = np.linalg.norm(h[:, 0]), np.linalg.norm(h[:, 1])
    x, y = h[:, 0] / a, h[:, 1] / b
    rotation = _nearest_rotation(np.c_[x, y, np.cross(x, y)]) @ axes
    return rotation, h[:, 2] * 2 / (a + b) - rotation @ middle


def _homography(source: Matrix, target: Matrix) -> Matrix:
    """[3, 3] with depths that are positive, by linear equations of points near 0 and of size 1."""

    def normalizing(p: Matrix) -> Matrix:
        middle = p.mean(axis=0)
        scale = 1 / max(float(np.abs(p - middle).mean()), 1e-300)
        return np.array([[scale, 0, -scale * middle[0]], [0, scale, -scale * middle[1]], [0, 0, 1]])

    from_source, from_target = normalizing(source), normalizing(target)
    p = np.c_[source, np.ones(len(source))] @ from_source.T
    q = np.c_[target, np.ones(len(target))] @ from_target.T
    zeros = np.zeros_like(p)
    rows = np.r_[np.c_[p, zeros, -q[:, :1] * p], np.c_[zeros, p, -q[:, 1:2] * p]]
    h = np.linalg.svd(rows)[2][-1].reshape(3, 3)
    if len(p) > 4:
        h = _fitted_homography(h, p, q[:, :2])
    h = np.linalg.inv(from_target) @ h @ from_source
    depths = np.c_[source, np.ones(len(source))] @ h[2]
    return np.asarray(-h if depths.sum() < 0 else h)


def _fitted_homography(h: Matrix, p: Matrix, q: Matrix) -> Matrix:
    """The homography near `h` of least squares of the distances between h @ p and q."""
    for _ in range(10):
        mapped = p @ h.T
        w = mapped[:, 2:]
        if (np.abs(w) < 1e-9).any():
            break
        seen = mapped[:, :2] / w
        zeros = np.zeros_like(p)
        j = np.r_[np.c_[p, zeros, -seen[:, :1] * p], np.c_[zeros, p, -seen[:, 1:] * p]] / np.r_[w, w]
        step = np.linalg.lstsq(j, (q - seen).T.ravel(), rcond=1e-9)[0].reshape(3, 3)
        new = h + step
        after = p @ new.T
        if not np.isfinite(after).all() or (np.abs(after[:, 2]) < 1e-9).any():
            break
        if ((after[:, :2] / after[:, 2:] - q) ** 2).sum() >= ((seen - q) ** 2).sum():
            break
        h = new / np.linalg.norm(new)
    return h


def _from_projection(points: Matrix, directions: Matrix) -> Pose:
    p = np.c_[points, np.ones(len(points))]
    zeros = np.zeros_like(p)
    rows = np.r_[np.c_[p, zeros, -directions[:, :1] * p], np.c_[zeros, p, -directions[:, 1:] * p]]
    m = np.linalg.svd(rows.T @ rows)[2][-1].reshape(3, 4)
    if np.linalg.det(m[:, :3]) < 0:
        m = -m
    rotation = _nearest_rotation(m[:, :3])
    return rotation, m[:, 3] * (np.linalg.norm(rotation) / np.linalg.norm(m[:, :3]))


def _refined(points: Matrix, pixels: Matrix, camera: Camera, pose: Pose) -> Pose | None:
    """The pose of least squares of the distances in pixels, near a first one: K. Levenberg, D. Marquardt."""

    def missed(p: Matrix) -> Matrix:
        with np.errstate(all="ignore"):
            return (camera.project(points @ rotation_matrix(p[:3]).T + p[3:]) - pixels).ravel()

    at = np.r_[rotation_vector(pose[0]), pose[1]]
    error = missed(at)
    damping = 1e-3
    for _ in range(STEPS):
        size = np.maximum(np.abs(at), 1e-2) * 1e-6
        columns = [(missed(at + d) - missed(at - d)) / (2 * s) for d, s in zip(np.diag(size), size, strict=True)]
        j = np.array(columns).T
        if not (np.isfinite(j).all() and np.isfinite(error).all()):
            return None
        normal, gradient = j.T @ j, j.T @ error
        while damping < 1e16:
            step = np.linalg.lstsq(normal + damping * np.diag(np.diag(normal)), gradient, rcond=None)[0]
            new = missed(at - step)
            if np.isfinite(new).all() and new @ new <= error @ error:
                break
            damping *= 10
        else:
            break
        at, error = at - step, new
        damping = max(damping / 10, 1e-16)
        if np.linalg.norm(step) <= 1e-12 * np.linalg.norm(at):
            break
    return rotation_matrix(at[:3]), at[3:]


def _least_in_space(points: Matrix, directions: Matrix) -> Pose | None:
    """The pose of least squares of the distances of points from lines of sight, at the depth of the points: the cost of
    G. Terzakis and M. Lourakis (SQPnP, 2020), a quadratic form of the elements of the rotation, for the translation
    that suits it. Its least value is found from several rotations."""
    n = len(points)
    x, y = directions[:, 0], directions[:, 1]
    weights = np.zeros((n, 3, 3))
    weights[:, 0, 0] = weights[:, 1, 1] = 1
    weights[:, 0, 2] = weights[:, 2, 0] = -x
    weights[:, 1, 2] = weights[:, 2, 1] = -y
    weights[:, 2, 2] = x * x + y * y
    spread = np.einsum("ij,nk->nijk", np.eye(3), points).reshape(n, 3, 9)  # R p = spread @ the elements of R
    total = weights.sum(axis=0)
    if np.linalg.cond(total) > 1e14:
        return None
    to_translation = -np.linalg.solve(total, np.einsum("nij,njk->ik", weights, spread))
    moved = spread + to_translation
    cost = np.einsum("nia,nij,njb->ab", moved, weights, moved)
    values, vectors = np.linalg.eigh(cost)
    root = np.sqrt(np.maximum(values, 0))[:, None] * vectors.T  # its square is the cost
    best: tuple[float, Pose] | None = None
    for starts in (_likely_rotations(vectors), _all_around()):
        for start in starts:
            rotation = _descended(root, start)
            elements = rotation.ravel()
            translation = to_translation @ elements
            depth = rotation[2] @ points.mean(axis=0) + translation[2]
            value = float(elements @ cost @ elements)
            if depth > 0 and (best is None or value < best[0] * (1 - 1e-9) - 1e-30):
                best = value, (rotation, translation)
        if best:
            return best[1]
    return None


def _likely_rotations(vectors: Matrix) -> list[Matrix]:
    """Near the elements for which a quadratic form is small."""
    return [_nearest_rotation(sign * v.reshape(3, 3)) for v in vectors.T[:4] for sign in (1, -1)]


def _all_around() -> list[Matrix]:
    """The 24 rotations of a cube."""
    signed = (
        np.eye(3)[list(order)] * np.array(signs)[:, None]
        for order in itertools.permutations(range(3))
        for signs in itertools.product((1, -1), repeat=3)
    )
    return [m for m in signed if np.linalg.det(m) > 0]


def _descended(root: Matrix, rotation: Matrix) -> Matrix:
    """The rotation of a local minimum of |root @ its elements|."""
    damping = 1e-3
    error = root @ rotation.ravel()
    for _ in range(STEPS):
        j = np.array([root @ (g @ rotation).ravel() for g in CROSS]).T
        normal, gradient = j.T @ j, j.T @ error
        while damping < 1e16:
            step = np.linalg.lstsq(
                normal + damping * (np.diag(np.diag(normal)) + 1e-300 * np.eye(3)), gradient, rcond=None
            )[0]
            new_rotation = rotation_matrix(-step) @ rotation
            new = root @ new_rotation.ravel()
            if new @ new <= error @ error:
                break
            damping *= 10
        else:
            break
        rotation, error = new_rotation, new
        damping = max(damping / 10, 1e-16)
        if np.linalg.norm(step) < 1e-13:
            break
    return rotation
