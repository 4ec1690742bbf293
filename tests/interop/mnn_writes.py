"""Converts models with MNN's converter. Started by the Python of an environment that has MNN; imports nothing of ours.

    python mnn_writes.py JOB...

A job is a folder with `arguments.json`, the command line of MNN's converter. Jobs are done in order, each announced on
the standard output; one that ends the process leaves the later ones undone. It is to run without a network.
"""

import json
import os
import signal
import sys
from pathlib import Path

import _tools

SECONDS = 60

if __name__ == "__main__":
    announce = os.fdopen(os.dup(1), "w")
    for argument in sys.argv[1:]:
        print("job", argument, file=announce, flush=True)
        job = Path(argument)
        log = os.open(job / "convert.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)
        os.chdir(job)
        signal.alarm(SECONDS)  # which ends the process
        arguments = json.loads((job / "arguments.json").read_text())
        if arguments[0] == "mnnquant":
            _tools.mnnquant(arguments[1:])
        else:
            _tools.mnnconvert(arguments)
        signal.alarm(0)
