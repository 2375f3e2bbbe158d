"""Modules of `nn` as they are compiled."""

FORMS: dict = {}
