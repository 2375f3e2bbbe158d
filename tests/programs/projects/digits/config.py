"""What a run may set, and its defaults."""

from dataclasses import asdict, dataclass, field


@dataclass
class Config:
    model: str = "cnn"
    steps: int = 10
    lr: float = 0.05
    channels: list[int] = field(default_factory=lambda: [4, 8])

    def describe(self) -> str:
        return ", ".join(f"{k}={v}" for k, v in asdict(self).items())
