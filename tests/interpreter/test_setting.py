"""Modes, hints and limits of sessions: those that have a meaning here change something."""

from __future__ import annotations

import numpy as np
import pytest

import minnow
from minnow import nn
from minnow.errors import DeadlineError, DeviceError, UnsupportedError, UsageError
from minnow.interpreter import setting

from .test_like_mnn import small_model

IMAGE = np.random.default_rng(0).random((1, 3, 12, 10), np.float32)
LARGE = np.zeros((1, 3, 1500, 1500), np.float32)
THREADS = 4


@pytest.fixture
def net() -> minnow.Interpreter:
    return minnow.Interpreter(small_model())


def index(name: str) -> int:
    """The number of a mode or a hint."""
    rows = setting.MODES if name.startswith(("Session", "Module")) else setting.HINTS
    return [row.name for row in rows].index(name)


def test_each_has_an_effect_or_a_reason() -> None:
    for row in (*setting.MODES, *setting.HINTS):
        assert bool(row.effect) != bool(row.why), row.name
    numbers = {n: index(m) for n, m in {
        "RELEASE": "Session_Release", "DIRECT": "Session_Resize_Direct", "FIXED_BACKEND": "Session_Backend_Fix",
        "ANY_BACKEND": "Session_Backend_Auto", "THREAD_NUMBER": "INIT_THREAD_NUMBER", "CORES": "CPU_CORE_IDS",
    }.items()}  # fmt: skip
    assert numbers == {name: getattr(setting, name) for name in numbers}


def test_a_released_session_has_no_callbacks(net: minnow.Interpreter) -> None:
    net.setSessionMode(index("Session_Release"))
    session = net.createSession()
    assert net.runSession(session) == 0
    with pytest.raises(UsageError, match="Session_Release has no callbacks"):
        net.runSessionWithCallBack(session, lambda t, n: True, lambda t, n: True)
    net.setSessionMode(index("Session_Debug"))  # of the pair the latest counts
    assert net.runSessionWithCallBack(net.createSession(), lambda t, n: True, lambda t, n: True) == 0


def test_a_session_is_planned_when_it_is_made(net: minnow.Interpreter) -> None:
    def planned() -> bool:
        (session,) = net.createSession().program._sessions.values()
        return session.stats["arena_bytes"] > 0

    assert not planned()
    net.setSessionMode(index("Session_Resize_Direct"))
    assert planned()


def test_a_backend_that_must_not_be_replaced(net: minnow.Interpreter) -> None:
    net.setSessionMode(index("Session_Backend_Fix"))
    assert net.createSession({"backend": "CPU"}).fallback == ""
    with pytest.warns(UserWarning, match="METAL"), pytest.raises(DeviceError, match="METAL, and Session_Backend_Fix"):
        net.createSession({"backend": "METAL"})
    net.setSessionMode(index("Session_Backend_Auto"))
    with pytest.warns(UserWarning, match="METAL"):
        assert net.createSession({"backend": "METAL"}).configuration.device == "auto"


def test_threads(net: minnow.Interpreter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: THREADS)

    def threads(**config: object) -> int:
        return net.createSession(config).configuration.threads

    assert threads() == THREADS
    net.setSessionHint(index("INIT_THREAD_NUMBER"), 3)
    assert threads() == 3
    assert threads(numThread=1) == 1
    net.setSessionHint(index("CPU_CORE_IDS"), [0, 1])
    assert threads() == 2
    assert threads(numThread=1) == 1
    assert net.getSessionInfo(net.createSession({"numThread": 1}), 4) == 1
    with pytest.raises(UsageError, match="0 is not a number of threads"):
        net.setSessionHint(index("INIT_THREAD_NUMBER"), 0)


def test_limits(net: minnow.Interpreter) -> None:
    session = net.createSession({"timeout": 1e-3})
    net.resizeTensor(net.getSessionInput(session), LARGE.shape)
    with pytest.raises(DeadlineError):
        net.runSession(session)
    session = net.createSession({"maxMemory": 1})
    with pytest.raises(UnsupportedError, match="memory"):
        net.runSession(session)
    with pytest.raises(UsageError, match="timeout"):
        net.createSession({"timeout": -1})


def test_those_of_a_manager_are_for_modules_loaded_after_them() -> None:
    manager = nn.create_runtime_manager(({"numThread": 1, "timeout": 1e-3},))
    module = nn.load_module_from_file(small_model(), [], [], runtime_manager=manager)
    with pytest.raises(DeadlineError):
        module.forward(LARGE)
    with pytest.warns(UserWarning, match="METAL"):
        manager = nn.create_runtime_manager(({"backend": "METAL"},))
    nn.load_module_from_file(small_model(), [], [], runtime_manager=manager).forward(IMAGE)
    manager.set_mode(index("Session_Backend_Fix"))
    with pytest.raises(DeviceError, match="METAL"):
        nn.load_module_from_file(small_model(), [], [], runtime_manager=manager)
    manager.set_mode(index("Session_Backend_Auto"))
    assert manager.get_info()["device"] == "auto"
    assert manager.get_info()["modes"] == ["Session_Backend_Auto"]
