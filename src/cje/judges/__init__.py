"""Judges: ask a model (or a callable) for a score of a response, with its variance."""
