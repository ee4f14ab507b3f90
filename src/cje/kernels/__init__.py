"""Pure functions on NumPy arrays: arrays in, arrays out; no state, no I/O, no logging."""
