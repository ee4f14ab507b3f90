"""Speed and accuracy bars, each a ratio measured in one run: ``python -m benchmarks.<name>``."""
