"""Keras files that bring code, or name some: nothing of it is run, and the error says what is there."""

from __future__ import annotations

import base64
import io
import json
import marshal
import resource
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import pytest

import minnow
from minnow.converter import read
from minnow.converter.file import sandbox
from minnow.converter.tensorflow.file import keras_child
from minnow.schema.errors import FormatError, UnsupportedError


def dense(**other: Any) -> dict[str, Any]:
    config = {"name": "d", "trainable": True, "units": 2, "activation": "linear", **other}
    return {"module": "keras.layers", "class_name": "Dense", "config": config, "registered_name": None}


def network(*layers: dict[str, Any]) -> dict[str, Any]:
    first = {
        "module": "keras.layers",
        "class_name": "InputLayer",
        "config": {"batch_shape": [None, 3], "dtype": "float32", "name": "x"},
        "registered_name": None,
    }
    return {
        "module": "keras",
        "class_name": "Sequential",
        "config": {"name": "n", "layers": [first, *layers]},
        "registered_name": None,
    }


def archive(config: Any) -> bytes:
    weights, out = io.BytesIO(), io.BytesIO()
    h5py.File(weights, "w").close()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("metadata.json", json.dumps({"keras_version": "3.11.3", "date_saved": "2025-01-01@00:00:00"}))
        file.writestr("config.json", config if isinstance(config, str) else json.dumps(config))
        file.writestr("model.weights.h5", weights.getvalue())
    return out.getvalue()


def hdf5(config: Any) -> bytes:
    out = io.BytesIO()
    with h5py.File(out, "w") as file:
        file.attrs["model_config"] = json.dumps(config)
        file.attrs["keras_version"] = "3.11.3"
        file.create_group("model_weights").attrs["layer_names"] = []
    return out.getvalue()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """The file that none of the models may write."""
    (tmp_path / "models").mkdir()
    yield tmp_path / "models"
    assert not (tmp_path / "written").exists()


def writing(place: Path) -> str:
    """Compiled code that writes a file, as a Lambda layer has it."""
    code = compile(f"lambda x: open({str(place.parent / 'written')!r}, 'w') and x", "f", "eval").co_consts[0]
    return base64.b64encode(marshal.dumps(code)).decode()


def lambda_layer(place: Path) -> dict[str, Any]:
    function = {"class_name": "__lambda__", "config": {"code": writing(place), "defaults": None, "closure": None}}
    return {"module": "keras.layers", "class_name": "Lambda", "config": {"name": "l", "function": function}}


def old_lambda_layer(place: Path) -> dict[str, Any]:
    config = {"name": "l", "function": [writing(place), None, None], "function_type": "lambda"}
    return {"class_name": "Lambda", "config": config}


def module(name: str, what: str, config: Any = None) -> dict[str, Any]:
    return {"module": name, "class_name": what, "config": config or {}, "registered_name": None}


@pytest.mark.parametrize(("make", "layer"), [(archive, lambda_layer), (hdf5, old_lambda_layer)])
def test_lambda_layers(layer: Any, make: Any, place: Path) -> None:
    path = place / ("m.keras" if make is archive else "m.h5")
    path.write_bytes(make(network(layer(place))))
    with pytest.raises(UnsupportedError, match=r"a (Lambda|__lambda__), which is code in the file"):
        minnow.convert(path, output=place / "m.mnn")
    assert list(place.iterdir()) == [path]


@pytest.mark.slow
def test_what_is_refused_would_run(place: Path) -> None:
    """Where nobody looks at it, and safe mode is off, the layer above writes its file: the test tests something."""
    keras = pytest.importorskip("keras")
    path = place / "m.keras"
    path.write_bytes(archive(network(lambda_layer(place))))
    model = keras.saving.load_model(path, compile=False, safe_mode=False)
    written = place.parent / "written"
    assert model is not None
    assert written.exists()
    written.unlink()


def test_its_process_writes_into_its_folder_only(place: Path) -> None:
    """Whatever Keras might still be made to do."""
    path, folder, written = place / "m.keras", place.parent / "made", place.parent / "written"
    folder.mkdir()
    path.write_bytes(archive(network(dense())))
    program = f"""
import sys
from pathlib import Path
from minnow.converter.tensorflow.file import keras_child

def load(path, target):
    target.write_text("here")
    Path({str(written)!r}).write_text("there")

keras_child.load = load
sys.exit(keras_child.main())
"""
    command = [sys.executable, "-c", program, str(path), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (folder / "saved").read_text() == "here"
    can_hold_it = sandbox.LANDLOCK in sandbox.features()
    assert written.exists() is not can_hold_it
    assert done.returncode == (keras_child.REFUSED if can_hold_it else 0), done.stderr
    written.unlink(missing_ok=True)


GADGETS = {
    "a module": (module("os", "system", "id"), "'system' of 'os'"),
    "a helper of Keras": (module("keras.utils", "get_file"), "'get_file' of 'keras.utils'"),
    "a function": (module("keras.utils", "function", "get_file"), "'function' of 'keras.utils'"),
    "a function of the layers": (module("keras.layers", "function", "deserialize"), "the function 'deserialize'"),
    "a function of nowhere": ({"class_name": "function", "config": "x", "registered_name": "x"}, "the function 'x'"),
    "a subclass": (module("my.package", "Thing"), "'Thing' of 'my.package'"),
    "a module that is no text": ({"module": 7, "class_name": "Dense", "config": {}}, "'Dense' of 7"),
    "PyTorch": (module("keras.layers", "TorchModuleWrapper"), "loads a pickle"),
    "a SavedModel": (module("keras.layers", "TFSMLayer", {"filepath": "/"}), "loads another model"),
    "a vocabulary": (module("keras.layers", "StringLookup", {"vocabulary": "/etc/passwd"}), "reads the file"),
    "deep inside": (dense(kernel_initializer=[{"a": module("builtins", "eval", "1")}]), "'eval' of 'builtins'"),
}


@pytest.mark.parametrize("name", GADGETS)
def test_what_is_no_part_of_keras(name: str) -> None:
    config, message = GADGETS[name]
    keras_child.check_config(network(dense()))
    with pytest.raises(keras_child.ForeignError) as e:
        keras_child.check_config(network(dense(), config))
    assert message in str(e.value)


@pytest.mark.parametrize("config", ["{", "[" * 100_000, " " * 40_000_000 + "{}"], ids=["cut", "deep", "packed"])
def test_damaged_configurations(config: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = place / "m.keras"
    path.write_bytes(archive(config))
    monkeypatch.setattr("sys.argv", ["", str(path), str(place)])
    for limit in ("limit_resources", "restrict_files", "_end_after"):  # this process is the tests'
        monkeypatch.setattr(keras_child, limit, lambda *_, **__: None)
    assert keras_child.main() == keras_child.DAMAGED


def test_damage_is_told(place: Path) -> None:
    path = place / "m.keras"
    path.write_bytes(archive("{"))
    with pytest.raises(FormatError, match="damaged") as e:
        read(path)
    assert "JSONDecodeError" in e.value.why


def test_old_releases_of_keras_are_not_used(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = place / "m.keras"
    path.write_bytes(archive(network(dense())))
    monkeypatch.setattr(keras_child, "version", lambda: (3, 11, 2))
    with pytest.raises(UnsupportedError, match=r"Keras 3\.11\.2 is too old") as e:
        read(path)
    assert "keras>=3.11.3" in e.value.hint


def test_modules_beside_the_model_are_not_imported(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that reads the file is one of Python, which looks into the current folder first."""
    path = place / "m.keras"
    path.write_bytes(archive(network(lambda_layer(place))))
    for name in ("json", "keras", "h5py", "minnow", "zipfile"):
        (place / f"{name}.py").write_text(f"open({str(place.parent / 'written')!r}, 'w')")
    monkeypatch.chdir(place)
    with pytest.raises(UnsupportedError, match="Lambda"):
        read(path)


@pytest.mark.slow
def test_a_file_that_hdf5_follows_without_end(place: Path) -> None:
    """It takes the 10 seconds of processor time that the process has for the configuration."""
    path = place / "m.h5"
    path.write_bytes((Path(__file__).parents[1] / "fuzz" / "findings" / "keras" / "hdf5_without_end").read_bytes())
    begin = resource.getrusage(resource.RUSAGE_CHILDREN)
    with pytest.raises(UnsupportedError, match="takes too long"):
        read(path)
    end = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert end.ru_utime + end.ru_stime - begin.ru_utime - begin.ru_stime < 20
