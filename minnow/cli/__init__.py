"""The command `mnnconvert`. Each module of this package is a command, unless its name begins with an underscore."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from sys import UnraisableHookArgs
    from typing import NoReturn

_INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of `mnnconvert`: runs a command and exits with its code.

    Ctrl-C ends it with 130, also during imports. SIGTERM and SIGHUP end it with 128 plus the number of the signal,
    after removing temporary files. Signals that the caller ignores stay ignored.
    """
    if TYPE_CHECKING:
        import signal
    else:  # always loaded, while importing `signal` takes milliseconds
        import _signal as signal

    # Until there is something to clean up, the process just exits: an exception would come out of some import.
    interruptible = signal.getsignal(signal.SIGINT) == signal.default_int_handler
    if interruptible:
        signal.signal(signal.SIGINT, _leave)
    sys.unraisablehook = _end_again
    from minnow.cli._app import run

    try:
        if interruptible:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) == signal.SIG_DFL:
                signal.signal(number, _terminate)
        code = run(list(sys.argv[1:] if argv is None else argv))
    except KeyboardInterrupt:  # outside of the command, for example while its message is printed
        code = _INTERRUPTED
    if interruptible:
        signal.signal(signal.SIGINT, _leave)
    _end(code)


def _end(code: int) -> NoReturn:
    """Ends the process without freeing every object.

    For a small model that takes a seventh of the whole time, and Ctrl-C during it would print errors.
    """
    import atexit
    import os
    from contextlib import suppress

    atexit._run_exitfuncs()
    for stream in filter(None, (sys.stdout, sys.stderr)):
        with suppress(OSError, ValueError):  # the reader has closed the pipe
            stream.flush()
    os._exit(code)


def _leave(number: int, frame: object) -> None:
    import os

    os.write(2, b"interrupted\n")
    os._exit(_INTERRUPTED)


def _end_again(lost: UnraisableHookArgs) -> None:
    """Lets Ctrl-C and SIGTERM end the command also during a callback, where Python only prints the exception."""
    import signal

    value = lost.exc_value
    if isinstance(value, SystemExit) and isinstance(value.code, int) and value.code > 128:
        number = value.code - 128
        signal.signal(signal.SIGALRM, lambda *_: _terminate(number, None))
    elif lost.exc_type is KeyboardInterrupt:
        signal.signal(signal.SIGALRM, signal.default_int_handler)
    else:
        sys.__unraisablehook__(lost)
        return
    signal.setitimer(signal.ITIMER_REAL, 0.001)


def _terminate(number: int, frame: object) -> None:
    """Ends the command by an exception, so that temporary files and child processes are removed."""
    sys.exit(128 + number)
