"""Writes a small model in every source format into a folder, with the libraries that define the formats."""

import os
import sys
from pathlib import Path

os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0"}

import caffe_one
import cv2
import keras
import numpy as np
import tensorflow as tf
import torch


def main(folder: Path) -> None:
    """All files; `photo.png` is a picture for the model with one input of that form."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU()).eval()
    torch.jit.save(torch.jit.script(net), folder / "script.pt")
    torch.export.save(torch.export.export(net, (torch.ones(2, 4),)), folder / "archive.pt2")

    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, activation="relu")])
    model.save(folder / "network.keras")
    model.save(folder / "network.h5")
    model.export(folder / "saved_model", verbose=False)
    converter = tf.lite.TFLiteConverter.from_saved_model(str(folder / "saved_model"))
    (folder / "network.tflite").write_bytes(converter.convert())
    graph = tf.Graph()
    with graph.as_default():
        x = tf.compat.v1.placeholder(tf.float32, (2, 4), "x")
        tf.nn.relu(tf.linalg.matmul(x, tf.constant(np.ones((4, 3), np.float32))), name="y")
    (folder / "frozen.pb").write_bytes(graph.as_graph_def().SerializeToString())

    layer = caffe_one.layer("InnerProduct", "inner_product_param { num_output: 3 }")
    (folder / "net.prototxt").write_text(caffe_one.definition({"x0": (2, 4)}, layer))
    blobs = {"l": [np.ones((3, 4), np.float32), np.zeros(3, np.float32)]}
    (folder / "net.caffemodel").write_bytes(caffe_one.weights(blobs))
    cv2.imwrite(str(folder / "photo.png"), np.full((8, 8), 100, np.uint8))


main(Path(sys.argv[1]))
