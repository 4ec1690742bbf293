"""Trains a classifier on batches of a data set, and writes it after each epoch."""

import MNN
import numpy as np

nn = MNN.nn
F = MNN.expr
rng = np.random.default_rng(0)


class Squares(MNN.data.Dataset):
    """Images with a bright square on one of four sides."""

    def __init__(self, count):
        super(Squares, self).__init__()
        self.labels = rng.integers(0, 4, count)
        self.data = rng.random((count, 12, 12)) * 0.5
        for image, label in zip(self.data, self.labels):
            y, x = divmod(label, 2)
            image[6 * y + 1 : 6 * y + 5, 6 * x + 1 : 6 * x + 5] += 0.5

    def __getitem__(self, index):
        image = F.const(self.data[index].flatten().tolist(), [1, 12, 12], F.data_format.NCHW)
        label = F.const([self.labels[index]], [], F.data_format.NCHW, F.dtype.uint8)
        return [image], [label]

    def __len__(self):
        return len(self.labels)


class Net(nn.Module):
    def __init__(self):
        super(Net, self).__init__()
        self.conv1 = nn.conv(1, 8, [3, 3])
        self.conv2 = nn.conv(8, 8, [2, 2])
        self.norm = nn.batch_norm(8)
        self.drop = nn.dropout(0.1)
        self.fc1 = nn.linear(32, 16)
        self.fc2 = nn.linear(16, 4)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.max_pool(x, [2, 2], [2, 2])
        x = F.relu(self.norm(self.conv2(x)))
        x = F.max_pool(x, [2, 2], [2, 2])
        x = F.convert(x, F.NCHW)
        x = F.reshape(x, [0, -1])
        x = self.drop(F.relu(self.fc1(x)))
        return F.softmax(self.fc2(x), 1)


def test(net, loader):
    net.train(False)
    loader.reset()
    correct = 0
    for _ in range(loader.iter_number):
        (data,), (label,) = loader.next()
        predict = F.argmax(net.forward(data), 1)
        correct += np.sum(np.array(label.read()) == np.array(predict.read()))
    return correct / loader.size


F.lazy_eval(True)
F.set_thread_number(2)
net = Net()
loader = MNN.data.DataLoader(Squares(256), batch_size=32, shuffle=True)
check = MNN.data.DataLoader(Squares(100), batch_size=30, shuffle=False)
opt = MNN.optim.SGD(net, 0.05, 0.9, 0.0005)
for epoch in range(6):
    net.train(True)
    loader.reset()
    for _ in range(loader.iter_number):
        (data,), (label,) = loader.next()
        target = F.one_hot(F.cast(label, F.int), 4, 1, 0)
        loss = nn.loss.cross_entropy(net.forward(data), target)
        opt.step(loss)
    print("loss", loss.read())
    F.save(net.parameters, "temp.snapshot")
    opt.learning_rate = opt.learning_rate * 0.9
    net.train(False)
    predict = net.forward(F.placeholder([1, 1, 12, 12], F.NC4HW4))
    F.save([predict], "%d.mnn" % epoch)
    accuracy = test(net, check)
    print("accuracy", accuracy)
assert accuracy > 0.9
