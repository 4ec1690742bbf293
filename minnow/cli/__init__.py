"""The command `mnnconvert`. Each module of this package whose name has no underscore in front is a command."""

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

    Ctrl-C ends it with 130 from the first moment on. SIGTERM, and SIGHUP of a terminal that closes, end it with 128 and
    the number of the signal, after the removal of what is half written. What the caller has ignored stays ignored.
    """
    if TYPE_CHECKING:
        import signal
    else:  # every interpreter has it loaded; the module around it imports for milliseconds
        import _signal as signal

    # Until there is something to clean up the process just ends: an exception would come out of any import.
    interruptible = signal.getsignal(signal.SIGINT) == signal.default_int_handler
    if interruptible:
        signal.signal(signal.SIGINT, _leave)
        sys.unraisablehook = _interrupt_again
    from minnow.cli._app import run

    try:
        if interruptible:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) == signal.SIG_DFL:
                signal.signal(number, _terminate)
        code = run(list(sys.argv[1:] if argv is None else argv))
    except KeyboardInterrupt:  # beside the command: while its message is written, for one
        code = _INTERRUPTED
    if interruptible:
        signal.signal(signal.SIGINT, _leave)
    _end(code)


def _end(code: int) -> NoReturn:
    """Ends the process without taking the model in memory apart object by object.

    After a conversion of a small model that is a seventh of the whole time, and Ctrl-C finds an interpreter in pieces.
    """
    import atexit
    import os
    from contextlib import suppress

    atexit._run_exitfuncs()
    for stream in filter(None, (sys.stdout, sys.stderr)):
        with suppress(OSError, ValueError):  # what reads it has gone
            stream.flush()
    os._exit(code)


def _leave(number: int, frame: object) -> None:
    import os

    os.write(2, b"interrupted\n")
    os._exit(_INTERRUPTED)


def _interrupt_again(lost: UnraisableHookArgs) -> None:
    """Has Ctrl-C end the command also where it came during a callback, whose exceptions Python only prints."""
    if lost.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(lost)
        return
    import signal

    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.001)


def _terminate(number: int, frame: object) -> None:
    """Ends what runs as an exception does, so that temporary files and processes go."""
    sys.exit(128 + number)
