"""Fourier transforms of PyTorch, spectra of windows of a signal, and those windows."""
