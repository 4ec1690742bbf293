"""Runs `.mnn` files: the C++ engine (`src`), its Python API (`session`), verification and benchmark."""
