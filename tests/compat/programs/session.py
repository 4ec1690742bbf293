"""A classifier in a session, with settings as for a GPU; the picture by OpenCV."""

import sys

import cv2
import MNN
import numpy as np


def host(tensor):
    shape = tensor.getShape()
    data = np.ones(shape, dtype=np.float32)
    return MNN.Tensor(shape, tensor.getDataType(), data, tensor.getDimensionType())


net = MNN.Interpreter(sys.argv[1])
net.setCacheFile(".cache")
net.setSessionMode(9)
net.setSessionHint(0, 20)
config = {}
config["backend"] = "OPENCL"
config["precision"] = "high"
session = net.createSession(config)
print("backend %d" % net.getSessionInfo(session, 2))
image = cv2.imread(sys.argv[2])
image = image[..., ::-1]
image = cv2.resize(image, (224, 224))
image = image - (103.94, 116.78, 123.68)
image = image * (0.017, 0.017, 0.017)
image = image.transpose((2, 0, 1))
image = image.astype(np.float32)
given = MNN.Tensor((1, 3, 224, 224), MNN.Halide_Type_Float, image, MNN.Tensor_DimensionType_Caffe)
tensor = net.getSessionInput(session)
net.resizeTensor(tensor, (1, 3, 224, 224))
net.resizeSession(session)
tensor.copyFrom(given)
net.runSession(session)
output = net.getSessionOutput(session)
result = host(output)
output.copyToHostTensor(result)
net.updateCacheFile(session, 0)
print("class {}".format(np.argmax(result.getData())))

runtime, exists = MNN.Interpreter.createRuntime(({"precision": "low"},))
print(runtime, exists)
session = net.createSession({"precision": "low"}, runtime)
print("memory %fMB" % net.getSessionInfo(session, 0))
print("operations %fM" % net.getSessionInfo(session, 1))
print("backend %d" % net.getSessionInfo(session, 2))
tensor = net.getSessionInput(session)
tensor.copyFrom(given)
net.runSession(session)
shape = tuple(output.getShape())
last = MNN.Tensor(shape, MNN.Halide_Type_Float, np.ones(shape).astype(np.float32), MNN.Tensor_DimensionType_Caffe)
net.getSessionOutput(session).copyToHostTensor(last)
print("class {}".format(np.argmax(last.getData())))
