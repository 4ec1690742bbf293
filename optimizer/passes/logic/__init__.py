"""Booleans, comparisons and integers: known results, and one form for equivalent expressions."""
