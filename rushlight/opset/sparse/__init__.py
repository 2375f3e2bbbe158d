"""Sparse layouts."""
