"""Subclasses of Tensor whose elements are laid out in ways of their own."""
