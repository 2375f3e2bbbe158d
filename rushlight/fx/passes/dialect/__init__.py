"""Passes over graphs of one kind of calls: torch's public names."""
