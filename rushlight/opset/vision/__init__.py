"""Operators of libraries for pictures, which compile them for themselves: boxes and regions."""
