"""Judge score -> oracle scale, and importance-weight stabilisation (seed 000)."""
