"""N-grams."""

from __future__ import annotations

import numpy as np

from minnow.converter.onnx.frontend import frontend as onnx
from minnow.schema.errors import UnsupportedError


@onnx.op("TfIdfVectorizer")
def _(b, x, *, mode, min_gram_length, max_gram_length, max_skip_count, ngram_counts, ngram_indexes, pool_int64s=(),
      pool_strings=(), weights=()):  # fmt: skip
    if pool_strings:
        raise UnsupportedError(
            "TfIdfVectorizer of strings is not supported", hint="turn text into numbers before the model"
        )
    pool = (np.asarray(v, np.int64) for v in (pool_int64s, ngram_counts, ngram_indexes))
    return b.TfIdf(x, *pool, np.asarray(weights, np.float32) if len(weights) else None, mode=mode,
                   shortest=min_gram_length, longest=max_gram_length, most_skipped=max_skip_count)  # fmt: skip
