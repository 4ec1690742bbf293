"""Runs Caffe nets with OpenCV, if it computes all of their layers and parameters in the same way as Caffe."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from minnow.schema.ir import Model

Array = np.ndarray[Any, Any]

_WINDOW = {"kernel_size", "kernel_h", "kernel_w", "stride", "stride_h", "stride_w", "pad", "pad_h", "pad_w"}
_CONVOLUTION = _WINDOW | {"num_output", "bias_term", "group"}

# By layer type, the parameters that OpenCV treats as Caffe does; a net with any other is not compared with it.
# Measured: it lacks other layers and parameters, or computes them differently (k of LRN, eps of MVN, axes of Scale,
# ties in ArgMax).
_ALIKE: dict[str, set[str]] = {
    **{type: set() for type in ("AbsVal", "BNLL", "Sigmoid", "TanH", "Split")},
    "Input": {"shape"},
    "ReLU": {"negative_slope"},
    "ELU": {"alpha"},
    "PReLU": {"channel_shared"},
    "Power": {"power", "scale", "shift"},
    "Exp": {"base", "scale", "shift"},
    "Dropout": {"dropout_ratio"},
    "Convolution": _CONVOLUTION | {"dilation"},
    "Deconvolution": _CONVOLUTION,
    "InnerProduct": {"num_output", "bias_term", "axis"},
    "Pooling": _WINDOW | {"pool", "global_pooling"},
    "LRN": {"local_size", "alpha", "beta"},
    "BatchNorm": {"use_global_stats", "moving_average_fraction", "eps"},
    "Scale": {"bias_term"},
    "Softmax": {"axis"},
    "Concat": {"axis"},
    "Slice": {"axis", "slice_point"},
    "Flatten": {"axis", "end_axis"},
    "Permute": {"order"},
    "Reshape": {"shape"},
    "Eltwise": {"operation", "coeff"},
}


class OpenCV:
    """OpenCV's dnn, with its own reader of Caffe's files."""

    def __init__(self, path: Path, model: Model, weights: str = "") -> None:
        """
        Raises:
            ValueError: OpenCV computes a layer of the net differently from Caffe.
        """
        import cv2

        from minnow.converter.caffe.reader import attributes
        from minnow.converter.caffe.source import open_source

        source = open_source(path, weights)
        if source.weights == Path(source.where):
            raise ValueError("it needs a definition (.prototxt) beside the weights")
        for layer in source.layers:
            strange = sorted(set(attributes(layer)) - _ALIKE.get(layer.type, set()))
            if layer.type not in _ALIKE or strange:
                raise ValueError(f"{layer.type} {' '.join(strange)}".rstrip() + " is computed differently there")
        self.name = f"OpenCV {cv2.__version__}"
        self._files = (source.where, "" if source.weights is None else str(source.weights))
        # OpenCV names a result by its layer, that of a convolution by its top; of equal names the last one counts.
        places = {}
        for layer in source.layers:
            for i, top in enumerate(layer.top):
                places[top] = (top, 0) if layer.type == "Convolution" else (layer.name, i)
        if missing := [name for name, _ in model.user_outputs if name not in places]:
            raise ValueError(f"'{missing[0]}' has another name there")
        self._places = [places[name] for name, _ in model.user_outputs]
        self._outputs = [name for name, _ in model.user_outputs]
        self._net: Any = None
        self._try(model)

    def _open(self) -> Any:
        import cv2

        cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)  # Minnow reports its errors
        self._net = self._net or cv2.dnn.readNetFromCaffe(*self._files)
        return self._net

    def _try(self, model: Model) -> None:
        """Runs it once if all shapes are static. Raises ValueError if it fails or gives other shapes."""
        if not all(type.is_static for _, type in model.user_inputs):
            self._open()
            return
        try:
            found = self.run({name: np.zeros(type.static_shape, np.float32) for name, type in model.user_inputs})
        except RuntimeError as e:
            raise ValueError(f"it cannot run the net: {str(e).splitlines()[0]}") from None
        for name, type in model.user_outputs:
            if type.is_static and type.static_shape != found[name].shape:
                raise ValueError(f"'{name}' has the shape {found[name].shape} there")

    def close(self) -> None:
        self._net = None

    def reset(self) -> None:
        pass

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        import cv2

        net = self._open()
        try:
            for name, array in inputs.items():
                net.setInput(np.ascontiguousarray(array, np.float32), name)
            found = net.forwardAndRetrieve([layer for layer, _ in self._places])
        except cv2.error as e:
            raise RuntimeError(str(e)) from e
        tops = list(zip(self._outputs, self._places, found, strict=True))
        if short := [name for name, (_, i), arrays in tops if i >= len(arrays)]:
            raise RuntimeError(f"there is no '{short[0]}'")
        return {name: np.array(arrays[i]) for name, (_, i), arrays in tops}

    def run_again(self, inputs: Mapping[str, Array]) -> dict[str, Array] | None:
        return None
