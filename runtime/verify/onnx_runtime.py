"""ONNX models as onnxruntime runs them."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from minnow.runtime.verify.unsigned_weights import MOST_BYTES, may_have_signed_weights, with_unsigned_weights
from minnow.schema.ir import DType

Array = np.ndarray[Any, Any]

FOREIGN = frozenset({DType.BF16, DType.F8E4M3FN, DType.F8E4M3FNUZ, DType.F8E5M2, DType.F8E5M2FNUZ})
"""Types of at least one byte that onnxruntime supports, but numpy only with ml_dtypes."""


_UNSIGNED = b"DynamicQuantize"
"""Part of the names of operators that give products unsigned data, which then have signed weights."""
_NODES = 64 << 20
"""So many bytes of a model are searched for operators: its nodes stand before its weights."""


def may_saturate(model: bytes) -> bool:
    """Whether a model, of which this is the file or its beginning, multiplies unsigned data by signed weights."""
    return _UNSIGNED in model


def keep_exact(options: Any) -> None:
    """Makes products of unsigned data and signed weights exact on every processor, by the options of a session.

    Where the processor has no dot products of bytes, onnxruntime adds two of them in 16 bits, which saturate, unless an
    optimization makes the weights unsigned: the level of optimization rises if it must. With signed data that one is
    wrong; it is for models that `may_saturate`. Others have unsigned weights before they are loaded.
    """
    import onnxruntime

    options.add_session_config_entry("session.x64quantprecision", "1")
    least = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    if options.graph_optimization_level.value < least.value:
        options.graph_optimization_level = least


class OnnxRuntime:
    """onnxruntime with its optimizations off but for `keep_exact`, so that it computes what the file says."""

    def __init__(
        self, path: Path, outputs: Mapping[str, DType], foreign: bool = False, content: bytes | None = None
    ) -> None:
        """
        Args:
            path: the model.
            outputs: element types of the outputs by name.
            foreign: an input or output has a type of `FOREIGN`.
            content: the bytes of a model to run instead, a part of the one at `path`; its weights may be in files
                beside it.
        """
        os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
        import onnxruntime

        onnxruntime.disable_telemetry_events()
        levels = onnxruntime.GraphOptimizationLevel
        if content is None:
            with path.open("rb") as file:
                head = file.read(_NODES)
        else:
            head = content
        exact = may_saturate(head)
        if may_have_signed_weights(head) and (content is not None or path.stat().st_size <= MOST_BYTES):
            content = with_unsigned_weights(path.read_bytes() if content is None else content) or content
        del head

        def session(level: Any) -> Any:
            options = onnxruntime.SessionOptions()
            options.graph_optimization_level = level
            options.log_severity_level = 4
            if exact:
                keep_exact(options)
            if content is not None:
                options.add_session_config_entry(
                    "session.model_external_initializers_file_folder_path", str(path.parent)
                )
            return onnxruntime.InferenceSession(content or str(path), options, providers=["CPUExecutionProvider"])

        self.name = f"onnxruntime {onnxruntime.__version__}"
        self._outputs = dict(outputs)
        self._foreign = foreign
        self._plain = partial(session, levels.ORT_DISABLE_ALL)
        self._optimized = partial(session, levels.ORT_ENABLE_ALL)
        self._session = self._plain()

    def close(self) -> None:
        self._session = None

    def reset(self) -> None:
        pass

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        self._session = self._session or self._plain()
        return self._run(self._session, inputs)

    def run_again(self, inputs: Mapping[str, Array]) -> dict[str, Array] | None:
        return self._run(self._optimized(), inputs)

    def _run(self, session: Any, inputs: Mapping[str, Array]) -> dict[str, Array]:
        try:
            if self._foreign:
                return self._run_foreign(session, inputs)
            results = session.run(list(self._outputs), dict(inputs))
        except Exception as e:  # onnxruntime raises a class per status code, none of them public
            raise RuntimeError(str(e)) from e
        return dict(zip(self._outputs, results, strict=True))

    def _run_foreign(self, session: Any, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Uses onnxruntime's own tensor objects: it has no numpy arrays of the types of `FOREIGN`."""
        from onnxruntime import OrtValue

        from minnow.converter.onnx.tensor import code_of

        given = {}
        for name, array in inputs.items():
            dtype = DType.of(array.dtype)
            bits = np.ascontiguousarray(array).view(f"u{dtype.size}") if dtype in FOREIGN else array
            given[name] = OrtValue.ortvalue_from_numpy_with_onnx_type(bits, code_of(dtype))
        results = {}
        for (name, dtype), value in zip(
            self._outputs.items(), session.run_with_ort_values(list(self._outputs), given), strict=True
        ):
            if dtype not in FOREIGN:
                results[name] = value.numpy()
                continue
            shape = tuple(value.shape())
            data = ctypes.string_at(value.data_ptr(), int(np.prod(shape)) * dtype.size)
            results[name] = np.frombuffer(data, dtype.numpy).reshape(shape)
        return results
