"""Programs that leave Python: `export` turns a module into a graph with its state.

Names are imported when they are first used.
"""

from __future__ import annotations

from rushlight.base.lazy import namespace

HOMES = {
    **dict.fromkeys(
        (
            *("ConstantArgument", "CustomObjArgument", "ExportBackwardSignature"),
            *("ExportGraphSignature", "InputKind", "InputSpec", "ModuleCallEntry"),
            *("ModuleCallSignature", "OutputKind", "OutputSpec", "SymIntArgument"),
            "TensorArgument",
        ),
        ".signature",
    ),
    "ExportedProgram": ".program",
    "export": ".driver",
    **dict.fromkeys(("export_for_inference", "export_for_training"), ".private"),
    "register_dataclass": ".records",
    "draft_export": ".draft",
    **dict.fromkeys(("Dim", "dims", "dynamic_dim"), ".dimensions"),
    **dict.fromkeys(("AdditionalInputs", "ShapesCollection"), ".shapes"),
    "refine_dynamic_shapes_from_suggested_fixes": ".fixes",
    **dict.fromkeys(("unflatten", "UnflattenedModule", "FlatArgsAdapter"), ".unflattening"),
    **dict.fromkeys(("default_decompositions", "CustomDecompTable"), ".decompositions"),
    **dict.fromkeys(("load", "save"), ".serde.archive"),
}

__getattr__, __dir__ = namespace(__name__, HOMES)
