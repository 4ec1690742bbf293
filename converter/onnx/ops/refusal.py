"""Operators that are not converted on purpose. What can be converted has a mapping, or a body in the ONNX standard."""

from __future__ import annotations

from minnow.converter.onnx.frontend import frontend as onnx

onnx.refuse(
    *("StringConcat", "StringNormalizer", "StringSplit", "RegexFullMatch"),
    why="the engine has no tensors of strings",
    hint="turn text into numbers before the model",
)
onnx.refuse(
    "ImageDecoder",
    why="the engine decodes no picture files",
    hint="decode the picture before the model, and give the pixels as an input",
)

_ML = "ai.onnx.ml::"
onnx.refuse(
    *(f"{_ML}{n}" for n in ("TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor")),
    why="the engine runs networks of tensor operations, not decision trees",
    hint="express the trees by comparisons and Gather, or run them beside the network",
)
onnx.refuse(
    *(f"{_ML}{n}" for n in ("LinearClassifier", "LinearRegressor", "SVMClassifier", "SVMRegressor")),
    why="classical estimators are not converted",
    hint="express them by MatMul, Add and an activation",
)
onnx.refuse(
    *(f"{_ML}{n}" for n in ("CastMap", "CategoryMapper", "DictVectorizer", "LabelEncoder", "ZipMap")),
    why="maps, strings and look-ups by key are not converted",
    hint="do the look-up outside of the model; exporters that add a ZipMap can be told not to",
)
onnx.refuse(
    *(f"{_ML}{n}" for n in ("ArrayFeatureExtractor", "Binarizer", "FeatureVectorizer", "Imputer", "Normalizer")),
    *(f"{_ML}{n}" for n in ("OneHotEncoder", "Scaler")),
    why="the preparation of tables is not converted",
    hint="prepare the features before the model",
)
onnx.refuse(f"{_ML}*", why="the operators of classical machine learning are not converted")

_TRAINING = "ai.onnx.preview.training::"
onnx.refuse(
    *(f"{_TRAINING}{n}" for n in ("Adagrad", "Adam", "Gradient", "Momentum")),
    why="the engine runs models, it does not train them",
    hint="export the model for inference",
)
onnx.refuse(f"{_TRAINING}*", why="the engine runs models, it does not train them", hint="export for inference")
