"""Ops that gather and scatter by index."""
