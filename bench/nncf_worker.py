"""Quantizes a model with NNCF, runs it in OpenVINO, and writes the outputs. `int8.py` starts it with another Python.

    PYTHON bench/nncf_worker.py MODEL INPUTS.npz OUTPUTS.npz [fast|mixed|accurate]

INPUTS.npz has the inputs to calibrate with (c0, c1, ...) and those to run (t0, t1, ...); OUTPUTS.npz gets the outputs
of run K as K/0, K/1, ... in the order of the model. Without a mode the model stays float. Both packages tell their
makers that they were used: NNCF not with the variable that is set here, and `int8.py` starts this without a network.
"""

import os
import sys

os.environ["NNCF_CI"] = "1"

import numpy as np
import openvino as ov

MODES = {
    "fast": {"preset": "performance", "fast_bias_correction": True},
    "mixed": {"preset": "mixed", "fast_bias_correction": True},
    "accurate": {"preset": "mixed", "fast_bias_correction": False},
}


def main(source: str, inputs: str, outputs: str, mode: str = "") -> None:
    data = np.load(inputs)
    calibration, test = ([data[n] for n in data.files if n[0] == kind] for kind in "ct")
    core = ov.Core()
    model = ov.convert_model(source)
    model.reshape({model.input(0).get_any_name(): test[0].shape})
    if mode:
        import nncf

        how = dict(MODES[mode])
        preset = nncf.QuantizationPreset(how.pop("preset"))
        model = nncf.quantize(model, nncf.Dataset(calibration), preset=preset, subset_size=len(calibration), **how)
    options = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
    compiled = core.compile_model(model, "CPU", options)
    found = {}
    for k, x in enumerate(test):
        for i, array in enumerate(compiled([x]).values()):
            found[f"{k}/{i}"] = array
    np.savez(outputs, **found)


if __name__ == "__main__":
    main(*sys.argv[1:])
