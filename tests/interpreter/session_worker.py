"""A program for MNN's sessions, which MNN and Minnow run alike.

    python session_worker.py MODEL RESULTS.npz

MODEL has one input of the shape [1, 3, 12, 10]. What the calls give goes to RESULTS.npz, by the name of the call.
"""

import sys

import MNN
import numpy as np

rng = np.random.default_rng(5)
image = rng.random((1, 3, 12, 10), dtype=np.float32)
path, target = sys.argv[1:]
found = {}


def numbers(tensor):
    """Its numbers, through a tensor on the host, as programs copy them."""
    shape = tensor.getShape()
    host = MNN.Tensor(shape, tensor.getDataType(), np.ones(shape, np.float32), tensor.getDimensionType())
    assert tensor.copyToHostTensor(host)
    return np.array(host.getData(), np.float32).reshape(shape)


net = MNN.Interpreter(path)
net.setSessionMode(9)
net.setSessionHint(0, 20)
runtime, exists = MNN.Interpreter.createRuntime(({"backend": "CPU", "precision": "low"},))
found["exists"] = np.array(exists)
session = net.createSession({"backend": "CPU", "numThread": 2, "precision": "high"}, runtime)
given = net.getSessionInput(session)
found["input shape"] = np.array(given.getShape())
found["input order"] = np.array(given.getDimensionType())
found["input is float"] = np.array(given.getDataType() == MNN.Halide_Type_Float)
found["backend"] = np.array(net.getSessionInfo(session, 2) in (0, 13))
found["names"] = np.array([*net.getSessionInputAll(session), *net.getSessionOutputAll(session)])

caffe = MNN.Tensor((1, 3, 12, 10), MNN.Halide_Type_Float, image, MNN.Tensor_DimensionType_Caffe)
given.copyFrom(caffe)
found["code"] = np.array(net.runSession(session))
output = net.getSessionOutput(session)
found["output shape"] = np.array(output.getShape())
found["output"] = numbers(output)
found["output by name"] = numbers(net.getSessionOutput(session, next(iter(net.getSessionOutputAll(session)))))
found["output numpy"] = np.array(output.getNumpyData(), np.float32).ravel()
found["output tuple"] = np.array(output.getData(), np.float32)

# The same numbers with channels last, not contiguous, as numbers of Python, and as bytes.
last = np.ascontiguousarray(image.transpose(0, 2, 3, 1))
given.copyFrom(MNN.Tensor((1, 12, 10, 3), MNN.Halide_Type_Float, last, MNN.Tensor_DimensionType_Tensorflow))
net.runSession(session)
found["from channels last"] = numbers(output)
given.copyFrom(
    MNN.Tensor((1, 3, 12, 10), MNN.Halide_Type_Float, tuple(image.ravel().tolist()), MNN.Tensor_DimensionType_Caffe)
)
net.runSession(session)
found["from a tuple"] = numbers(output)
moved = last[0].transpose(2, 0, 1).astype(np.float32)  # in the order of its memory it is still channels last
given.copyFrom(MNN.Tensor((1, 3, 12, 10), MNN.Halide_Type_Float, moved, MNN.Tensor_DimensionType_Caffe))
net.runSession(session)
found["from a transposed array"] = numbers(output)

host = MNN.Tensor(output, MNN.Tensor_DimensionType_Caffe)
found["host shape"] = np.array(host.getShape())
found["host of input"] = np.array(MNN.Tensor(given, MNN.Tensor_DimensionType_Tensorflow).getShape())
found["zeros"] = np.array(MNN.Tensor((2, 3), MNN.Halide_Type_Int, MNN.Tensor_DimensionType_Caffe).getData())
found["ints"] = np.array(
    MNN.Tensor((2, 2), MNN.Halide_Type_Int, (1, 2, 3, 4), MNN.Tensor_DimensionType_Caffe).getData()
)

net.resizeTensor(given, (2, 3, 12, 10))
net.resizeSession(session)
found["resized"] = np.array([*given.getShape(), *output.getShape()])
twice = np.concatenate([image, image[:, :, ::-1]])
given.copyFrom(MNN.Tensor((2, 3, 12, 10), MNN.Halide_Type_Float, twice, MNN.Tensor_DimensionType_Caffe))

seen = []


def begin(tensors, name):
    seen.append(("begin", name, [t.getShape() for t in tensors]))
    return True


def end(tensors, name):
    seen.append(("end", name, [t.getShape() for t in tensors]))
    return True


found["watched"] = np.array(net.runSessionWithCallBack(session, begin, end))
found["output of two"] = numbers(output)
assert {kind for kind, _, _ in seen} == {"begin", "end"}
assert len(seen) % 2 == 0
infos = []
net.runSessionWithCallBackInfo(session, lambda t, i: True, lambda t, i: infos.append(i.getType()) or True)
found["has convolution"] = np.array("Convolution" in infos)
found["stopped"] = np.array(net.runSessionWithCallBack(session, lambda t, n: True, lambda t, n: False))
found["version"] = np.array(len(net.getModelVersion()) > 0)
np.savez(target, **found)
