"""Capture of Python bytecode: functions become graphs, guards and generated Python.

`bytecode`, `sources`, `values`, `tracer`, `calls`, `builtins`, `containers`, `iterators`, `frame`,
`guards`, `emit`, `breaks` and `cache` know no tensors: what they ask of a tensor library is a
`world.World`. They import nothing beyond `rushlight.base` and `rushlight.graph`, so that they run
where there is no NumPy.
"""
