"""The refusals of `export`: see `reasons`. Tracing and programs have RL1500 to RL1529, dims and
relations of sizes RL1530 to RL1559, files RL1560 to RL1579, packages RL1580 to RL1599."""

from __future__ import annotations

from rushlight.base.errors import Reason

__all__ = ["EXPORT_REASONS"]

EXPORT_REASONS: dict[str, Reason] = {
    "RL1502": Reason(
        "An input of the program is given another geometry in place",
        "A program without writes returns new values of its inputs, which have their sizes.",
        "Use an op that returns a view instead, such as transpose for transpose_.",
    ),
    "RL1503": Reason(
        "The program writes to the constant {name}",
        "Only parameters, buffers and inputs of the call have new values after a call.",
        "Register the tensor with register_buffer().",
    ),
    "RL1504": Reason(
        "The program does not say how the module {path!r} is called, so that no other can be",
        "Programs keep the arguments and results of the modules that export was told to preserve.",
        "Export with preserve_module_call_signature=({path!r},).",
    ),
    "RL1530": Reason(
        "Attempted to add {other} to {name}, where an integer was expected. "
        "(Only increasing linear operations with integer coefficients are supported.)",
        remedy="Add an integer: dim + 1.",
    ),
    "RL1531": Reason(
        "Attempted to subtract {other} from {name}, where an integer was expected. "
        "(Only increasing linear operations with integer coefficients are supported.)",
        remedy="Subtract an integer from the dim: dim - 1.",
    ),
    "RL1532": Reason(
        "Attempted to negate {name}. "
        "(Only increasing linear operations with integer coefficients are supported.)",
        remedy="Use a sum or product of the dim with positive integers.",
    ),
    "RL1533": Reason(
        "Attempted to multiply {other} with {name}, where a positive integer was expected. "
        "(Only increasing linear operations with integer coefficients are supported.)",
        remedy="Multiply the dim by a positive integer: 2 * dim.",
    ),
    "RL1534": Reason(
        "Expected tensor as input to dynamic_dim but got {actual}",
        remedy="Pass a tensor that is among the arguments of the export.",
    ),
    "RL1535": Reason(
        "Cannot mark 0-dimension tensors to be dynamic",
        remedy="Only tensors with dims have sizes that may vary.",
    ),
    "RL1536": Reason(
        "Expected the dimension passed to dynamic_dim to be in the range [0:{last}] "
        "but got {index}, which is out of bounds for the given tensor.",
        remedy="Name a dim that the tensor has.",
    ),
    "RL1537": Reason(
        "Found different definitions {first} and {second} for the same symbolic dimension {dim}!",
        "A dim is known by its name.",
        "Use one Dim object, or another name.",
    ),
    "RL1538": Reason(
        "Unexpected dimension mapped to index {index} in input tensor shape {shape} specified at "
        "`dynamic_shapes{path}` (expected None, an int, a Dim, Dim.AUTO, Dim.STATIC, or "
        "Dim.DYNAMIC, but got {actual!r} instead)",
        remedy="Use one of these for every dim.",
    ),
    "RL1539": Reason(
        "Expected dynamic shape spec {shape} specified at `dynamic_shapes{path}` to have the same "
        "length as the actual tensor shape {size} (expected {expected}, but got {actual} instead)",
        remedy="Give one entry for each dim, or a dict of those that vary.",
    ),
    "RL1540": Reason(
        "Unexpected input tensor shape {shape} specified at `dynamic_shapes{path}` (expected "
        "either a list/tuple of dimensions, or a dict mapping indices to dimensions, where each "
        "dimension is an int, a Dim, Dim.AUTO, Dim.STATIC, or Dim.DYNAMIC)",
        remedy="Use a dict from numbers of dims to Dim objects, or one entry for each dim.",
    ),
    "RL1541": Reason(
        "Cannot associate shape {shape} specified at `dynamic_shapes{path}` to non-tensor type "
        "{actual} at `inputs{path}` (expected None)",
        remedy="Use None for arguments that are no tensors.",
    ),
    "RL1542": Reason(
        "Detected mismatch between the structure of `inputs` and `dynamic_shapes`: {difference}",
        remedy="Nest dynamic_shapes as the inputs are nested; an instance of a registered class "
        "is described by the list of its parts.",
    ),
    "RL1543": Reason(
        "When `dynamic_shapes` is specified as a dict, its top-level keys must be the arg names "
        "{expected} of `inputs`, but here they are {actual}. {advice}",
        remedy="Use the names of the parameters of forward.",
    ),
    "RL1544": Reason(
        "Expected shape[{dim}] = {size} of input Tensor to be of the form {form}, "
        "where {root} is an integer",
        remedy="Take example inputs that fit, or another relation.",
    ),
    "RL1545": Reason(
        "Expected input {source} to be equal to {form}, where {root} = {value}, but got {size}",
        remedy="Take example inputs that fit, or another relation.",
    ),
    "RL1546": Reason(
        "{source} = {size} is not equal to {other} = {expected}",
        "One Dim stands for both sizes.",
        "Take example inputs that fit, or two Dims.",
    ),
    "RL1547": Reason(
        "Static shape constraint of {expected} does not match input size of {size}, for {source}",
        remedy="Give the size that the example has, or a Dim.",
    ),
    "RL1548": Reason(
        "Unable to specify input integers as dynamic through named Dims. Please use "
        "Dim.AUTO/DYNAMIC instead.",
        remedy="Dim.AUTO lets an integer vary.",
    ),
    "RL1549": Reason(
        "Suggested fixes not found in error message given to "
        "refine_dynamic_shapes_from_suggested_fixes()",
        remedy="Pass the text of the error that export raised.",
    ),
    "RL1550": Reason(
        "Some tensors that were assigned shapes were not found in args. "
        "Maybe such tensors were copied when passing them as args? "
        "Maybe such tensors are contained in classes that were not registered with pytree?",
        remedy="Assign shapes to the tensors that are passed.",
    ),
    "RL1551": Reason(
        "Found the following conflicts between user-specified ranges and inferred ranges from "
        "model tracing:\n{conflicts}",
        remedy="Widen the bounds of these dims, or take them from the message.",
    ),
    "RL1552": Reason(
        "The following inputs were found to have differing {what}, {consequence}: {values}.",
        remedy="Pass inputs that differ in the sizes of tensors alone.",
    ),
    "RL1560": Reason(
        "The file cannot be read or written as an exported program: {what}",
        "A file says what it holds, and is believed only as far as it bears that out.",
        "Check that torch.export.save wrote the file and that it is whole.",
    ),
    "RL1561": Reason(
        "The file calls {name!r}, which is no operator that is known here",
        "Operators of users are known once the module that defines them is imported.",
        "Import what registers the operator, or decompose the program before it is saved.",
    ),
    "RL1570": Reason(
        "There is no translation of {name} to ONNX",
        "ONNX has no operator for it, or nobody has written it in those that ONNX has.",
        "Write the model with other operators, or decompose this one: "
        "program.run_decompositions({{op: rule}}).",
    ),
    "RL1571": Reason(
        "This cannot be said in ONNX: {what}",
        remedy="Give sizes that are numbers, or write the model in another way.",
    ),
    "RL1572": Reason(
        "Rushlight does not support {what} (RL1572).",
        "Models are made from exported programs only.",
        "torch.onnx.export(model, args, path, dynamic_shapes=...) makes one.",
    ),
    "RL1580": Reason(
        "The package cannot be loaded: {what}",
        "A package is used only if all of it is what was written.",
        "Write it again with rushlight package, by the version that loads it.",
    ),
    "RL1581": Reason(
        "Packages hold code for x86-64 under the System V calling convention, and this is {found}",
        remedy="Load the program itself here: torch.export.load(path).module().",
    ),
    "RL1582": Reason(
        "The system does not let memory be executed ({reason})",
        "A package's code is put into memory that is then closed to writing and may be executed.",
        "Let this process execute memory it has made, or run the program without a package.",
    ),
    "RL1583": Reason(
        "There is no target {name!r}; known are {known}",
        remedy="A target is a set of instructions to make code for.",
    ),
    "RL1584": Reason(
        "This CPU cannot run any code of the package: {wanted}",
        "Code runs only where all instructions that it may use are there.",
        "Write the package for the target x86-64, too, which every CPU of its kind has.",
    ),
    "RL1585": Reason(
        "The compiler made code that a package cannot hold: {what}",
        remedy="Please report the program.",
    ),
    "RL1586": Reason(
        "A package cannot hold {what}",
        "What a package runs is code, tensors on the CPU, and operators by their names.",
        "Leave it out of the program, or run the program without a package.",
    ),
    "RL1587": Reason(
        "A C library cannot hold {what}",
        "In C there are loops, products, windows, recurrent layers, sorting, choices of elements, "
        "views, writes and sizes.",
        "Write the model with such ops, or use the package from Python.",
    ),
    "RL1588": Reason(
        "There is no C compiler to link a library with; looked for {names}",
        remedy="Install one, or name it in the environment variable CC.",
    ),
    "RL1589": Reason(
        "The C compiler {compiler} failed: {text}",
        remedy="Name another one in the environment variable CC.",
    ),
    "RL1590": Reason(
        "Tried to instantiate class '{name}', but it does not exist! Ensure that it is registered "
        "via torch::class_",
        "Classes of torch.classes are registered by compiled libraries, which are PyTorch's.",
        "Write the class in Python; for export, lift its state to tensors.",
    ),
    "RL1591": Reason(
        "Rushlight does not support {what} (RL1591).",
        "It was compiled for PyTorch's tensors.",
        "Define its operators with torch.library.custom_op.",
    ),
    "RL1593": Reason(
        "Packages are made without the settings {names}; known is {known}",
        "A setting that changes nothing would only seem to be one.",
        "Leave it out.",
    ),
}
