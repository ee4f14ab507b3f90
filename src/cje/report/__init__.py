"""Draws neutral parts (forests, curves, tables, findings) as pictures and HTML."""
