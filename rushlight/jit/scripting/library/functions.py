"""`nn.functional` as it is compiled."""

__all__ = []
