"""Scan of opset 8, which has a batch axis in front."""

from __future__ import annotations

import numpy as np

from minnow.converter.onnx.frontend import frontend as onnx
from minnow.converter.onnx.operand import static_dim
from minnow.schema.errors import UnsupportedError


@onnx.op("Scan", until=8)
def _(b, lens, *operands, body, directions=(), num_scan_inputs, node):
    """One Scan of opset 9 per sample: samples share nothing."""
    if lens is not None:
        raise UnsupportedError(
            "Scan with sequence_lens is not supported",
            why="from opset 9 on Scan has no lengths",
            hint="export the model with a newer opset",
        )
    mapping = onnx.find("Scan", 9)
    assert mapping is not None
    samples = []
    for i in range(static_dim(operands[0].type, 0, "the batch of Scan")):
        one = [b.Gather(v, np.array(i, np.int64), axis=0) for v in operands]
        samples.append(mapping.function(
            b, *one, body=body, num_scan_inputs=num_scan_inputs, scan_input_directions=directions, node=node
        ))  # fmt: skip
    stacked = [[b.Unsqueeze(v, axes=(0,)) for v in results] for results in zip(*samples, strict=True)]
    return tuple(b.Concat(*parts, axis=0) for parts in stacked)
