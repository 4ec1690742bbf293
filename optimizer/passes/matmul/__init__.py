"""Matrix products with constant weights, and what they take in."""
