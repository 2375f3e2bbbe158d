"""Ahead-of-time capture: functions on tensors become graphs, forward and backward together."""
