"""What depends on the order of elements, or on which are equal: sorting, quantiles, sets, histograms."""
