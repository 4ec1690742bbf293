"""Weights of few bits: a stage after the other passes, which changes constants and how they are read.

`arithmetic.py` makes integers of floats, `layers.py` finds the weights, `compress.py` replaces them. `expand.py` has
the nodes for weights that the format cannot compress itself, `choice.py` chooses widths for single layers.
"""
