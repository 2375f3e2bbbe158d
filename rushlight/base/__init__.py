"""What everything else stands on: errors, knobs, operator schemas, pytrees, lazy imports.

Knows nothing of tensors and imports neither NumPy nor any optional package.
"""
