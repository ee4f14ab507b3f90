"""Policies: generate a response, or score a given one (teacher forcing)."""
