"""Modules from files and layers, which MNN and Minnow run alike.

    python module_worker.py MODEL RESULTS.npz

MODEL has one input of the shape [1, 3, 12, 10]. What the calls give goes to RESULTS.npz, by the name of the call.
"""

import sys

import MNN
import numpy as np

F, nn = MNN.expr, MNN.nn
rng = np.random.default_rng(5)
image = rng.random((1, 3, 12, 10), dtype=np.float32)
last = np.ascontiguousarray(image.transpose(0, 2, 3, 1))
path, target = sys.argv[1:]
found = {}


def keep(name, var):
    found[name] = np.array(F.convert(var, F.NCHW).read(), np.float32).reshape(var.shape)


def const(array, layout=F.NCHW):
    return F.const(array, list(array.shape), layout)


manager = nn.create_runtime_manager(({"backend": "CPU", "precision": "high", "numThread": 1},))
manager.set_mode(9)
manager.set_hint(0, 20)
manager.set_hint(14, [0])
net = nn.load_module_from_file(path, ["data"], ["prob"], runtime_manager=manager)
info = net.get_info()
found["names"] = np.array([*info["inputNames"], *info["outputNames"], info["bizCode"]])
keep("array of NCHW", net.forward(const(image)))
keep("called", net(const(image)))
keep("a list", net.forward([const(image)])[0])
keep("onForward", net.onForward([const(image)])[0])
keep("converted", net.forward(F.convert(const(last, F.NHWC), F.NC4HW4)))
var = F.placeholder([1, 12, 10, 3], F.NHWC)
var.write(last)
keep("written", net.forward(F.convert(var, F.NC4HW4)))
keep("two", net.forward(const(np.concatenate([image, image * 2]))))
keep("a tensor between nodes", nn.load_module_from_file(path, [], ["conv"]).forward(const(image)))
keep(
    "another thread number",
    nn.load_module_from_file(path, [], [], thread_num=2, shape_mutable=False).forward(const(image)),
)


def layer(name, module, *inputs):
    numbers = np.random.default_rng(7)
    parameters = [numbers.random(p.shape, dtype=np.float32) + 0.1 for p in module.parameters]
    assert module.load_parameters([const(p) for p in parameters])
    found[f"{name} parameters"] = np.array([str(p.shape) for p in module.parameters])
    for mode in (True, False):
        module.train(mode)
        for i, x in enumerate(inputs):
            keep(f"{name} {mode} {i}", module.forward(x))
    for i, p in enumerate(module.parameters):
        found[f"{name} parameter {i}"] = np.array(p.read(), np.float32).reshape(p.shape)


layer("conv", nn.conv(3, 4, [3, 2]), const(image), const(last, F.NHWC))
layer("strided", nn.conv(3, 4, [3, 3], [2, 1], [1, 2], [1, 1], False, False, F.CAFFE), const(image))
layer("same", nn.conv(3, 4, [3, 3], stride=[2, 2], padding_mode=F.SAME), const(image))
layer("dilated", nn.conv(3, 4, [3, 3], dilation=[2, 1]), const(image))
layer("depthwise", nn.conv(3, 3, [3, 3], depthwise=True), const(image))
layer("linear", nn.linear(10, 4), const(image), const(image[0, 0]))
layer("without bias", nn.linear(10, 4, bias=False), const(image[0, 0]))
layer("norm", nn.batch_norm(3, momentum=0.9), const(image))
layer("norm of rows", nn.batch_norm(10, dims=2), const(image[0, 0]))
np.savez(target, **found)
