"""What the programs of this folder print: `> name: shape sum values`, one line a result."""

import torch


def show(**results):
    """Print each result: of a tensor its shape, mean, mean magnitude and first numbers."""
    for name, value in results.items():
        print(f"> {name}: {_text(value)}", flush=True)


def _text(value):
    if isinstance(value, torch.Tensor):
        value = value.detach()
        if value.is_complex():
            value = torch.view_as_real(value)
        flat = value.cpu().reshape(-1).double()
        head = " ".join(f"{number:.6g}" for number in flat[:8].tolist())
        if flat.numel() <= 8:
            return f"{list(value.shape)} [{head}]"
        mean, size = flat.mean().item(), flat.abs().mean().item()
        return f"{list(value.shape)} mean {mean:.6g} size {size:.6g} [{head}]"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_text(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_text(item)}" for key, item in value.items()) + "}"
    if hasattr(value, "item") and hasattr(value, "shape") and value.shape == ():
        return _text(value.item())
    return str(value)


def gradients(module):
    """One number a module: the norm of all gradients, and how many parameters have one."""
    grads = [p.grad.double().norm() for p in module.parameters() if p.grad is not None]
    return [torch.stack(grads).norm().item(), len(grads)]
