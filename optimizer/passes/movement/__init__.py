"""What only moves elements: transposes, reshapes, slices, concatenations, padding, resizing."""
