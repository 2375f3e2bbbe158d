"""Ops that alias their input, and what goes with them."""
