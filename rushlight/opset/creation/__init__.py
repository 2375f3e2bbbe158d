"""Ops that make tensors: filled, copied, random."""
