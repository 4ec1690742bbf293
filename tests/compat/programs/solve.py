"""Solves an equation by gradient descent, and writes the update of a step as a graph."""

import MNN
import MNN.numpy as np

nn = MNN.nn
F = MNN.expr
F.lazy_eval(True)


class Net(nn.Module):
    """What is paid each month for a loan at a rate."""

    def __init__(self):
        super(Net, self).__init__()
        rate = np.array([0.001])
        rate.fix_as_trainable()
        self.rate = rate

    def forward(self, times, total):
        monthly = self.rate / 12.0
        growth = np.power(monthly + np.array([1.0]), times)
        return (growth * monthly * total) / (growth - np.array([1.0]))


model = Net()
opt = MNN.optim.SGD(model, 0.0000000001, 0.9, 0.0005)
for _ in range(300):
    times, total, paid = np.array([60.0]), np.array([630000.0]), np.array([12439.12])
    difference = paid - model.forward(times, total)
    loss = difference * difference
    opt.step(loss)
computed = model.forward(np.array([60.0]), np.array([630000.0]))
print("rate:", model.rate, "; computed:", computed)
assert abs(float(computed) - 12439.12) < 60

change = np.array([1.0])
change.fix_as_placeholder()
change.name = "change"
rates, gradients = opt.grad([model.forward(times, total)], [change], [model.rate])
step = np.array([0.0000001])
step.fix_as_placeholder()
step.name = "step"
rates, updates = opt.get_update_graph(rates, gradients, [step])
opt.save_graph("update.mnn", [], rates, updates)
assert F.load_as_dict("update.mnn")
