"""Optimizers: they change the parameters of a module so that a loss becomes smaller. MNN's `optim`.

from minnow import expr, nn, optim
expr.lazy_eval(True)
optimizer = optim.ADAM(net, learning_rate=0.001)
loss = nn.loss.cross_entropy(net.forward(images), targets)
optimizer.step(loss)
"""

from minnow.optim.optimizer import ADAM, L1, L1L2, L2, SGD, Adam, AdamW, Grad, Optimizer, Regularization_Method
from minnow.optim.schedule import CosineSchedule, ExponentialSchedule, StepSchedule

__all__ = [
    "ADAM", "L1", "L1L2", "L2", "SGD", "Adam", "AdamW", "CosineSchedule", "ExponentialSchedule", "Grad", "Optimizer",
    "Regularization_Method", "StepSchedule",
]  # fmt: skip
