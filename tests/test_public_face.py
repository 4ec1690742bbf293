"""`import minnow` costs nothing, and its names are what they say."""

from __future__ import annotations

import subprocess
import sys

import pytest

import minnow
import minnow.errors


def run(source: str) -> str:
    return subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True).stdout.strip()


def test_import_loads_no_heavy_package() -> None:
    source = "import sys, minnow; minnow.errors; print({'numpy', 'networkx', 'onnx', 'click'} & set(sys.modules))"
    assert run(source) == "set()"


@pytest.mark.parametrize("name", [name for name in minnow.__all__ if name[0].islower()])
def test_a_function_stays_a_function_when_its_module_is_imported(name: str) -> None:
    """minnow.convert is a function of the module minnow.convert; importing the latter must not hide the former."""
    source = "import minnow, importlib, contextlib, types\nwith contextlib.suppress(ModuleNotFoundError):\n"
    source += f"    importlib.import_module('minnow.{name}')\nprint(type(minnow.{name}).__name__)"
    assert run(source) == ("module" if name in minnow._MODULES else "function")


def test_errors_have_one_identity() -> None:
    from minnow.schema import errors

    assert minnow.errors.MinnowError is errors.MinnowError


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        minnow.nope  # noqa: B018
