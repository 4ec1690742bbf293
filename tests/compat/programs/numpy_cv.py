"""A classifier as a module; the picture by MNN's own cv and numpy, without an axis for the batch."""

import sys

import MNN
import MNN.cv as cv2
import MNN.numpy as np

net = MNN.nn.load_module_from_file(sys.argv[1], [sys.argv[3]], [sys.argv[4]])
image = cv2.imread(sys.argv[2])
image = image[..., ::-1]
image = cv2.resize(image, (224, 224))
image = image - (103.94, 116.78, 123.68)
image = image * (0.017, 0.017, 0.017)
image = image.astype(np.float32)
var = MNN.expr.convert(image, MNN.expr.NC4HW4)
output = net.forward(var)
output = MNN.expr.convert(output, MNN.expr.NHWC)
print("class {}".format(np.argmax(output)))
