"""The names of numpy, for Vars."""
