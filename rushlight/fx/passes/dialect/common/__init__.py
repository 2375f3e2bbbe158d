"""Passes over graphs whatever their calls are: torch's public names."""
