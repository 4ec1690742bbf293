"""Linear algebra of PyTorch: factors of matrices, inverses, singular values."""
