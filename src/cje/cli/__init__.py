"""The commands: thin, no statistics."""
