"""Monte Carlo studies with a known truth: short in the tests, at full size in `benchmarks/`."""
