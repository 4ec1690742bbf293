"""What is unused, the same twice, known already, or does nothing."""
