"""Weights in the tables of a file without their zeros: those of convolutions of all kinds, whose `quanParameter`
(IDSTQuan) has a form for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from minnow.schema.mnn.form import FileForm, Net, array_of, ops
from minnow.schema.ops.sparse_weights import without_zeros

# The types of ops with the table Convolution2D whose weights the format can compress.
_KINDS = ("Convolution", "ConvolutionDepthwise", "Deconvolution", "DeconvolutionDepthwise")


_SPARSE_SHARE = 0.6
"""A convolution is stored without zeros if more than this share of its weights are zeros, as by MNN's converter."""


def _layers(net: Net) -> Iterator[tuple[Net, npt.NDArray[Any]]]:
    """The tables of all convolutions that have float weights, with these: one row for each output channel."""
    for op in ops(net):
        main = op.get("main")
        if op.get("type") not in _KINDS or not isinstance(main, dict) or "quanParameter" in main:
            continue
        weight = main.get("weight")
        if weight is not None and int(np.prod(weight.shape, dtype=object)):
            yield main, array_of(weight).astype(np.float32, copy=False).reshape(-1)


def sparse(net: Net, form: FileForm) -> None:
    """Stores the places and values of the weights that are not 0, for layers with enough zeros."""
    for main, weight in _layers(net):
        zeros = weight.size - np.count_nonzero(weight)
        if zeros > _SPARSE_SHARE * weight.size and _is_one_group(main):
            del main["weight"]
            main |= without_zeros(weight)


def _is_one_group(main: Net) -> bool:
    """Whether the kernels see all inputs: MNN's runtime reads lists of weights of several groups wrongly."""
    common = main.get("common") or {}
    return int(common.get("group", 1)) <= 1
