"""Ops of no common kind."""
