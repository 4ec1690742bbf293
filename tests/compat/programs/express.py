"""A classifier as a module; the picture by OpenCV and numpy."""

import sys

import cv2
import MNN
import numpy as np

manager = MNN.nn.create_runtime_manager(({"precision": "low", "backend": 3, "numThread": 4},))
manager.set_cache(".cachefile")
manager.set_mode(9)
manager.set_hint(0, 20)
image = cv2.imread(sys.argv[2])
image = image[..., ::-1]
image = cv2.resize(image, (224, 224))
image = image - (103.94, 116.78, 123.68)
image = image * (0.017, 0.017, 0.017)
image = image.astype(np.float32)
for options in ({"runtime_manager": manager}, {}):
    net = MNN.nn.load_module_from_file(sys.argv[1], [sys.argv[3]], [sys.argv[4]], **options)
    var = MNN.expr.placeholder([1, 224, 224, 3], MNN.expr.NHWC)
    var.write(image)
    var = MNN.expr.convert(var, MNN.expr.NC4HW4)
    output = net.forward(var)
    output = MNN.expr.convert(output, MNN.expr.NHWC)
    print("class {}".format(np.argmax(output.read())))
    if options:
        manager.update_cache()
