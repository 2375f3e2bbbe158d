"""Schedulers: noise in, and ten steps back with a model that is one line."""

import diffusers
import torch
from showing import show

NAMES = (
    "DDPM DDIM PNDM LMSDiscrete EulerDiscrete EulerAncestralDiscrete HeunDiscrete "
    "DPMSolverMultistep DPMSolverSinglestep UniPCMultistep KDPM2Discrete DEISMultistep "
    "FlowMatchEulerDiscrete TCD LCM"
)
for name in NAMES.split():
    scheduler = getattr(diffusers, f"{name}Scheduler")()
    torch.manual_seed(0)
    sample, noise = torch.randn(1, 3, 8, 8), torch.randn(1, 3, 8, 8)
    if name != "FlowMatchEulerDiscrete":
        scheduler.set_timesteps(10)
        show(**{f"{name}_noised": scheduler.add_noise(sample, noise, scheduler.timesteps[3:4])})
    scheduler.set_timesteps(10)
    generator = torch.Generator().manual_seed(1)
    state = noise * getattr(scheduler, "init_noise_sigma", 1.0)
    takes = {"generator": generator} if "generator" in scheduler.step.__code__.co_varnames else {}
    for time in scheduler.timesteps:
        scale = getattr(scheduler, "scale_model_input", None)
        given = state if scale is None else scale(state, time)
        state = scheduler.step(torch.tanh(given) * 0.3, time, state, **takes).prev_sample
    show(**{name: state, f"{name}_times": scheduler.timesteps})
