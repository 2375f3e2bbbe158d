"""Programs over ops that iterate: torch functions that are no operators."""
