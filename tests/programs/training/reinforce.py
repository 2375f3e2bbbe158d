"""REINFORCE with a baseline on a corridor; actions come from a fixed stream of uniforms."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Categorical, kl_divergence


class Uniforms:
    """A small congruential generator: the same numbers everywhere."""

    def __init__(self, seed):
        self.state = seed

    def __call__(self):
        self.state = (self.state * 1103515245 + 12345) % 2**31
        return self.state / 2**31


class Corridor:
    length = 7

    def reset(self):
        self.position, self.steps = 3, 0
        return self.observe()

    def observe(self):
        return F.one_hot(torch.tensor(self.position), self.length).float()

    def step(self, action):
        self.position += (-1, 0, 1)[action]
        self.steps += 1
        done = self.position in (0, self.length - 1) or self.steps == 15
        reward = 1.0 if self.position == self.length - 1 else -0.05
        return self.observe(), reward, done


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(Corridor.length, 16)
        self.policy = nn.Linear(16, 3)
        self.value = nn.Linear(16, 1)

    def forward(self, x):
        h = F.relu(self.body(x))
        return Categorical(logits=self.policy(h)), self.value(h).squeeze(-1)


model = ActorCritic()
with torch.no_grad():
    for k, p in enumerate(model.parameters()):
        p.copy_((torch.arange(p.numel()) * 0.57 + k).sin().view_as(p) * 0.3)
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
uniform, env = Uniforms(7), Corridor()
for episode in range(20):
    state, done = env.reset(), False
    log_probs, values, rewards, entropies = [], [], [], []
    while not done:
        distribution, value = model(state)
        chosen = (distribution.probs.cumsum(0) < uniform()).sum().clamp(max=2)
        state, reward, done = env.step(chosen.item())
        log_probs.append(distribution.log_prob(chosen))
        entropies.append(distribution.entropy())
        values.append(value)
        rewards.append(reward)
    returns, running = [], 0.0
    for reward in reversed(rewards):
        running = reward + 0.95 * running
        returns.insert(0, running)
    returns, values = torch.tensor(returns), torch.stack(values)
    advantage = returns - values.detach()
    policy_loss = -(torch.stack(log_probs) * advantage).mean()
    loss = policy_loss + 0.5 * F.mse_loss(values, returns) - 0.01 * torch.stack(entropies).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"episode {episode} steps {len(rewards)} loss {loss.item():.5f}")
with torch.no_grad():
    old, _ = model(torch.eye(Corridor.length))
    uniformly = Categorical(logits=torch.zeros(Corridor.length, 3))
    print(old, old.mode.tolist())
    print([f"{v:.4f}" for v in kl_divergence(old, uniformly)])
