"""The refusals of names: what torch has and Rushlight knows by name only, the command line and
playing torch's part. See `reasons`."""

from __future__ import annotations

from rushlight.base.errors import Reason

__all__ = ["NAMES_REASONS", "missing"]


def missing(code: str, why: str, remedy: str = "") -> Reason:
    """The reason of a `MissingFeature`, which names the feature and may know a better remedy."""
    return Reason(f"Rushlight does not support {{what}} ({code}).", why, remedy)


NAMES_REASONS: dict[str, Reason] = {
    "RL0011": missing(
        "RL0011",
        "It is about a device that is not driven here.",
        "Ask torch.accelerator.is_available() first, and compute on the CPU.",
    ),
    "RL0012": missing(
        "RL0012",
        "Quantised tensors have the ops that torch gives them on the CPU, and not all of those.",
        "Call dequantize() first, and compute in float32.",
    ),
    "RL0013": missing(
        "RL0013",
        "What of torch.distributed is here is told in docs/distributed.md; this is not.",
    ),
    "RL0014": missing(
        "RL0014",
        "It is the kernel of a vendor's library, which is not used here.",
        "Call the public function that computes the same, such as torch.nn.functional.conv2d.",
    ),
    "RL0015": missing(
        "RL0015",
        "It compiles or loads C++ against PyTorch's headers, and there are none.",
        "Write the operator in Python: torch.library.custom_op.",
    ),
    "RL0016": missing(
        "RL0016",
        "It belongs to the runtime of PyTorch's compiled TorchScript.",
        "Scripted modules run, are saved and loaded through torch.jit.",
    ),
    "RL0017": missing(
        "RL0017",
        "It reads or changes what only PyTorch's own compiler keeps.",
        "torch.compile works without it.",
    ),
    "RL0018": Reason(
        "no tensors can be made of dtype torch.{dtype} (RL0018)",
        "The dtype can be named and compared; its elements have no arithmetic.",
        "Use one of NumPy's integer types, or a float type.",
    ),
    "RL0019": missing(
        "RL0019",
        "It works on stored files or graphs in a form that only PyTorch writes.",
    ),
    # -- processes
    "RL0020": Reason(
        "no MPI is found (RL0020): {cause}. Install one with: pip install 'rushlight[mpi]', or "
        "apt install libopenmpi-dev openmpi-bin && pip install mpi4py",
        "Several processes speak to one another by MPI, through mpi4py.",
    ),
    "RL0021": Reason(
        "MPI did not start as it should (RL0021): {what}",
        remedy="See what `rushlight doctor` says of MPI; mpirun and mpi4py must be of one MPI.",
    ),
    "RL0022": Reason(
        "this process was {before} and cannot become {now} (RL0022)",
        "MPI starts once in a process, with one rank and size.",
        "Start new processes for a group of another size.",
    ),
    "RL0023": Reason(
        "{library} cannot start {size} processes that meet by themselves (RL0023). Start them "
        "with: mpirun -n {size} rushlight run SCRIPT",
        "Open MPI's processes find one another through mpirun only; those of MPICH need none.",
        "Or install MPICH: pip install 'rushlight[mpi]'.",
    ),
    "RL0024": Reason(
        "group {group} has failed before (RL0024): {cause}",
        "After a failure processes no longer agree on what comes next.",
        "End the program, and start again from a checkpoint.",
    ),
    "RL0025": Reason(
        "backend {backend!r} is not there (RL0025); the backends are mpi, and gloo and nccl, which "
        "mean it",
        "Collectives run on MPI, whatever a program calls it.",
    ),
    "RL0026": Reason(
        "more than {number} process groups (RL0026)",
        "The tags of messages have room for so many.",
        "Destroy groups that are no longer needed.",
    ),
    "RL0027": Reason(
        "No rendezvous handler for {scheme}:// (RL0027)",
        remedy="The schemes are env://, tcp://HOST:PORT and file:///PATH.",
    ),
    "RL0028": Reason(
        "{op} writes to a DTensor that is placed {placement}, and has no rule for it (RL0028)",
        "What is written to stays where it is, and this operator needs it whole.",
        "Write to a copy: x.redistribute(placements=[Replicate()]).",
    ),
    # -- command line and compatibility
    "RL1301": missing("RL1301", "The name is one of PyTorch's; nothing stands behind it here."),
    "RL1302": Reason(
        "{root!r} is already imported from {file}; install {package}'s aliases before anything "
        "imports it",
        "A module that has been imported stays what it is.",
    ),
    "RL1313": Reason(
        "{python} does not answer (RL1313): {cause}",
        remedy="Give the path of a Python of version 3.11 or later: rushlight env --python PATH.",
    ),
    "RL1314": Reason(
        "{python} has PyTorch (RL1314): {torch}",
        "Two libraries under one name would mix silently.",
        "Use an environment without it: python -m venv PATH.",
    ),
    "RL1315": Reason(
        "{python} lacks {lacks}, which rushlight needs (RL1315)",
        remedy="Install rushlight there first: PATH/bin/pip install rushlight.",
    ),
    "RL1310": Reason(
        "{url} cannot be fetched: {cause} (RL1310)",
        "There is no network here, or the address is not there.",
        "Fetch the file elsewhere and put it in {place}; a file that is there is not fetched.",
    ),
    "RL1311": Reason(
        "{repository} is not trusted: its code would run with your rights (RL1311)",
        "torch.hub runs what a repository's hubconf.py says.",
        "Pass trust_repo=True once you have read it, or source='local' with a folder.",
    ),
    "RL1312": Reason(
        "SobolEngine has direction numbers for {most} dimensions, not for {dimension} (RL1312)",
        "The table for all 21,201 dimensions would be larger than the rest of the package's data.",
        "Draw fewer dimensions, or use torch.rand.",
    ),
}
