"""Gradients as Vars, which are saved as a graph."""

import MNN
import numpy as np

F = MNN.expr
F.lazy_eval(True)
F.set_lazy_mode(1)
x = F.placeholder([4], F.NCHW)
x.name = "x"
weight = F.const([0.3, 0.1, -0.3, 0.4], [4])
weight.fix_as_trainable()
weight.name = "weight"
loss = x * weight * weight
loss.name = "loss"
difference = F.placeholder(loss.shape, loss.data_format, loss.dtype)
difference.name = "loss_diff"
difference.write([1.0, 1.0, 1.0, 1.0])
difference.fix_as_const()
parameters, gradients = MNN.optim.Grad().grad([loss], [difference], [weight])
for parameter, gradient in zip(parameters, gradients):
    gradient.name = "grad::" + parameter.name
x.write([1.0, 2.0, 3.0, 4.0])
assert np.allclose(gradients[0].read(), [0.6, 0.4, -1.8, 3.2])
F.save(gradients, "gradient.mnn")
found = F.load_as_dict("gradient.mnn")
assert "grad::weight" in found
