"""What the file format has no form for, in terms of what it has; for every runtime of the format."""
