"""The packages have all names of MNN's, and say which ones they have besides."""

from __future__ import annotations

import subprocess
import sys

import mnn_names
import pytest

import minnow
from minnow.expr import Var
from minnow.expr.names import all_names, named

LISTS = {"expr": mnn_names.EXPR, "numpy": mnn_names.NUMPY, **mnn_names.PARTS}


@pytest.mark.parametrize("package", LISTS)
def test_the_names_are_those_of_mnn(package: str) -> None:
    names = {e.name for e in all_names(package.partition(".")[0]) if e.package == package and e.mnn}
    assert names == set(LISTS[package].split())


def test_names_are_where_the_registry_says() -> None:
    for entry in all_names("expr") + all_names("numpy"):
        home = minnow
        for part in entry.package.split("."):
            home = getattr(home, part)
        assert getattr(home, entry.name) is entry.value, entry.ours
        assert not entry.callable or entry.summary, f"{entry.ours} has no documentation"


def test_a_package_shows_its_names_only() -> None:
    for package in ("expr", "numpy"):
        known = {e.name for e in all_names(package)}
        module = getattr(minnow, package)
        others = {n for n in vars(module) if not n.startswith("__")} - known
        allowed = {"apply", "evaluate", "graph_and_values", "graph_of", "vars_of", "math"}
        assert all(n in allowed or type(vars(module)[n]).__name__ == "module" for n in others), others


def test_var_has_the_methods_of_mnn() -> None:
    missing = [name for name in mnn_names.VAR.split() if not hasattr(Var, name)]
    assert not missing


def test_a_name_cannot_have_two_meanings() -> None:
    with pytest.raises(ValueError, match="defined twice"):
        named("expr", "relu")(print)


def test_packages_are_imported_when_they_are_used() -> None:
    source = "import sys, minnow; before = 'minnow.expr' in sys.modules, 'numpy' in sys.modules; minnow.numpy.zeros; "
    source += "print(before, 'minnow.expr' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "(False, False) True"
