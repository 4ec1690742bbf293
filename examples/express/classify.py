"""What is on a photo: reads and scales it, and runs a classifier on it.

    mnnconvert mobilenet_v1.onnx -o mobilenet_v1.mnn
    python classify.py mobilenet_v1.mnn photo.jpg data prob

The last two arguments are the names of the input and the output of the model; `mnnconvert inspect` shows them. MEAN and
SCALE are those that the model was trained with.

With MNN's Python package the same program runs with `import MNN`, `import MNN.cv as cv2` and `import MNN.numpy as np`.
"""

import sys

import minnow as MNN
import minnow.cv as cv2
import minnow.numpy as np

SIZE = (224, 224)
MEAN = (103.94, 116.78, 123.68)
SCALE = (0.017, 0.017, 0.017)


def main() -> None:
    model, photo, source, target = sys.argv[1:]
    net = MNN.nn.load_module_from_file(model, [source], [target])
    image = cv2.imread(photo)[..., ::-1]  # from BGR to RGB
    image = cv2.resize(image, SIZE)
    image = (image - MEAN) * SCALE
    image = MNN.expr.convert(image.astype(np.float32), MNN.expr.NC4HW4)
    print(np.argmax(net.forward(image)))


if __name__ == "__main__":
    main()
