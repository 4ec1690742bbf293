"""Special functions of PyTorch: those of one polynomial or series, and those that a loop computes."""
