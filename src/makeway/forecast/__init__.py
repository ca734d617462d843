"""From the present state forward: run times from the past, many runs, quantiles."""
