"""Loops over time that are recurrent layers."""
