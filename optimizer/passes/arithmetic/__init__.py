"""Arithmetic with constants."""
