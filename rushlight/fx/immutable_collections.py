"""torch's names for containers that refuse to be changed."""

from rushlight.graph.immutable_collections import immutable_dict, immutable_list

__all__ = ["immutable_dict", "immutable_list"]
