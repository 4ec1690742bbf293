"""Weights in the tables of a file without their zeros: those of convolutions of all kinds, whose `quanParameter`
(IDSTQuan) has a form for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from minnow.schema.mnn.form import FileForm, Net, array_of, ops

# The types of ops with the table Convolution2D whose weights the format can compress.
_KINDS = ("Convolution", "ConvolutionDepthwise", "Deconvolution", "DeconvolutionDepthwise")

_SPARSE_SHARE = 0.6
"""A convolution is stored without zeros if more than this share of its weights are zeros, as by MNN's converter. Forms
for zeros of several output channels at the same places end its runtime, if weights were not made for them."""


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
        places = np.flatnonzero(weight).astype(np.uint32)
        if places.size >= (1 - _SPARSE_SHARE) * weight.size:
            continue
        del main["weight"]
        main["quanParameter"] = {
            "type": 0,
            "alpha": weight[places],
            "index": places,
            "weightSize": weight.size,
        }
        counts = {"NNZElement": places.size, "blockNumber": places.size, "sparseBlockKernel": 1, "sparseBlockOC": 1}
        main["sparseParameter"] = {"args": [{"key": key, "i": count} for key, count in sorted(counts.items())]}
