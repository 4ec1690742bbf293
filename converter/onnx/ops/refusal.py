"""Operators that are deliberately unsupported. All others have a mapping, or a body in the ONNX standard."""

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
    why="decision trees are not converted",
    hint="write the trees with comparisons and Gather, or run them outside of the model",
)
onnx.refuse(
    *(f"{_ML}{n}" for n in ("LinearClassifier", "LinearRegressor", "SVMClassifier", "SVMRegressor")),
    why="classical machine learning (linear models, SVMs and the like) is not converted",
    hint="write them with MatMul, Add and an activation",
)
onnx.refuse(
    *(f"{_ML}{n}" for n in ("CastMap", "CategoryMapper", "DictVectorizer", "LabelEncoder", "ZipMap")),
    why="maps, strings and lookups by key are not converted",
    hint="do the lookup outside of the model; exporters that add a ZipMap have an option against it",
)
onnx.refuse(
    *(f"{_ML}{n}" for n in ("ArrayFeatureExtractor", "Binarizer", "FeatureVectorizer", "Imputer", "Normalizer")),
    *(f"{_ML}{n}" for n in ("OneHotEncoder", "Scaler")),
    why="the preprocessing of tables is not converted",
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
