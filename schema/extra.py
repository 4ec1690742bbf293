"""The optional packages: which extra of Minnow brings a package that is not installed."""

from __future__ import annotations

import re

_CONTRIBUTORS = "dev"  # the extra with everything, for those who work on Minnow
_PACKAGES = {"PIL": "pillow", "cv2": "opencv-python-headless"}  # what to import -> what to install, where they differ


def install(module: str) -> str:
    """The command that installs what `import module` needs, `pip install 'minnow[torch]'`.

    The extras are those of the installed Minnow. A package that is in none is named itself.
    """
    import importlib.metadata  # only where something is missing: it is slow to import

    top = module.partition(".")[0]
    package = _PACKAGES.get(top, top)
    try:
        requirements = importlib.metadata.requires("minnow") or []
    except importlib.metadata.PackageNotFoundError:  # run from its sources
        requirements = []
    for requirement in requirements:
        found = re.match(r"""([\w.-]+).*;.*\bextra == ["']([\w-]+)["']""", requirement)
        if found and _normal(found[1]) == _normal(package) and found[2] != _CONTRIBUTORS:
            return f"pip install 'minnow[{found[2]}]'"
    return f"pip install {package}"


def _normal(name: str) -> str:
    """A name as packages are compared by."""
    return re.sub(r"[-_.]+", "-", name).lower()
