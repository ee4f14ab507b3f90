"""Overlap, gates and transport: what the data can and cannot support."""
