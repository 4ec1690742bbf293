"""Many conversions at once: each model of a configuration file in each of its variants, for CI and for fleets.

A cell is one model in one variant (`cell.py`); its result is a list of checks with metrics (`result.py`).
Reports of results are in `minnow.report`.
"""
