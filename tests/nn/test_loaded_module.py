"""Modules from files: `load_module_from_file` and `create_runtime_manager`."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minnow
from minnow import expr, nn
from minnow.errors import MinnowError, UsageError
from minnow.expr import NC4HW4, NHWC, Var, convert
from minnow.schema.ir import DType, Graph, Model, TensorType
from minnow.schema.mnn import encode
from minnow.schema.ops import Builder

Array = np.ndarray[Any, Any]
IMAGE = np.random.default_rng(0).random((1, 3, 12, 10), np.float32)
LAST = np.ascontiguousarray(IMAGE.transpose(0, 2, 3, 1))


def classifier(source: str = "onnx") -> bytes:
    """Two inputs, an image and a scale, of which the second scales the answer; of TFLite with channels last."""
    rng = np.random.default_rng(1)
    last = source == "tflite"
    graph = Graph()
    shape = ("N", 12, 10, 3) if last else ("N", 3, 12, 10)
    x = graph.add_param(TensorType(DType.F32, shape), "data")
    scale = graph.add_param(TensorType(DType.F32, (1,)), "scale")
    b = Builder(graph)
    first = b.Transpose(x, perm=(0, 3, 1, 2)) if last else x
    weight = rng.standard_normal((5, 3, 3, 3)).astype(np.float32)
    y = b.Conv(first, weight, strides=(2, 2), pads=(1, 1, 1, 1), dilations=(1, 1))
    y.name = "conv"
    z = b.Mul(
        b.MatMul(b.ReduceMean(y, axes=(2, 3), keepdims=False), rng.standard_normal((5, 7)).astype(np.float32)), scale
    )
    graph.outputs = [z, y]
    outputs = [("prob", z.type), ("map", y.type)]
    return encode(Model(graph, [("data", x.type), ("scale", scale.type)], outputs, source=source))


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "model.mnn"
    path.write_bytes(classifier())
    return path


ONE = np.ones(1, np.float32)


def want(path: Path, image: Array = IMAGE) -> dict[str, Array]:
    return minnow.load(path).run({"data": image, "scale": ONE})


def module(path: Path, **options: Any) -> nn.Module:
    return nn.load_module_from_file(str(path), ["data", "scale"], ["prob"], **options)


@pytest.mark.parametrize(
    "given",
    [
        IMAGE, Var(IMAGE), Var.from_array(LAST, NHWC), convert(Var.from_array(LAST, NHWC), NC4HW4),
        Var.from_array(IMAGE, NC4HW4), IMAGE.astype(np.float64), np.asfortranarray(IMAGE),
        np.ascontiguousarray(IMAGE[..., ::-1])[..., ::-1],
    ],
    ids=["array", "NCHW", "NHWC", "converted", "NC4HW4", "float64", "in Fortran's order", "not contiguous"],
)  # fmt: skip
def test_the_layout_of_an_image_does_not_matter(path: Path, given: Any) -> None:
    (got,) = module(path).forward([given, ONE])
    np.testing.assert_array_equal(got.read(), want(path)["prob"])


def test_an_image_without_a_batch_is_a_batch_of_one(path: Path) -> None:
    net = module(path)
    image = Var.from_array(LAST[0], NHWC)
    for given in (image, convert(image, NC4HW4), LAST[0]):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(2):
                (got,) = nn.Module.__call__(net, [given, ONE])
        np.testing.assert_array_equal(got.read(), want(path)["prob"])
        assert [str(w.message) for w in caught] == (
            ["input 'data' is an image without a batch: it is taken as a batch of one"] if given is image else []
        )
    with pytest.raises(UsageError, match=r"the number of axes|channels"):
        net.forward([IMAGE[0], ONE])  # channels first: that is no picture


@pytest.mark.parametrize("given", [LAST, Var.from_array(LAST, NHWC), Var(IMAGE), convert(Var(IMAGE), NC4HW4), LAST[0]])
@pytest.mark.filterwarnings("ignore:.*batch of one")
def test_a_model_with_channels_last(tmp_path: Path, given: Any) -> None:
    path = tmp_path / "last.mnn"
    path.write_bytes(classifier("tflite"))
    net = module(path)
    assert net.get_info()["inputs"][0].data_format is NHWC
    (got,) = net.forward([given, ONE])
    np.testing.assert_array_equal(got.read(), want(path, LAST)["prob"])


def test_one_and_many(path: Path) -> None:
    net = nn.load_module_from_file(path, [], [])
    outputs = net([IMAGE, ONE])
    assert [v.name for v in outputs] == ["prob", "map"]
    np.testing.assert_array_equal(outputs[1].read(), want(path)["map"])
    part = nn.load_module_from_file(path.read_bytes(), ["data"], ["map"])
    np.testing.assert_allclose(part(IMAGE).read(), outputs[1].read(), atol=1e-6)
    assert [v.shape for v in part.onForward(IMAGE)] == [[1, 5, 6, 5]]
    rest = nn.load_module_from_file(str(path), ["map", "scale"], ["prob"])
    np.testing.assert_allclose(rest([outputs[1], ONE])[0].read(), outputs[0].read(), atol=1e-5)


def test_shapes_change_between_calls(path: Path) -> None:
    net = module(path)
    for shape in ((1, 3, 12, 10), (4, 3, 12, 10), (1, 3, 24, 20), (1, 3, 12, 10)):
        image = np.random.default_rng(2).random(shape, np.float32)
        (got,) = net.forward([image, ONE])
        assert got.shape == [shape[0], 7]
    np.testing.assert_array_equal(got.read(), want(path, image)["prob"])


def test_it_computes_at_once_when_evaluation_is_lazy(path: Path) -> None:
    expr.lazy_eval(True)
    try:
        x = expr.placeholder([1, 3, 12, 10])
        x.write(IMAGE)
        (got,) = module(path).forward([x * 1, ONE])
    finally:
        expr.lazy_eval(False)
    np.testing.assert_array_equal(got.read(), want(path)["prob"])


def test_what_a_file_says(path: Path) -> None:
    info = nn.load_module_from_file(str(path), [], []).get_info()
    assert info["inputNames"] == ["data", "scale"]
    assert info["outputNames"] == ["prob", "map"]
    assert [(v.name, v.shape) for v in info["inputs"]] == [("data", [-1, 3, 12, 10]), ("scale", [1])]
    assert {"version", "bizCode"} < info.keys()


def test_clones_and_parts(path: Path) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.backbone = nn.load_module_from_file(str(path), ["data"], ["map"])
            self.head = nn.conv(5, 2, [1, 1])

        def forward(self, x: Any) -> Any:
            return self.head(self.backbone(x))

    net = Net()
    copy = net.clone()
    assert copy.backbone is not net.backbone
    np.testing.assert_array_equal(copy(IMAGE).read(), net(IMAGE).read())
    net.clear_cache()
    np.testing.assert_array_equal(copy(IMAGE).read(), net(IMAGE).read())
    assert len(net.parameters) == 2
    assert net.backbone.name == "backbone"


def test_a_manager_keeps_packed_weights(path: Path, tmp_path: Path) -> None:
    copy, cache = tmp_path / "model.mnn", tmp_path / "cache"
    shutil.copy(path, copy)
    for _ in range(2):
        manager = nn.create_runtime_manager(({"backend": 0, "precision": "high", "numThread": 2},))
        manager.set_mode(9)
        manager.set_hint(0, 20)
        manager.set_hint(14, [0, 1])
        manager.set_cache(str(cache))
        net = module(copy, runtime_manager=manager)
        (got,) = net.forward([IMAGE, ONE])
        np.testing.assert_array_equal(got.read(), want(path)["prob"])
        manager.update_cache()
    assert cache.stat().st_size > 0
    info = manager.get_info()
    assert info["hints"] == {"MAX_TUNING_NUMBER": 20, "CPU_CORE_IDS": (0, 1)}
    assert info["modes"] == ["Session_Backend_Auto"]
    del net
    with pytest.raises(UsageError, match="it is gone"):
        manager.update_cache()


@pytest.mark.parametrize("backend", [expr.CPU, 0, "CPU"])
def test_options_of_mnn_are_taken(path: Path, backend: Any) -> None:
    net = module(
        path, dynamic=False, shape_mutable=True, rearrange=True, backend=backend, memory_mode=expr.MemoryMode.High,
        power_mode=expr.PowerMode.Low, precision_mode=expr.PrecisionMode.High, thread_num=1,
    )  # fmt: skip
    (got,) = net.forward([IMAGE, ONE])
    np.testing.assert_allclose(got.read(), want(path)["prob"], rtol=1e-5)
    with pytest.warns(UserWarning, match="the CPU runs the model"):
        module(path, backend=expr.METAL)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: nn.load_module_from_file("/missing.mnn", [], []), "/missing.mnn"),
        (lambda p: nn.load_module_from_file(3, [], []), "a path or bytes"),
        (lambda p: nn.load_module_from_file(p, "data", []), "a list of names"),
        (lambda p: nn.load_module_from_file(p, ["dta"], []), "similar names are data"),
        (lambda p: nn.load_module_from_file(p, [3], []), "a name is a text"),
        (lambda p: nn.load_module_from_file(p, ["data"], ["prob"]), "need the input 'scale'"),
        (lambda p: module(p, runtime_manager=3), "create_runtime_manager"),
        (lambda p: module(p, thread_num=0), "number of threads"),
        (lambda p: module(p, precision_mode=9), "precision 9"),
        (lambda p: module(p).forward(IMAGE), "1 inputs are given, the model has 2"),
        (lambda p: module(p).forward([IMAGE, None]), "number 1"),
        (lambda p: module(p).forward([IMAGE[:, :2], ONE]), r"\[1, 2, 12, 10\].*channels.*\n.*\[\?, 3, 12, 10\]"),
        (lambda p: module(p).forward([LAST, ONE]), "channels"),
        (lambda p: module(p).forward([IMAGE[0, 0], ONE]), "number of axes"),
        (lambda p: module(p).forward([IMAGE, np.ones(2)]), "scale"),
        (lambda p: module(p).forward([expr.placeholder([1, 3, 12, 10]), ONE]), "no value yet"),
        (lambda p: module(p).forward(["a", IMAGE]), "not a tensor"),
        (lambda p: module(p).forward(None), "not a tensor"),
        (lambda p: module(p).forward([IMAGE, np.array([1j])]), "complex"),
        (lambda p: module(p).load_parameters([ONE]), "has 0"),
        (lambda p: nn.create_runtime_manager(()), "a tuple with a dict"),
        (lambda p: nn.create_runtime_manager(({"backend": "FOO"},)), "'FOO' is unknown"),
        (lambda p: nn.create_runtime_manager(3), "a dict"),
        (lambda p: nn.create_runtime_manager(({},)).update_cache(), "set_cache"),
        (lambda p: nn.create_runtime_manager(({},)).set_mode(99), "mode 99"),
        (lambda p: nn.create_runtime_manager(({},)).set_external("x", 7), "0 to 4"),
    ],
)  # fmt: skip
def test_a_wrong_call_is_an_error(path: Path, call: Any, message: str) -> None:
    with pytest.raises(MinnowError, match=message):
        call(path)
