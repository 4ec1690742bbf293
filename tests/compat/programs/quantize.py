"""Training with rounding of the weights of a file's graph, and a file of the result."""

import sys

import MNN
import numpy as np

nn = MNN.nn
F = MNN.expr
F.lazy_eval(True)
rng = np.random.default_rng(0)


class Photos(MNN.data.Dataset):
    def __getitem__(self, index):
        pixels = rng.random((224, 224, 3)) + (1 if index % 2 else -2)
        image = F.const(pixels.flatten().tolist(), [224, 224, 3], F.data_format.NHWC, F.dtype.float)
        return [image], [F.const([index % 10], [], F.data_format.NHWC, F.dtype.int)]

    def __len__(self):
        return 6


loader = MNN.data.DataLoader(Photos(), batch_size=4, shuffle=True)
found = F.load_as_dict(sys.argv[1])
ends = F.get_inputs_and_outputs(found)
print("inputs", *ends[0].keys(), "outputs", *ends[1].keys())
net = nn.load_module([found["data"]], [found["prob"]], True)
before = F.placeholder([1, 3, 224, 224], F.NCHW)
before.write(np.ones((1, 3, 224, 224), np.float32))
want = np.array(net.forward(before).read())
opt = MNN.optim.SGD(net, 1e-5, 0.9, 0.00004)
nn.compress.train_quant(net, quant_bits=8)
net.train(True)
loader.reset()
for _ in range(loader.iter_number):
    inputs, (label,) = loader.next()
    predicts = net.forward(inputs)
    target = F.one_hot(F.cast(label, F.int), 10, 1, 0)
    loss = nn.loss.cross_entropy(predicts[0], target)
    opt.step(loss)
    opt.step(F.const([0.0], []))
    for predict in predicts:
        predict.read()
net.train(False)
image = F.placeholder([1, 3, 224, 224], F.NC4HW4)
image.name = "data"
predicts = net.forward([image])
predicts[0].name = "prob"
F.save(predicts, "quantized.mnn")
again = nn.load_module_from_file("quantized.mnn", ["data"], ["prob"])
got = np.array(again.forward(F.const(np.ones((1, 3, 224, 224), np.float32), [1, 3, 224, 224], F.NCHW)).read())
print("difference", abs(got - want).max())
assert abs(got - want).max() < 0.1
