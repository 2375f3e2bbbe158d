"""REINFORCE on a walk along a line, with distributions."""

import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(543)
policy = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
optimizer = torch.optim.RMSprop(policy.parameters(), lr=0.02)
for episode in range(12):
    place, logs, rewards = torch.randn(()).item(), [], []
    for turn in range(10):
        choice = Categorical(logits=policy(torch.tensor([place, turn / 10.0])))
        action = choice.sample()
        logs.append(choice.log_prob(action))
        place += (2 * action.item() - 1) * 0.3 + 0.05 * torch.randn(()).item()
        rewards.append(-abs(place))
    returns = torch.tensor(rewards).flip(0).cumsum(0).flip(0)
    returns = (returns - returns.mean()) / (returns.std() + 1e-6)
    loss = -(torch.stack(logs) * returns).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(episode, f"{sum(rewards):.4f}", f"{loss.item():.4f}")
