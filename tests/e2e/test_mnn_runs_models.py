"""Real models in MNN's own runtime: the files we write load there and give the numbers of the source."""

from __future__ import annotations

import mnn_oracle
import onnxruntime
import pytest
from e2e.shared_models import models, needs_models

from minnow.converter import read
from minnow.optimizer import optimize
from minnow.runtime.verify.comparison import compare
from minnow.runtime.verify.samples import candidates

pytestmark = [
    needs_models,
    mnn_oracle.needs_mnn,
]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("level", "side_file"), [(0, False), (2, False), (2, True)])
@pytest.mark.parametrize("real", models("onnx", ".onnx"), ids=str)
def test_mnn_gives_the_numbers_of_the_source(real, level, side_file, tmp_path):
    model = read(real.path)
    if real.recorded:
        inputs, outputs = real.recording()
    else:
        session = onnxruntime.InferenceSession(str(real.path), providers=["CPUExecutionProvider"])
        # In the range of pixels: what these two take are images.
        inputs = next(candidates(model, [0])).scaled(255).inputs
        outputs = dict(zip([o.name for o in session.get_outputs()], session.run(None, inputs), strict=True))
    optimize(model, level)
    (answer,) = mnn_oracle.run([mnn_oracle.Job(model, inputs, side_file)], tmp_path)
    assert answer.outputs is not None, answer.log
    for (name, type), got in zip(model.outputs, answer.outputs, strict=True):
        result = compare(name, got.astype(type.dtype.numpy).reshape(outputs[name].shape), outputs[name])
        assert result.passed, str(result)
