"""`RuntimeManager`: where and how modules from files run, and the file that keeps their packed weights."""

from __future__ import annotations

import os
import weakref
from typing import TYPE_CHECKING, Any

from minnow.expr.names import named
from minnow.interpreter import setting
from minnow.interpreter.model_file import ModelFile
from minnow.schema.errors import UsageError

if TYPE_CHECKING:
    from minnow.nn.loaded_module import LoadedModule


class RuntimeManager:
    """Where and how modules run; `create_runtime_manager` makes it."""

    def __init__(self, configuration: setting.Configuration) -> None:
        self._configuration = configuration
        self._wishes = setting.Wishes()
        self._cache = ""
        self._external = ""
        self._modules: list[weakref.ref[LoadedModule]] = []

    def set_cache(self, path: Any) -> None:
        """Says where packed weights are looked for and `update_cache` writes them: for the first module that is loaded
        with this manager after that. The file need not be there."""
        self._cache = setting.path(path)
        self._modules.clear()

    def update_cache(self) -> None:
        """Writes the weights of the module as they are packed, so that later programs need not pack them.

        Raises:
            UsageError: `set_cache` was not called before a module was loaded.
            WriteError: the file cannot be written.
        """
        if not self._cache:
            raise UsageError("there is no cache file to update", hint="set_cache(path) before load_module_from_file")
        module = self._modules[0]() if self._modules else None
        if module is None:
            raise UsageError("no module has been loaded with this manager since set_cache, or it is gone")
        module.write_packed(self._cache)

    def set_external(self, path: Any, type: Any = None) -> None:
        """Says where the weights of a model are that lie in a file of their own.

        Args:
            path: the file; the folder that it is in, for type 2.
            type: number of the path in MNN (0 to 4): all but 2, the folder of weights, change nothing.
        """
        checked = setting.path(path)
        if type is not None and (isinstance(type, bool) or not isinstance(type, int) or not 0 <= type <= 4):
            raise UsageError(f"the type of path {type!r} is unknown", hint="0 to 4")
        if type in (None, 2):
            self._external = checked

    @property
    def configuration(self) -> setting.Configuration:
        """What it was made with, and what modes and hints change of it.

        Raises:
            DeviceError: a mode asks for a backend that the machine lacks.
        """
        return self._wishes.applied(self._configuration)

    def set_mode(self, mode: Any) -> None:
        """Sets a mode (0 to 17) for modules that are loaded after it; docs/express.md says what each changes.

        Raises:
            UsageError: it is unknown.
        """
        self._wishes.set_mode(mode)

    def set_hint(self, hint: Any, value: Any) -> None:
        """Sets a hint (0 to 18) for modules that are loaded after it; docs/express.md says what each changes.

        Raises:
            UsageError: it is unknown, or the value is none that it can have.
        """
        self._wishes.set_hint(hint, value)

    def get_info(self) -> dict[str, Any]:
        """Backend, device, precision, threads, why the CPU replaces another backend, and modes and hints by name."""
        c = self.configuration
        return {
            "backend": c.backend,
            "device": c.device,
            "precision": c.precision,
            "threads": c.threads,
            "fallback": c.fallback,
            "modes": self._wishes.modes,
            "hints": self._wishes.hints,
        }

    def open(self, file_name: Any) -> ModelFile:
        """The model file, with the companion weights file and the cache of this manager."""
        external = self._external
        if external and os.path.isdir(external) and isinstance(file_name, (str, os.PathLike)):
            external = os.path.join(external, os.path.basename(os.fspath(file_name)) + ".weight")
        return ModelFile(file_name, external, "" if self._modules else self._cache)

    def note(self, module: LoadedModule) -> None:
        """Keeps in mind that the module was loaded with it."""
        self._modules.append(weakref.ref(module))


@named("nn")
def create_runtime_manager(configs: Any) -> RuntimeManager:
    """Where and how modules from files are to run.

    Args:
        configs: a tuple of dicts, of which the first counts, as `Interpreter.createSession` takes them: backend,
            precision, numThread, timeout, maxMemory.

    Raises:
        UsageError: there is none, or a value is unknown.
    """
    if isinstance(configs, (tuple, list)) and not configs:
        raise UsageError("create_runtime_manager takes a tuple with a dict", hint="({'backend': 'CPU'},)")
    return RuntimeManager(setting.read(configs))
