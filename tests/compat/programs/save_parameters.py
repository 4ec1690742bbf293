"""Saves the parameters of a module, and loads them into another one of the same definition."""

import MNN
import numpy as np

nn = MNN.nn
F = MNN.expr


class Net(nn.Module):
    def __init__(self):
        super(Net, self).__init__()
        self.conv = nn.conv(1, 6, [3, 3])
        self.fc1 = nn.linear(54, 20)
        self.fc2 = nn.linear(20, 10)
        self.step = F.const([10], [], F.NCHW, F.int)
        self.lr = F.const([0.0004], [], F.NCHW, F.float)

    def forward(self, x):
        x = F.relu(self.conv(x))
        x = F.max_pool(x, [2, 2], [2, 2])
        x = F.convert(x, F.NCHW)
        x = F.reshape(x, [0, -1])
        x = F.relu(self.fc1(x))
        return F.softmax(self.fc2(x), 1)


one = Net()
F.save(one.parameters, "net.snapshot")
two = Net()
two.load_parameters(F.load_as_list("net.snapshot"))
image = F.const(np.random.rand(2, 1, 8, 8).astype(np.float32), [2, 1, 8, 8], F.NCHW)
assert np.array_equal(np.array(one.forward(image).read()), np.array(two.forward(image).read()))
assert two.step.read() == 10
assert abs(float(two.lr.read()) - 0.0004) < 1e-9
