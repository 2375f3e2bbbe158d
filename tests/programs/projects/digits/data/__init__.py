from .segments import Segments
from .transforms import Compose, Noise, Normalize

__all__ = ["Compose", "Noise", "Normalize", "Segments"]
