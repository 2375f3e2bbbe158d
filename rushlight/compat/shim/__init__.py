"""A folder for PYTHONPATH, not a package to import from: it makes `torch` mean rushlight.

`rushlight run` puts it first on PYTHONPATH, so that Python processes the script starts
(subprocess, multiprocessing, launchers) find `torch.py` and `functorch.py` here before any
installed torch. It costs nothing until they import torch. A process started with `-I` or `-E`,
or with an environment of its own, does not see it.
"""
