"""What the sources import is what `pyproject.toml` declares: nothing is missing at run time, nothing is idle."""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections.abc import Iterator

import pytest
from packaging.requirements import Requirement
from test_architecture import ROOT, python_files

from minnow.schema.extra import install

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

# Where the name to import is not that of the package to install.
PACKAGE = {"PIL": "pillow", "cv2": "opencv-python-headless", "google": "protobuf"}


def package(module: str) -> str:
    """The name of a package as `pyproject.toml` has it, in the form in which names are compared."""
    top = module.partition(".")[0]
    return re.sub(r"[-_.]+", "-", PACKAGE.get(top, top)).lower()


def needed(tree: ast.Module) -> Iterator[tuple[str, bool]]:
    """The third-party packages that a file imports, and whether it does so as soon as it is imported itself."""

    def walk(node: ast.AST, at_once: bool) -> Iterator[tuple[str, bool]]:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            return
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            at_once = False
        modules: list[str] = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            modules = [node.module or ""]
        for module in modules:
            if module.partition(".")[0] not in {*sys.stdlib_module_names, "tomllib", "minnow"}:
                yield package(module), at_once
        for child in ast.iter_child_nodes(node):
            yield from walk(child, at_once)

    return walk(tree, True)


def declared() -> tuple[set[str], set[str]]:
    """The packages that everybody gets, and those of the extras for users: not those of contributors, `dev`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [item for name, items in project["optional-dependencies"].items() if name != "dev" for item in items]
    names = [{package(Requirement(item).name) for item in items} for items in (project["dependencies"], extras)]
    return names[0], names[1]


@functools.cache
def imported() -> dict[str, dict[bool, set[str]]]:
    """The third-party packages, with the files that import them lazily (False) and at once (True)."""
    found: dict[str, dict[bool, set[str]]] = {}
    for _, path in python_files():
        for name, at_once in needed(ast.parse(path.read_text())):
            found.setdefault(name, {False: set(), True: set()})[at_once].add(str(path.relative_to(ROOT)))
    return found


def pins(lock: str) -> dict[str, list[tuple[Requirement, int]]]:
    """The entries of a lock, by name, each with the number of its hashes: several where the Pythons differ."""
    found: dict[str, list[tuple[Requirement, int]]] = {}
    for entry in re.split(r"(?m)^(?=[a-z])", (ROOT / "requirements" / f"{lock}.lock").read_text()):
        if entry[:1].isalpha():
            requirement = Requirement(entry.partition("\\")[0])
            found.setdefault(package(requirement.name), []).append((requirement, entry.count("--hash=sha256:")))
    return found


def test_the_locks_admit_one_version_by_its_hashes_from_anywhere() -> None:
    locks = [path.stem for path in (ROOT / "requirements").glob("*.lock")]
    assert {"cuda", "dev", "fuzz", "installer", "mnn", "torch", "torch-cpu", "wheels"} == set(locks)
    for lock in locks:
        for requirement, hashes in (pin for found in pins(lock).values() for pin in found):
            assert [s.operator for s in requirement.specifier] == ["=="], requirement
            assert hashes, f"{lock}.lock: {requirement} has no hash"
        assert "://" not in (ROOT / "requirements" / f"{lock}.lock").read_text()


def test_what_is_declared_is_locked_in_a_version_that_is_admitted() -> None:
    """Somebody who changes pyproject.toml is told so: `./dev upgrade` locks it."""
    whole = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = whole["project"]["optional-dependencies"]
    asked = [*whole["build-system"]["requires"], *whole["project"]["dependencies"], *extras["dev"], *extras["verify"]]
    locked = pins("dev") | pins("torch")
    for requirement in map(Requirement, asked):
        if requirement.name == whole["project"]["name"]:
            continue
        assert package(requirement.name) in locked, f"{requirement} is not locked: ./dev upgrade"
        for pin, _ in locked[package(requirement.name)]:
            (version,) = (s.version for s in pin.specifier)
            assert requirement.specifier.contains(version, prereleases=True), f"{pin} is locked: ./dev upgrade"


def test_both_builds_of_pytorch_are_of_one_version() -> None:
    ((torch, _),) = pins("torch")["torch"]
    of_cpu = [str(pin.specifier) for found in pins("torch-cpu").values() for pin, _ in found]
    assert of_cpu in ([], [f"{torch.specifier}+cpu"])
    assert "torch" not in pins("dev")


def test_what_is_imported_at_once_is_required() -> None:
    required, _ = declared()
    missing = {name: files[True] for name, files in imported().items() if files[True] and name not in required}
    assert not missing, f"imported at the head of a file, and no dependency: {missing}"


def test_what_is_imported_somewhere_is_declared() -> None:
    required, optional = declared()
    missing = {name: files[False] for name, files in imported().items() if name not in required | optional}
    assert not missing, f"imported, and neither a dependency nor in an extra for users: {missing}"


def test_what_is_declared_is_imported() -> None:
    required, optional = declared()
    assert len(required) >= 8, "almost no dependencies: has pyproject.toml changed its form?"
    assert not (required | optional) - set(imported())


def test_who_misses_an_optional_package_is_told_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    metadata = [
        f'{item}{" and" if ";" in item else ";"} extra == "{extra}"'
        for extra, items in extras.items()
        for item in items
    ]
    monkeypatch.setattr("importlib.metadata.requires", lambda name: metadata)  # of a package installed just now
    modules = {package(name): name for name in PACKAGE}
    told = 0
    for extra, items in extras.items():
        for name in (Requirement(item).name for item in items if extra != "dev" and not item.startswith("minnow")):
            holders = [e for e, them in extras.items() if e != "dev" and any(Requirement(t).name == name for t in them)]
            module = modules.get(package(name), name.replace("-", "_"))
            assert install(f"{module}.part") in {f"pip install 'minnow[{holder}]'" for holder in holders}
            told += 1
    assert told >= 8
    assert install("no_such_module") == "pip install no_such_module"


def test_nothing_is_both_required_and_optional() -> None:
    required, optional = declared()
    assert not required & optional


@pytest.mark.parametrize(
    ("source", "want"),
    [
        ("import numpy as np", [("numpy", True)]),
        ("from google.protobuf import message", [("protobuf", True)]),
        ("import ml_dtypes.x, os", [("ml-dtypes", True)]),
        ("def f():\n    if 1:\n        import torch", [("torch", False)]),
        ("try:\n    import cv2\nexcept ImportError:\n    pass", [("opencv-python-headless", True)]),
        ("class A:\n    import rich", [("rich", True)]),
        ("if TYPE_CHECKING:\n    import torch", []),
        ("from minnow.schema import ir\nfrom . import x\nimport minnow", []),
    ],
)
def test_the_walk_sees_an_import(source: str, want: list[tuple[str, bool]]) -> None:
    assert list(needed(ast.parse(source))) == want
