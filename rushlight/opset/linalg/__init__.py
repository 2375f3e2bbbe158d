"""Factorisations, solvers, spectra and functions of matrices."""
