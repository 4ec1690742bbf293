"""Timing of a `.mnn` file, alone or against other runtimes, interleaved in one run."""
