"""A group of commands that are modules of a package. Those whose names begin with an underscore are none."""

from __future__ import annotations

import importlib
import pkgutil

import click


class ModuleGroup(click.Group):
    """Finds commands by file name, and imports them on first use.

    Attributes:
        package: the name of the package.
    """

    package = "minnow.cli"

    def list_commands(self, ctx: click.Context) -> list[str]:
        found = pkgutil.iter_modules(importlib.import_module(self.package).__path__)
        return sorted(m.name for m in found if not m.name.startswith("_"))

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in self.list_commands(ctx):
            return None
        command = importlib.import_module(f"{self.package}.{name}").command
        return command if isinstance(command, click.Command) else None
