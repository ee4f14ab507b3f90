"""Judge uncertainty carried through to the estimate (seed 001)."""
