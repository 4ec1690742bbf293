"""Runs MNN's converter or quantizer: started by the Python of an environment that has MNN; imports nothing of ours.

    python mnn_tools.py mnnconvert|mnnquant ARGUMENT...

It calls the native module of the package: the Python modules around it contact a server.
"""

import importlib.util
import sys
from pathlib import Path


def tools():
    root = Path(importlib.util.find_spec("MNN").submodule_search_locations[0])
    (place,) = [*root.glob("_tools*.so"), *root.parent.glob("_tools*.so")]
    spec = importlib.util.spec_from_file_location("_tools", place)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    getattr(tools(), sys.argv[1])(sys.argv[1:])
