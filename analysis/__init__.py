"""From results to a decision: budgets, tails, comparisons, plots, verdict and report."""
