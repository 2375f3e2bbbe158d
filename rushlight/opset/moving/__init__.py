"""Ops that rearrange elements into a new tensor."""
