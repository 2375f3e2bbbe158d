"""Deep Q-learning: replay from a deque, a target network, Huber loss."""

import copy
import random
from collections import deque, namedtuple

import torch
import torch.nn.functional as F
from torch import nn

Transition = namedtuple("Transition", "state action reward next_state done")


class Pole:
    """A point pushed left or right; it must stay near zero."""

    def reset(self):
        self.x, self.v, self.t = 0.3, 0.0, 0
        return torch.tensor([self.x, self.v])

    def step(self, action):
        self.v += 0.1 * (1 if action else -1) + 0.05 * self.x
        self.x += 0.1 * self.v
        self.t += 1
        done = abs(self.x) > 1 or self.t >= 12
        return torch.tensor([self.x, self.v]), 1.0 - abs(self.x), done


def network():
    return nn.Sequential(
        nn.Linear(2, 24), nn.ReLU(), nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 2)
    )


online = network()
with torch.no_grad():
    for k, p in enumerate(online.parameters()):
        p.copy_((torch.arange(p.numel()) * 0.41 + k).sin().view_as(p) * 0.4)
target = copy.deepcopy(online)
target.requires_grad_(False).eval()
optimizer = torch.optim.AdamW(online.parameters(), lr=5e-3, amsgrad=True)
chance = random.Random(3)
memory = deque(maxlen=60)
env = Pole()
state = env.reset()
updates = 0
while updates < 20:
    # explores by the clock, so that rounding cannot change what is played
    action = chance.randrange(2)
    next_state, reward, done = env.step(action)
    memory.append(Transition(state, action, reward, next_state, done))
    state = env.reset() if done else next_state
    if len(memory) < 32:
        continue
    batch = Transition(*zip(*chance.sample(list(memory), 16)))
    states, next_states = torch.stack(batch.state), torch.stack(batch.next_state)
    actions = torch.tensor(batch.action).unsqueeze(1)
    rewards = torch.tensor(batch.reward)
    running = ~torch.tensor(batch.done)
    q = online(states).gather(1, actions).squeeze(1)
    with torch.no_grad():
        best = target(next_states).max(1).values
        goal = rewards + 0.9 * best * running
    loss = F.smooth_l1_loss(q, goal)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_value_(online.parameters(), 1.0)
    optimizer.step()
    updates += 1
    if updates % 5 == 0:
        with torch.no_grad():
            for slow, fast in zip(target.parameters(), online.parameters()):
                slow.lerp_(fast, 0.5)
    print(f"update {updates} loss {loss.item():.5f} q {q.mean().item():.5f}")
print(all(p.grad is None for p in target.parameters()), len(memory))
