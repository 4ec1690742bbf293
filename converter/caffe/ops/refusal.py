"""Layers without effect, which are left out, and layers that are not supported, with what to do instead."""

from __future__ import annotations

from minnow.converter.caffe.frontend import frontend

frontend.drop("Accuracy", "HDF5Output", "DetectionEvaluate", what="only looks at results")
frontend.drop("Silence", what="only hides results")
frontend.drop(
    "SoftmaxWithLoss", "EuclideanLoss", "SigmoidCrossEntropyLoss", "HingeLoss", "InfogainLoss", "ContrastiveLoss",
    "MultinomialLogisticLoss", "SmoothL1Loss", "MultiBoxLoss", "CenterLoss", "BoxAnnotatorOHEM",
    what="is for training",
)  # fmt: skip
frontend.source("Data", "ImageData", "HDF5Data", "MemoryData", "WindowData", "AnnotatedData")

frontend.refuse(
    "Filter",
    why="how many images it gives depends on their content",
    hint="end the net before it: `--outputs`",
)
