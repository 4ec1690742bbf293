"""The fake device for the tests of this folder."""

from pathlib import Path

import pytest
from fake import build


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> pytest.MonkeyPatch:
    """Makes the device "fake" available; the result sets what it does (see fake_device.cpp)."""
    monkeypatch.setenv("MINNOW_BACKENDS", str(build(Path(request.config.rootpath) / "build" / "fake_device")))
    monkeypatch.setenv("MINNOW_FAKE_DELAY", "0")
    return monkeypatch
