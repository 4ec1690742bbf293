"""TFLite models of builtin ops that TensorFlow's converter writes seldom or no more, written op by op."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .case import Array, case, f32, i32, value, weight

ROWS = f32(2, 5)
IMAGE = f32(1, 5, 7, 3)


def op(name: str, given, make, **more):
    """A model of one op: `make` gives its operands (an input's number, an array, None) and options, by field."""
    case(f"builtin_{name}", given, kinds="builtin", **more)(make)


def node(
    code: str,
    operands: list[Any],
    outputs: list[tuple[int, ...]],
    options: str = "",
    types: Sequence[str] = ("float32",) * 9,
    **fields: Any,
) -> Any:
    """The op, the shapes and types of its results, and the table of its options by field.

    Operands are numbers of inputs, arrays, None, or ("state", *shape): a variable of zeros.
    """
    return code, operands, list(zip(outputs, types, strict=False)), options, fields


for activation, name in {1: "relu", 2: "relu_n1_to_1", 3: "relu6", 4: "tanh"}.items():
    for code in ("ADD", "SUB", "MUL", "DIV"):
        if activation in (1, 3) or (code == "ADD" and activation == 2):
            op(f"{code.lower()}_{name}", [ROWS, f32(5, low=0.5)], lambda c=code, a=activation: node(
                c, [0, 1], [(2, 5)], f"{c.title()}Options", fusedActivationFunction=a
            ))  # fmt: skip
    if activation != 4:
        op(f"fully_connected_{name}", [ROWS], lambda a=activation: node(
            "FULLY_CONNECTED", [0, weight(3, 5), weight(3)], [(2, 3)], "FullyConnectedOptions",
            fusedActivationFunction=a,
        ))  # fmt: skip
        op(f"conv_{name}", [IMAGE], lambda a=activation: node(
            "CONV_2D", [0, weight(4, 3, 3, 3), weight(4)], [(1, 5, 7, 4)], "Conv2DOptions",
            strideH=1, strideW=1, dilationHFactor=1, dilationWFactor=1, fusedActivationFunction=a,
        ))  # fmt: skip
        op(f"average_pool_{name}", [IMAGE], lambda a=activation: node(
            "AVERAGE_POOL_2D", [0], [(1, 2, 3, 3)], "Pool2DOptions",
            padding=1, strideH=2, strideW=2, filterHeight=2, filterWidth=2, fusedActivationFunction=a,
        ))  # fmt: skip
op("fully_connected_no_bias_keeps_axes", [f32(2, 3, 5)], lambda: node(
    "FULLY_CONNECTED", [0, weight(4, 5), None], [(2, 3, 4)], "FullyConnectedOptions", keepNumDims=True
))  # fmt: skip
op("fully_connected_flattens", [f32(2, 3, 5)], lambda: node(
    "FULLY_CONNECTED", [0, weight(4, 15), weight(4)], [(2, 4)], "FullyConnectedOptions"
))  # fmt: skip
op("l2_pool", [IMAGE], lambda: node(
    "L2_POOL_2D", [0], [(1, 3, 4, 3)], "Pool2DOptions", strideH=2, strideW=2, filterHeight=2, filterWidth=2
))  # fmt: skip
op("l2_normalization", [f32(2, 3, 5)], lambda: node("L2_NORMALIZATION", [0], [(2, 3, 5)], "L2NormOptions"))
op("local_response_normalization", [f32(1, 2, 3, 9)], lambda: node(
    "LOCAL_RESPONSE_NORMALIZATION", [0], [(1, 2, 3, 9)], "LocalResponseNormalizationOptions",
    radius=2, bias=1.0, alpha=0.4, beta=0.6,
))  # fmt: skip
op("depthwise_fused_same", [IMAGE], lambda: node(
    "DEPTHWISE_CONV_2D", [0, weight(1, 3, 3, 6), weight(6)], [(1, 3, 4, 6)], "DepthwiseConv2DOptions",
    strideH=2, strideW=2, depthMultiplier=2, dilationHFactor=1, dilationWFactor=1, fusedActivationFunction=3,
))  # fmt: skip
op("transpose_conv_bias_relu", [f32(1, 3, 4, 2)], lambda: node(
    "TRANSPOSE_CONV", [np.int32([1, 6, 8, 5]), weight(5, 3, 3, 2), 0, weight(5)], [(1, 6, 8, 5)],
    "TransposeConvOptions", strideH=2, strideW=2, fusedActivationFunction=1,
))  # fmt: skip
op("concatenation_relu", [ROWS, f32(2, 3)], lambda: node(
    "CONCATENATION", [0, 1], [(2, 8)], "ConcatenationOptions", axis=-1, fusedActivationFunction=0
))  # fmt: skip
op("embedding_lookup", [i32(4, low=0, high=7)], lambda: node("EMBEDDING_LOOKUP", [0, weight(7, 3)], [(4, 3)]))
op("hashtable_lookup", [value([3, 8, 5, 1], np.int32)], lambda: node(
    "HASHTABLE_LOOKUP", [0, np.int32([1, 3, 5]), weight(3, 2)], [(4, 2), (4,)],
    types=["float32", "uint8"],
))  # fmt: skip
op("prelu", [IMAGE], lambda: node("PRELU", [0, weight(1, 1, 3)], [(1, 5, 7, 3)]))
op("relu_0_to_1", [ROWS], lambda: node("RELU_0_TO_1", [0], [(2, 5)]))
op("softmax_beta", [ROWS], lambda: node("SOFTMAX", [0], [(2, 5)], "SoftmaxOptions", beta=0.3))
op("matrix_diag", [ROWS], lambda: node("MATRIX_DIAG", [0], [(2, 5, 5)], "MatrixDiagOptions"))
op("sparse_to_dense", [f32(2)], lambda: node(
    "SPARSE_TO_DENSE", [np.int32([[0, 2], [3, 1]]), np.int32([4, 5]), 0, np.float32(-1)], [(4, 5)],
    "SparseToDenseOptions",
))  # fmt: skip
op("dynamic_update_slice", [f32(5, 7), f32(2, 3), value([4, 1], np.int32)], lambda: node(
    "DYNAMIC_UPDATE_SLICE", [0, 1, 2], [(5, 7)], "DynamicUpdateSliceOptions"
))  # fmt: skip
op("squeeze_all", [f32(1, 3, 1)], lambda: node("SQUEEZE", [0], [(3,)], "SqueezeOptions", squeezeDims=[]))
op("reshape_by_options", [ROWS], lambda: node("RESHAPE", [0], [(5, 2)], "ReshapeOptions", newShape=[5, 2]))
op("strided_slice_offset", [ROWS], lambda: node(
    "STRIDED_SLICE", [0, np.int32([0, 1]), np.int32([2, 3]), np.int32([1, 1])], [(2, 3)], "StridedSliceOptions",
    offset=True,
))  # fmt: skip
for alignment in (False, True):
    op(f"mirror_pad_{alignment:d}", [ROWS], lambda a=alignment: node(
        "MIRROR_PAD", [0, np.int32([[1, 0], [2, 3]])], [(3, 10)], "MirrorPadOptions", mode=int(a)
    ))  # fmt: skip

N, U = 4, 3  # features, units


def _lstm(peephole: bool = False, projection: bool = False, coupled: bool = False, norm: bool = False) -> list[Any]:
    """The operands 1 to 23: four weights of the input, four of the state, peepholes, biases, projection, states."""
    out, w = 2 if projection else U, lambda *shape: weight(*shape, low=-0.6, high=0.6)
    first = None if coupled else ...
    gates = [w(U, N) for _ in range(4)]
    state = [w(U, out) for _ in range(4)]
    holes = [w(U) if peephole else None for _ in range(3)]
    biases = [w(U) for _ in range(4)]
    if first is None:
        gates[0] = state[0] = holes[0] = biases[0] = None
    return [*gates, *state, *holes, *biases, w(2, U) if projection else None, w(2) if projection else None]


def recurrent(name, **more):
    out = 2 if more.get("projection") else U
    op(f"lstm_sequence_{name}", [f32(2, 5, N)], lambda: node(
        "UNIDIRECTIONAL_SEQUENCE_LSTM", [0, *_lstm(**more), ("state", 2, out), ("state", 2, U)], [(2, 5, out)],
        "UnidirectionalSequenceLSTMOptions", fusedActivationFunction=4, timeMajor=False,
    ), steps=2)  # fmt: skip


recurrent("plain")
recurrent("peephole", peephole=True)
recurrent("projection", projection=True)
recurrent("coupled", coupled=True)
recurrent("peephole_projection", peephole=True, projection=True)
op("lstm_sequence_time_major_clipped", [f32(5, 2, N)], lambda: node(
    "UNIDIRECTIONAL_SEQUENCE_LSTM", [0, *_lstm(), ("state", 2, U), ("state", 2, U)], [(5, 2, U)],
    "UnidirectionalSequenceLSTMOptions", fusedActivationFunction=4, timeMajor=True, cellClip=0.4,
), steps=2)  # fmt: skip
op("lstm_step", [f32(2, N)], lambda: node(
    "LSTM", [0, *_lstm(), ("state", 2, U), ("state", 2, U)], [(2, U)], "LSTMOptions", fusedActivationFunction=4
), steps=3)  # fmt: skip
op("rnn_step", [f32(2, N)], lambda: node(
    "RNN", [0, weight(U, N), weight(U, U), weight(U), ("state", 2, U)], [(2, U)], "RNNOptions",
    fusedActivationFunction=4,
), steps=3)  # fmt: skip
op("rnn_sequence", [f32(2, 5, N)], lambda: node(
    "UNIDIRECTIONAL_SEQUENCE_RNN", [0, weight(U, N), weight(U, U), weight(U), ("state", 2, U)], [(2, 5, U)],
    "SequenceRNNOptions", fusedActivationFunction=1,
), steps=2)  # fmt: skip
op("rnn_bidirectional", [f32(2, 5, N)], lambda: node(
    "BIDIRECTIONAL_SEQUENCE_RNN",
    [0, *(side := [weight(U, N), weight(U, U), weight(U), ("state", 2, U)]), *side, None, None, None],
    [(2, 5, 2 * U)], "BidirectionalSequenceRNNOptions", fusedActivationFunction=4, mergeOutputs=True,
))  # fmt: skip
op("lstm_bidirectional", [f32(1, 5, N)], lambda: node(
    "BIDIRECTIONAL_SEQUENCE_LSTM",
    [0, *_lstm(), *_lstm(), *[("state", 1, U)] * 4, *[None] * 9],
    [(1, 5, 2 * U)], "BidirectionalSequenceLSTMOptions", fusedActivationFunction=4, mergeOutputs=True, timeMajor=False,
))  # fmt: skip
op("svdf", [f32(2, N)], lambda: node(
    "SVDF", [0, weight(6, N), weight(6, 5), weight(3), ("state", 2, 30)], [(2, 3)], "SVDFOptions",
    rank=2, fusedActivationFunction=1,
), steps=4)  # fmt: skip


def _detection(**more: Any) -> Any:
    return node("TFLite_Detection_PostProcess", [0, 1, 2], [(1, 7, 4), (1, 7), (1, 7), (1,)], "", max_detections=7,
                max_classes_per_detection=1, nms_score_threshold=0.2, nms_iou_threshold=0.5, num_classes=3,
                y_scale=10.0, x_scale=10.0, h_scale=5.0, w_scale=5.0, **more)  # fmt: skip


ANCHORS = value(np.random.default_rng(7).uniform(0.2, 0.6, (19, 4)))
BOXES, SCORES = f32(1, 19, 4, low=-1, high=1), f32(1, 19, 4, low=0, high=1)
op("detection_postprocess", [BOXES, SCORES, ANCHORS], _detection)
op(
    "detection_postprocess_regular",
    [BOXES, SCORES, ANCHORS],
    lambda: _detection(use_regular_nms=True, detections_per_class=5),
)


def array_of(operand: Any) -> Array | None:
    """The constant that an operand is, or the zeros of a state."""
    if isinstance(operand, tuple):
        return np.zeros(operand[1:], np.float32)
    return None if isinstance(operand, int) else np.asarray(operand)
