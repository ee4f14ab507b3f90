"""From prompts to estimates: stages, store, executors (seed 002)."""
