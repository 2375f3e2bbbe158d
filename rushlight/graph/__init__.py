"""Graphs as plain data: nodes, graphs, their names and their text as Python.

Nothing here knows tensors or modules; `host` says what the library above is called by.
"""
