"""Passes over graphs: torch's public names."""
