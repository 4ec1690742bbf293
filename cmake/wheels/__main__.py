"""`./dev wheels`: builds the wheels, and makes environments to install them into."""

from __future__ import annotations

import sys
from pathlib import Path

from builder import build
from environment import create
from targets import environments, oldest

match sys.argv[1:]:
    case ["build", tools]:
        build(Path(tools).absolute())
    case ["environments"]:
        print(*(environment.name for environment in environments()), sep="\n")
    case ["create", name]:
        (environment,) = (e for e in [*environments(), *oldest()] if e.name == name)
        print(create(environment), environment.file())
    case _:
        sys.exit("usage: python cmake/wheels build TOOLS | environments | create ENVIRONMENT")
