"""Models without memory: empty weights, device maps, and weights kept on disk."""

import tempfile

import torch
from accelerate import cpu_offload, disk_offload, init_empty_weights, load_checkpoint_and_dispatch
from accelerate.utils import compute_module_sizes, infer_auto_device_map
from safetensors.torch import save_model
from showing import show


def make():
    return torch.nn.Sequential(torch.nn.Linear(6, 10), torch.nn.ReLU(), torch.nn.Linear(10, 4))


torch.manual_seed(0)
whole = make()
x = torch.randn(3, 6)
with init_empty_weights():
    empty = make()
show(device=empty[0].weight.device, sizes=dict(compute_module_sizes(empty)))
show(map=dict(infer_auto_device_map(empty, max_memory={"cpu": 400, "disk": 10000})))
with tempfile.TemporaryDirectory() as folder, torch.no_grad():
    path = f"{folder}/model.safetensors"
    save_model(whole, path)
    show(
        loaded=load_checkpoint_and_dispatch(empty, path, device_map={"": "cpu"})(x), whole=whole(x)
    )
    show(
        offloaded=disk_offload(make(), f"{folder}/off", execution_device=torch.device("cpu"))(
            x
        ).shape
    )
    show(cpu=cpu_offload(whole, execution_device=torch.device("cpu"))(x))
