"""Six agents: a short training, an action, and the same action after saving and loading."""

import tempfile
from pathlib import Path

from showing import show
from stable_baselines3 import A2C, DDPG, DQN, PPO, SAC, TD3

late = {"learning_starts": 20, "batch_size": 16}
agents = {
    PPO: ("CartPole-v1", 128, {"n_steps": 64, "batch_size": 32, "n_epochs": 2}),
    A2C: ("CartPole-v1", 128, {"n_steps": 8}),
    DQN: ("CartPole-v1", 128, {**late, "train_freq": 4}),
    SAC: ("Pendulum-v1", 40, late),
    TD3: ("Pendulum-v1", 40, late),
    DDPG: ("Pendulum-v1", 40, late),
}
with tempfile.TemporaryDirectory() as folder:
    for cls, (world, steps, options) in agents.items():
        agent = cls(
            "MlpPolicy", world, seed=0, device="cpu", policy_kwargs={"net_arch": [16]}, **options
        )
        agent.learn(steps)
        seen = agent.get_env().reset()
        size = sum(p.detach().abs().sum().item() for p in agent.policy.parameters())
        show(**{cls.__name__: [agent.predict(seen, deterministic=True)[0].tolist(), size]})
        agent.save(Path(folder) / "agent.zip")
        again = cls.load(Path(folder) / "agent.zip", device="cpu")
        show(**{f"{cls.__name__}_again": again.predict(seen, deterministic=True)[0].tolist()})
