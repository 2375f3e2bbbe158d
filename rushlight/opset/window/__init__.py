"""Ops over sliding windows and sampling grids."""
