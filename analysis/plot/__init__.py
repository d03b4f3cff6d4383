"""One figure a file, one style for all; each gives a matplotlib Figure and its data as a table."""
