"""torch.distributed.rpc: not there; its names can be imported, and refuse when they are used."""

from __future__ import annotations

from rushlight.base.lazy import namespace

NAMES = (
    "BackendType PyRRef RRef RemoteException TensorPipeRpcBackendOptions WorkerInfo "
    "get_worker_info init_rpc remote rpc_async rpc_sync shutdown"
)

__getattr__, __dir__ = namespace(__name__, refused={"RL0013": NAMES})


def is_available() -> bool:
    return False
