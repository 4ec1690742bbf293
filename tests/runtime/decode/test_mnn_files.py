"""Real files that MNN's own converter wrote: they give what the ONNX models give that they came from."""

from __future__ import annotations

import os

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

import numpy as np
import onnxruntime
import pytest
from e2e.shared_models import SHARED, needs_models

import minnow
from minnow.schema.errors import UnsupportedError

pytestmark = needs_models
PAIRS = {
    "RFB-320.mnn": "version-RFB-320_without_postprocessing.onnx",
    "slim-320.mnn": "version-slim-320_simplified.onnx",
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", PAIRS)
def test_gives_what_its_source_gives(name, threads):
    session = minnow.load(SHARED / "mnn" / "ultraface" / name, threads=threads)
    assert [str(i) for i in session.inputs] == ["input: float32[1, 3, 240, 320]"]
    assert {o.name: o.shape for o in session.outputs} == {"scores": (1, 4420, 2), "boxes": (1, 4420, 4)}
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    source = onnxruntime.InferenceSession(SHARED / "onnx" / "ultraface" / PAIRS[name], options)
    rng = np.random.default_rng(0)
    for _ in range(2):
        x = rng.standard_normal((1, 3, 240, 320)).astype(np.float32)
        want = dict(zip([o.name for o in source.get_outputs()], source.run(None, {"input": x}), strict=True))
        for output, got in session.run({"input": x}).items():
            np.testing.assert_allclose(got, want[output], rtol=1e-4, atol=5e-5)


def test_an_int8_model_is_refused_with_all_reasons():
    with pytest.raises(UnsupportedError) as caught:
        minnow.load(SHARED / "mnn" / "ultraface" / "RFB-320-quant-KL-5792.mnn")
    assert len(caught.value.items) == 68
    assert "ConvInt8 '245'" in caught.value.items
