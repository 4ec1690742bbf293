"""Truth values, comparisons and whole numbers: known results, and one form for what can be said in several."""
