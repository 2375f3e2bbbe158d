"""Ops that contract dims."""
