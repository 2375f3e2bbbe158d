"""Losses and normalisations."""
