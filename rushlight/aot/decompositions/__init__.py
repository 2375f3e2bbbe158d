"""Ops in terms of other ops: decompositions, and the tables of them that tracing takes."""
