"""The numpy reference of counting n-grams against onnxruntime, on all its samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx_oracle import Array, OnnxNode, cases, compare

from minnow.schema.errors import ModelError
from minnow.schema.ir import DType, TensorType
from minnow.schema.ops import Arg, get


def tf_idf(x: Array, pool: Array, starts: Array, places: Array, weights: Array | None = None, **attrs: Any) -> Any:
    # onnxruntime takes no empty rows.
    if not x.size:
        return [np.zeros((*x.shape[:-1], places.max() + 1), np.float32)]
    given = {
        "mode": attrs["mode"],
        "min_gram_length": attrs["shortest"],
        "max_gram_length": attrs["longest"],
        "max_skip_count": attrs["most_skipped"],
        "pool_int64s": pool.tolist(),
        "ngram_counts": starts.tolist(),
        "ngram_indexes": places.tolist(),
    }
    if weights is not None:
        given["weights"] = weights.tolist()
    # The reference takes the weights in the order of the results, and not of the n-grams.
    return OnnxNode("TfIdfVectorizer", (x.reshape(x.shape or 1),), given, by_onnxruntime=True)


@pytest.mark.parametrize(("op", "row", "samples"), cases({"TfIdf": tf_idf}))
def test_reference(op, row, samples):
    for sample in samples:
        compare(op, row, sample)


@pytest.mark.parametrize(
    ("pool", "starts", "places", "message"),
    [
        ([1, 2, 3], [1], [0, 1], "must ascend"),
        ([1, 2, 3], [0, 5], [0, 1, 2], "must ascend"),
        ([1, 2, 3], [0], [0, -1, 2], "places"),
        ([1, 2, 3], [0], [0, 1], "there are 3 n-grams, and 2 places"),
    ],
)
def test_a_pool_that_makes_no_sense_is_refused(pool, starts, places, message):
    arrays = [np.array(v, np.int64) for v in (pool, starts, places)]
    args = [Arg(TensorType(DType.I64, (5,))), *(Arg(TensorType(DType.I64, a.shape), a) for a in arrays)]
    with pytest.raises(ModelError, match=message):
        get("TfIdf").infer(args, {"mode": "TF", "shortest": 1, "longest": 2}, 1)
