"""Datasets, samplers and the loader that turns them into batches.

The public names are those of `rushlight.utils.data`.
"""
