"""Policies on your own hardware: exact log-probs from weights. Imported only where it is used."""
