"""`python -m minnow.compat SCRIPT [ARGUMENTS]`: runs a program for MNN with Minnow."""

from __future__ import annotations

import os
import runpy
import sys

from minnow.compat import install

USAGE = """usage: python -m minnow.compat SCRIPT [ARGUMENTS]

Runs a Python program in which `import MNN` gives Minnow.
"""


def main() -> int:
    arguments = sys.argv[1:]
    if arguments[:1] in (["-h"], ["--help"]):
        sys.stdout.write(USAGE)
        return 0
    if not arguments or not os.path.exists(arguments[0]):
        missing = f"\nthere is no file {arguments[0]}\n" if arguments else ""
        sys.stderr.write(USAGE + missing)
        return 2
    install()
    sys.argv = arguments
    sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))  # as Python does for a script
    runpy.run_path(arguments[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main())
