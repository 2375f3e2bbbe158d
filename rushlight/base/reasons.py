"""The table of refusals: what each code says, why, and what to do instead.

`what` is the exception's text; all three are templates over what the raising code gives. Loaded
when the first refusal is made. Invariant: a code never changes its meaning and is not used again.
The page docs/errors.md is written from it (`make docs`).
"""

from __future__ import annotations

from rushlight.base.errors import Reason
from rushlight.base.reasons_export import EXPORT_REASONS
from rushlight.base.reasons_files import FILES_REASONS
from rushlight.base.reasons_jit import JIT_REASONS
from rushlight.base.reasons_names import NAMES_REASONS, missing

__all__ = ["AREAS", "REASONS"]

AREAS = {
    "RL00": "General",
    "RL01": "Schemas",
    "RL02": "Pytrees",
    "RL03": "Dispatch, modes and levels",
    "RL04": "Operators",
    "RL05": "Sparse and other layouts",
    "RL06": "Autograd and transforms",
    "RL07": "Graphs and tracing",
    "RL08": "Code generation",
    "RL09": "Files",
    "RL10": "Data loading",
    "RL11": "Modules and optimisers",
    "RL12": "Devices, threads and settings",
    "RL13": "Command line and compatibility",
    "RL14": "TorchScript",
    "RL15": "Exported programs",
}


REASONS: dict[str, Reason] = {
    # -- general
    "RL0001": Reason(
        "Rushlight does not support {what} (RL0001).",
        why="PyTorch has it; it is not part of Rushlight.",
    ),
    "RL0002": Reason(
        "{module} is needed here and is not installed (RL0002). "
        "Install it with: pip install 'rushlight[{extra}]'",
        why="Packages that few programs need are installed on request.",
    ),
    "RL0003": Reason(
        "{variable} is {value!r}, which is not {expected}.",
        remedy="Unset {variable} or give it one of those values.",
    ),
    "RL0004": Reason(
        "There is no setting {name!r}.",
        remedy="The settings are: {known}.",
    ),
    "RL0005": Reason(
        "Setting {name!r} takes {expected}, not {value!r}.", remedy="Give a value of that type."
    ),
    "RL0006": Reason(
        "set_num_threads({number}) changed nothing (RL0006): NumPy's BLAS offers no call for it. "
        "Set OMP_NUM_THREADS or the library's own variable before Python starts.",
        why="Threads of the linear algebra library are its own affair.",
    ),
    "RL0007": missing(
        "RL0007", "NumPy's arrays have at most 64 dims.", "Flatten dims that go together."
    ),
    "RL0008": Reason(
        "{module} {found} is installed, and {needed} or newer is needed here (RL0008). "
        "Install it with: pip install -U 'rushlight[{extra}]'",
        why="Another package brought an old version of something that Rushlight builds on.",
    ),
    # -- schemas
    "RL0101": Reason(
        "unknown type specifier {found!r} in schema: {text}",
        remedy="Common types are Tensor, SymInt, int, float, bool, str and Scalar, "
        "each with [] for a list and ? for optional.",
    ),
    "RL0102": Reason(
        "expected {expected} but found {found!r} in schema: {text}",
        remedy="A schema reads: name.overload(Tensor self, *, int dim=0) -> Tensor",
    ),
    "RL0103": Reason(
        "invalid default value {found!r} for argument {argument!r} in schema: {text}",
        remedy="A default is None, True, False, a number, a quoted string, or a list of them.",
    ),
    "RL0104": Reason(
        "Tried to parse a function schema but only the operator name was given: {text}",
        remedy="Write the arguments and results too: name(Tensor self) -> Tensor",
    ),
    "RL0105": Reason(
        "default is not a legal overload name for aten operators: {text}",
        remedy="Leave the overload name out, or choose another one.",
    ),
    "RL0106": Reason(
        "argument {argument!r} has no default but follows one that has, in schema: {text}",
        remedy="Give it a default, or move it before those with defaults or after '*'.",
    ),
    # -- pytrees
    "RL0201": Reason(
        "{node!r} is already registered as pytree node.",
        remedy="Register each type once; a subclass may be registered on its own.",
    ),
    "RL0202": Reason(
        "treespec.unflatten(leaves): `leaves` has length {length} but the spec refers to a pytree "
        "that holds {expected} items ({spec}).",
        remedy="Pass as many leaves as tree_flatten gave for this spec.",
    ),
    "RL0203": Reason(
        "Node type mismatch; expected {expected!r}, but got {found!r}.",
        remedy="Pass a tree with the containers of the spec.",
    ),
    "RL0204": Reason(
        "Node arity mismatch; expected {expected}, but got {found}.",
        remedy="Pass a container of that many items.",
    ),
    "RL0205": Reason(
        "Node keys mismatch; missing key(s): {missing}; extra key(s): {extra}.",
        remedy="Pass a dict with the keys of the spec.",
    ),
    "RL0206": Reason(
        "Node context mismatch for node type {node!r}; expected {expected!r}, but got {found!r}.",
        remedy="Pass a node whose context equals that of the spec.",
    ),
    "RL0207": Reason(
        "Node context mismatch for custom node type {node!r}.",
        remedy="Pass a node whose context equals that of the spec.",
    ),
    "RL0208": Reason(
        "Type mismatch; expected {expected!r}, but got {found!r}.",
        remedy="Pass a tree with the containers of the spec.",
    ),
    "RL0209": Reason(
        "Argument must be a type, a tuple of types, or a callable.",
        remedy="Pass what isinstance takes, or a function of a node that answers yes or no.",
    ),
    "RL0210": Reason(
        "Expected `treespec` to be an instance of PyTreeSpec but got item of type {found!r}.",
        remedy="Pass the second result of tree_flatten, or tree_structure(tree).",
    ),
    "RL0211": Reason(
        "Both to_dumpable_context and from_dumpable_context for {node} must be None or registered.",
        why="A context that is written must be readable, and the other way round.",
    ),
    "RL0212": Reason(
        "Did not find a flatten_with_keys_fn for type: {node}.",
        remedy="Pass flatten_with_keys_fn to register_pytree_node.",
    ),
    "RL0213": Reason(
        "A tree with a node of {node} cannot be written: it has no serialized_type_name.",
        remedy="Pass serialized_type_name to register_pytree_node.",
    ),
    "RL0214": Reason(
        "No node type is registered under the serialized name {name!r}.",
        remedy="Register the type, with that serialized_type_name, before the spec is read.",
    ),
    "RL0215": Reason(
        "The context of {node} cannot be written as JSON ({reason}).",
        remedy="Pass to_dumpable_context and from_dumpable_context to register_pytree_node.",
    ),
    "RL0216": Reason(
        "Unknown protocol {protocol}. Available protocols: {known}",
        remedy="Leave the protocol out.",
    ),
    "RL0218": Reason(
        "The spec names the default factory {module}.{name}, and {module} is not imported.",
        why="Reading a spec imports nothing.",
        remedy="Import {module} before the spec is read.",
    ),
    # -- dispatch, modes and levels
    "RL0301": missing(
        "RL0301",
        "Compiled operator libraries are built against PyTorch's own binary interface.",
        "Write the operator in Python with library.custom_op.",
    ),
    "RL1330": Reason(
        "{path}: cannot open shared object file: No such file or directory",
        "There is no such file.",
        "Check the path; a package may have been installed without its compiled part.",
    ),
    "RL1331": missing(
        "RL1331",
        "A compiled library has this operator; Rushlight has some operators of that library, "
        "and this is not one of them.",
        "Write it in Python, with library.impl.",
    ),
    "RL1332": missing(
        "RL1332",
        "It builds graphs of TorchScript for an exporter that Rushlight does not have.",
        "torch.onnx.export captures the program and translates that.",
    ),
    "RL0302": Reason(
        "operator {name} does not exist. Define it first, with library.define or "
        "library.custom_op.",
        "A rule can only be registered for an operator that has been defined.",
    ),
    "RL0303": Reason(
        "no kernel for {key} for {op}",
        remedy="Register one for that key with library.impl, or ask for a key that has one.",
    ),
    "RL0304": Reason(
        "could not parse dispatch key: {key}",
        remedy="Keys are the members of torch._C.DispatchKey.",
    ),
    "RL0305": Reason(
        "There was no fake impl registered for {definition}. This is necessary for "
        "torch.compile/export/fx tracing to work. Please use `{op}.register_fake` to add an fake "
        "impl.",
        "While a function is traced, operators answer with sizes and dtypes alone.",
    ),
    "RL0306": Reason(
        "{op}: attempted to run this operator with Meta tensors, but there was no fake impl or "
        "Meta kernel registered for this operator. Please use register_fake to add one. "
        "Registered kernels: {known}.",
        "Tensors on device 'meta' have no values that another kernel could use.",
    ),
    "RL0307": Reason(
        "Could not run '{op}' with arguments from the '{backend}' backend. '{op}' is only "
        "available for these backends: [{known}]. Add a kernel with register_kernel or "
        "Library.impl.",
        "The operator was defined, and no kernel of it takes these tensors.",
    ),
    "RL0308": missing(
        "RL0308",
        "Nothing here is called under that dispatch key, so its kernel would never run.",
    ),
    "RL0309": Reason(
        "{op}: no layer of the dispatcher stands for the key {key}",
        "A higher-order op has one rule for each layer: eager, autograd, functional, proxy, fake "
        "and batch.",
        "Give the rule under a key that names one of these, or for a class of modes.",
    ),
    "RL0310": Reason(
        "There was no rule registered for the higher-order op {op} and {who}",
        "The layer {layer} is active and must not be passed by in silence.",
        "Give the op a rule with `py_impl`, or leave the layer before calling it.",
    ),
    "RL0311": missing(
        "RL0311",
        "There is no table of kernels that serve every operator under a dispatch key.",
        "Use a TorchDispatchMode, which sees every call.",
    ),
    "RL0312": missing(
        "RL0312",
        "Triton kernels and classes of a program's own are not part of operators here.",
        "Write the operator with library.custom_op over tensors.",
    ),
    # -- operators
    "RL0401": Reason(
        "{op}: no shape rule, so it cannot run on tensors without values (device='meta').",
        "What an operator returns is told from its operands' sizes by its shape rule.",
        "Call it with values, or register a rule with library.register_fake.",
    ),
    "RL0402": Reason(
        "Cannot copy out of meta tensor; no data!",
        "A tensor on device 'meta' has sizes and a dtype, but no values.",
        "Make a new one with torch.empty_like(tensor, device='cpu'), or load its values.",
    ),
    "RL0403": Reason(
        "{what}, which a tensor without values (device='meta') does not have",
        remedy="Run this on tensors with values, or ask for sizes and dtypes only.",
    ),
    "RL0404": Reason(
        "{op} has no kernel",
        "The operator is declared, and nothing computes it on arrays.",
        "Register one with library.impl, for the key CPU or CompositeExplicitAutograd.",
    ),
    "RL0405": missing(
        "RL0405", "The masked variance is written for two corrections.", "Use 0 or 1."
    ),
    "RL0406": missing(
        "RL0406",
        "Masks are arguments here, not parts of tensors.",
        "Pass mask= to the functions of torch.masked.",
    ),
    "RL0407": Reason(
        "{what} not supported with named tensors. Please drop names via "
        "`tensor = tensor.rename(None)` first.",
        "No rule says which names the result has.",
    ),
    "RL0408": Reason(
        "Can't export tensors {what}",
        "DLPack hands out memory, in the types that NumPy can describe.",
        "Convert the tensor to a common dtype on the CPU first.",
    ),
    "RL0409": Reason(
        "Unknown device type {device} for Dlpack",
        "DLPack hands out memory, which only tensors on the CPU have.",
        "Give it a tensor on the CPU.",
    ),
    # -- sparse and other layouts
    "RL0501": Reason(
        "Cannot access storage of SparseTensorImpl",
        "A sparse tensor is made of several tensors and has no single memory.",
        "Ask its indices() and values() for theirs, or convert it with to_dense().",
    ),
    "RL0502": Reason(
        "to(): conversion from {source} to {target} is not supported; use {instead}",
        "A conversion between layouts has a name of its own.",
    ),
    "RL0503": Reason(
        "Could not run '{op}' with arguments of layout {layout}: this operator has no rule for "
        "sparse tensors. Convert them with to_dense() first.",
        "Operators on sparse tensors are written one by one.",
    ),
    "RL0504": Reason(
        "{op}(): layout {layout} is not supported; only torch.strided tensors can be made this way",
        remedy="Make it strided and convert it, or use torch.sparse_coo_tensor and its kind.",
    ),
    "RL0505": Reason(
        "{op}: {reason} (device='meta').",
        "Which elements are specified follows from values.",
        "Use tensors with values.",
    ),
    "RL0506": missing(
        "RL0506",
        "Which elements are specified follows from values.",
        "Leave the device out, or use layout strided.",
    ),
    "RL0507": Reason(
        "Could not run 'aten::{name}' with arguments {given}: only {who} have {what}.",
        remedy="Ask for tensor.layout first, or convert the tensor with to_sparse().",
    ),
    "RL0508": Reason(
        "sparse_mask(): the mask must be a sparse tensor, got one of layout {layout}",
        remedy="Convert the mask with to_sparse(), or multiply by it.",
    ),
    "RL0509": Reason(
        "{what} does not follow from the specified elements alone; use to_dense()",
        "Elements that are not specified would count too.",
    ),
    "RL0510": Reason(
        "a sparse tensor cannot be moved to device '{device}'",
        "Sparse tensors live on the CPU.",
        "Convert it with to_dense() first.",
    ),
    "RL0511": Reason(
        "an empty tensor of layout {layout} and size {size} cannot be made this way",
        "Empty compressed tensors are matrices, in the layouts CSR and CSC.",
        "Make a strided tensor with torch.zeros and convert it.",
    ),
    "RL0512": Reason(
        "torch.sparse.{function}(): {what} is not supported",
        remedy="Convert the operands with to_dense() and use the dense function.",
    ),
    "RL0513": Reason(
        "{function}(): argument '{argument}' must have layout {expected}, not {layout}; use "
        "{conversion}()",
        "The function is written for that layout.",
    ),
    "RL0514": missing(
        "RL0514", "The function is written for matrices.", "Call it for each matrix."
    ),
    "RL0515": Reason(
        "{op}(): the result has layout {found} and cannot be written into a tensor of layout "
        "{target}",
        remedy="Use the out-of-place operator, and convert its result with to_dense().",
    ),
    "RL0520": missing(
        "RL0520",
        "Nested tensors have rules for the few operators that models of sequences need.",
        "Work on the components from unbind().",
    ),
    "RL0521": Reason(
        "a nested tensor has no single size; ask for a dim that all components share",
        "Its components may differ in size.",
    ),
    # -- autograd and transforms
    "RL0601": Reason(
        "Trying to use forward AD with {op} that does not support it because it has not been "
        "implemented yet: {reason}",
        remedy="Use reverse mode: backward(), autograd.grad, func.vjp or func.jacrev.",
    ),
    "RL0602": Reason(
        "Trying to use forward AD with {op}_out that does not support it because it is an out= "
        "function",
        remedy="Leave out= away and use the result.",
    ),
    "RL0603": Reason(
        "the derivative for '{name}' is not implemented.",
        "No formula is known or written for it.",
        "Call it on tensor.detach(), or write an autograd.Function with a backward.",
    ),
    "RL0604": Reason(
        "vmap: {op} cannot be batched: {reason}",
        remedy="Loop over the batch and stack the results, or call the operator outside of vmap.",
    ),
    "RL0605": Reason(
        "vmap: {op} has no rule for a batch of size 0: the sizes of its result cannot be told.",
        remedy="Treat an empty batch apart, before vmap.",
    ),
    "RL0608": Reason(
        "Trying to backward through {op} but no autograd formula was registered. Please use "
        "register_autograd to add one.",
        "Nothing is derived for an operator that is defined from outside.",
    ),
    "RL0609": Reason(
        "The graph that this {name} belonged to no longer exists, so its saved tensors are gone. "
        "Keep an output of the Function alive, or copy what you need from ctx during backward.",
        "A graph lives as long as one of its results.",
    ),
    "RL0610": Reason(
        "torch.compile with aot_autograd does not currently support double backward",
        "The backward of a compiled function is code, which is not recorded.",
        "Differentiate the function before it is compiled.",
    ),
    "RL0621": Reason(
        "Arguments share memory and one of them is written, but autograd knows no tensor that all "
        "of them are views of",
        "They become views of one argument of the graph, which must carry their gradients.",
        "Make the views from one tensor, with gradients enabled, or pass clones.",
    ),
    "RL0622": Reason(
        "aot_autograd does not support input mutations with requires_grad in backward for "
        "create_graph=True",
        "The backward writes to an input of the forward, and its own gradient is asked for.",
        "Call backward without create_graph, or keep the function out of the compiled part.",
    ),
    "RL0623": Reason(
        "input {position} is written by the forward and by the backward of a compiled function",
        "One graph returns the input's value, the other would have to write it again.",
        "Clone the input before the forward writes to it.",
    ),
    "RL0624": Reason(
        "one of the variables needed for gradient computation has been modified by an inplace "
        "operation: an input of shape {shape} that the compiled forward writes",
        "The gradient needs the value that the input had before.",
        "Clone the input before writing to it.",
    ),
    "RL0625": Reason(
        "the sizes of a {name} in a compiled function with symbolic sizes are those of none of its "
        "parts",
        "Outer sizes are taken from a part with the same sizes and strides when the graph runs.",
        "Compile it with fixed sizes.",
    ),
    "RL0626": Reason(
        "argument {position} is detached in place by a compiled function",
        "Gradients of a compiled function are taken with respect to its arguments.",
        "Use x = x.detach() instead of x.detach_().",
    ),
    "RL0627": Reason(
        "output {position} shares memory with argument {argument}, but has a history of its own",
        "A compiled function makes such an output from the argument, whose history is another.",
        "Return a clone, or write to the argument itself.",
    ),
    "RL0628": Reason(
        "output {position} of a compiled function is written by its backward",
        "Forward and backward are traced together, and the forward returns values.",
        "Return a clone of what the backward writes.",
    ),
    "RL0629": Reason(
        "an argument of shape {shape} is written by a compiled function and then made smaller, by "
        "a size that depends on data or without grad mode",
        "What is written back is the argument as the function leaves it, which is not all of it.",
        "Make a view instead of changing the argument in place.",
    ),
    "RL0630": Reason(
        "an output is a view of a written argument of shape {shape} and strides {strides} by sizes "
        "that depend on data, or by ops that cannot be repeated",
        "The view is made by its strides, which are known for contiguous memory only.",
        "Pass a contiguous argument, return a clone, or compile with fixed sizes.",
    ),
    "RL0631": Reason(
        "an argument of shape {shape} that requires a gradient is given another geometry in place "
        "without grad mode, by sizes that depend on data or beside arguments that overlap it",
        "Without grad mode its history stays that of the old geometry, which no gradient fits.",
        "Change the geometry with grad mode, or make a view.",
    ),
    "RL0632": Reason(
        "an output is a view of something of shape {shape} that was made inside and given another "
        "geometry in place afterwards",
        "The view is made anew from what it is a view of, as the function leaves that.",
        "Return a clone, or make a view instead of changing the geometry in place.",
    ),
    "RL0633": Reason(
        "an argument of a compiled function is given other memory by set_, and its old memory is "
        "{use}",
        "Graphs write and return what arguments have in the end.",
        "Use clones of what is set, or call set_ outside of the compiled function.",
    ),
    "RL0634": Reason(
        "arguments {first} and {second} overlap, and the backward of a compiled function writes to "
        "both",
        "A backward writes each argument as a whole, and the later write would undo the other.",
        "Write to one of them, or pass one as a view of the other inside the function.",
    ),
    "RL0635": Reason(
        "the gradient needs an argument of shape {shape} whose memory the compiled forward gave up",
        "Its values went with its memory.",
        "Give it its memory and values again before the backward, or keep the memory.",
    ),
    "RL0760": Reason(
        "a view of shape {shape} is written in a traced function after what it is a view of lost "
        "elements in place and has shape {base}",
        "The gradient of such a write is a slice of what was lost; eager execution fails in the "
        "backward.",
        "Write before the tensor becomes smaller, or make a view instead of changing it in place.",
    ),
    "RL0761": Reason(
        "output {position} of a compiled function is a wrapper made of tensors that share memory "
        "with those of an argument, and is no view of it",
        "A graph gives values, of which the output is put together anew.",
        "Return a clone, or a view of the argument.",
    ),
    "RL0762": Reason(
        "a write to a view by strides of shape {sizes}, which shows memory outside of the tensor "
        "of shape {source} that it was taken of, cannot be traced",
        "In a graph a write gives that tensor a new value, which the rest of the memory is no part "
        "of.",
        "Take the view of a tensor that has all of the memory.",
    ),
    "RL0640": Reason(
        "a compiled module has other parameters or buffers than when it was compiled: {names}",
        "They are arguments of its graphs, in the order in which the module had them.",
        "Compile the module again, or give it the same names.",
    ),
    "RL0641": Reason(
        "graphs cannot be kept on disk because of {what}",
        "Another process could not tell that it has the same.",
        "Leave strict_autograd_cache off: they are then traced each time.",
    ),
    "RL0611": Reason(
        "derivative for {name} is not implemented",
        "It depends on values in steps, or replaces memory; no gradient is defined.",
        "Call it on tensor.detach() or under no_grad().",
    ),
    "RL0612": Reason(
        "vmap: There is a performance drop because {op} has no batching rule for these arguments "
        "(RL0612): it runs once for every sample.",
        "Its result depends on each sample's values, or few programs batch it.",
        "Call it outside of vmap where it takes a batch itself; the results are right either way.",
    ),
    # -- graphs, tracing, aot
    "RL0702": Reason(
        "{op}: a write to this view cannot be traced, because the view has no inverse. Clone it "
        "before writing to it.",
        "A write to a view becomes a new value of its base, which the inverse makes.",
    ),
    "RL0703": Reason(
        "{op}: this in-place operator cannot be traced, because it has no functional form. Use an "
        "out-of-place operator instead.",
        "A traced graph holds no writes.",
    ),
    "RL0704": Reason(
        "argument of type: {type}",
        "Arguments in a graph are numbers, texts, tensors' nodes and containers of them.",
        "Make the object inside the traced function, or hide its use with torch.fx.wrap.",
    ),
    "RL0706": Reason(
        "Cannot access data pointer of Tensor (e.g. FakeTensor, FunctionalTensor). If you're using "
        "compile, aot_function or export, it is likely that custom code reads memory while a "
        "function is being traced.",
        "A tensor that is being traced has no memory.",
        "Put the code that reads memory into an operator with library.custom_op.",
    ),
    "RL0707": Reason(
        ".numpy() is not supported for tensor subclasses: a {kind} has no memory.",
        remedy="Call it outside of the traced function.",
    ),
    "RL0708": Reason(
        "tensors of layout {layout}",
        "Tensors without values are strided.",
        "Convert the input with to_dense() before tracing.",
    ),
    "RL0709": Reason(
        "{op}",
        "The sizes of this operator's result depend on values, which a fake tensor does not have.",
        "Trace with symbolic shapes (tracing_mode='symbolic'), or give the result a fixed size.",
    ),
    "RL0710": Reason(
        "{op}",
        "The answer is read from values, which a fake tensor does not have.",
        "Keep the number a tensor, or trace with real values (tracing_mode='real').",
    ),
    "RL0711": Reason(
        "The number {symbol} is used in the graph, but no input or result has it as a size: it "
        "comes from outside of the traced function.",
        remedy="Pass the tensor it is a size of, or the number, as an argument.",
    ),
    "RL0712": Reason(
        "It appears that you're trying to get value out of a tracing tensor with {op} - erroring "
        "out! It's likely that this is caused by data-dependent control flow or similar.  It may "
        "be possible to trace this with dynamic shapes; try setting tracing_mode='symbolic' in "
        "your make_fx call.",
        "A graph is recorded once, for all values.",
        "Choose between values with torch.where.",
    ),
    "RL0713": Reason(
        "symbolically traced variables cannot be used as inputs to control flow",
        "A graph is recorded once, for all values.",
        "Choose with torch.where, or fix the argument with concrete_args.",
    ),
    "RL0731": Reason(
        "One of the functions given to {op} might be modifying the input!",
        "In a graph, functions of a higher-order op compute results and change nothing else.",
        "Clone what is to be changed inside the function.",
    ),
    "RL0732": Reason(
        "One of the functions given to {op} might be aliasing the input!",
        "In a graph, results of a higher-order op share no memory with its operands.",
        "Return a clone.",
    ),
    "RL0733": Reason(
        "Expected each function of {op} to return the same, but got {first} and {second}",
        "A graph is recorded once, whichever function will run.",
        "Let all functions return tensors of the same sizes, strides and dtypes, in one structure.",
    ),
    "RL0735": Reason(
        "resize_storage_bytes_ from {current} to {size} bytes cannot be traced",
        "In a graph, memory is given up or comes back; it does not shrink or grow.",
        "Resize from 0 or to 0 bytes.",
    ),
    "RL0741": Reason(
        "resize_ from {sizes} to {wanted} cannot be traced",
        "A graph cannot give more memory to an argument, or to what others are views of.",
        "Resize before the traced function, or make a new tensor.",
    ),
    "RL0742": Reason(
        "as_strided of a traced tensor of shape {sizes} and strides {strides} after a write to it",
        "Its value was computed anew and does not lie in memory as the tensor does eagerly.",
        "Take the view by other ops, before the write, or of a clone.",
    ),
    "RL0743": Reason(
        "set_ of an argument to memory of an argument cannot be traced",
        "A graph cannot tell which of its arguments share memory afterwards.",
        "Copy the values, or call set_ outside of the traced function.",
    ),
    "RL0744": Reason(
        "while_loop is recorded with a carried integer, and without symbols",
        "A graph would hold the integer of the first turn.",
        "Carry torch.tensor(n), or trace with symbolic sizes.",
    ),
    "RL0734": Reason(
        "A function given to {op} closes over a tensor that requires a gradient",
        "The gradient of a higher-order op is taken with respect to its operands.",
        "Pass the tensor as an operand.",
    ),
    "RL0736": Reason(
        "A function given to {op} must return what it carries in the same structure, but got "
        "{first} instead of {second}",
        "The results of one step are the operands of the next.",
    ),
    "RL0737": Reason(
        "{op} writes to a tensor that shares memory with another of its arguments",
        "In a graph the operator runs on copies, which share no memory.",
        "Pass a clone of one of them.",
    ),
    "RL0738": Reason(
        "{op} writes to its arguments, or returns them, and cannot be registered as effectful",
        "Calls with effects are ordered by tokens, writes by values.",
    ),
    "RL0739": Reason(
        "Could not find a token for effect {effect} which came from the function {op}",
        "The tokens of a graph are its inputs, and are known before it is traced.",
        "Trace with a FunctionalMode that finds tokens first.",
    ),
    "RL0715": Reason(
        "Tried to trace mutable operation {schema}. FX only supports functional code, so "
        "operations that mutate operands in-place (e.g. via `out` arguments) are not supported",
        remedy="Use the out-of-place operator.",
    ),
    "RL0717": Reason(
        "Could not {task} data-dependent expression {expr} (unhinted: {unhinted}).  (Size-like "
        "symbols: {sizes})\n\n{advice}",
        "The expression holds a size that only values tell.",
        "State what is known of it with torch._check.",
    ),
    "RL0750": Reason(
        "A branch depends on the values of a tensor.",
        "A graph is the same for all values that guards allow.",
        "Use torch.where or torch.cond, or let the graph break: compile without fullgraph.",
    ),
    "RL0751": Reason(
        "Python needs the values of a tensor.",
        "They are known when the graph runs, not when it is captured.",
        "Keep the value in a tensor, or move this out of the compiled function.",
    ),
    "RL0752": Reason(
        "The program asks for a break.",
        "graph_break() and torch.compiler.disable end a graph.",
        "Take the mark away, or compile without fullgraph.",
    ),
    "RL0753": Reason(
        "Code that is not Python, or that capture leaves alone, is called.",
        "Capture reads bytecode, and puts the library's operators into graphs.",
        "Move the call out, wrap it with torch.library.custom_op, or name a Python function for it "
        "with torch.compiler.substitute_in_graph.",
    ),
    "RL0754": Reason(
        "The program raises an exception that it does not catch.",
        "An exception ends the graph, and the call.",
        "Check what it raises for before the compiled function is called.",
    ),
    "RL0755": Reason(
        "This cannot be captured.",
        "Capture has no rule for it.",
        "Move it out of the compiled function, or compile without fullgraph.",
    ),
    # -- code generation
    "RL0802": Reason(
        "compile_graph: node '{node}' is a {op}; graphs to compile hold calls of functions only "
        "(trace with make_fx or export first)",
        "Modules and methods are opened up by tracing.",
    ),
    "RL0803": Reason(
        "compiled graph: input '{name}' must be {expected}, got {found}",
        "Native code is written for the inputs it was compiled with.",
        "Compile again for other inputs.",
    ),
    "RL0804": Reason(
        "a compiled graph cannot be found again because of {what}",
        "An equal graph could not be told by its key.",
        "compile_graph compiles it each time.",
    ),
    "RL0820": Reason(
        "these cache artifacts cannot be used: they are damaged, or another version wrote them",
        "They are taken as a whole or not at all.",
        "Save them again with torch.compiler.save_cache_artifacts().",
    ),
    "RL0821": Reason(
        "Constraints violated ({name})! You marked {name} as dynamic, but the program makes it the "
        "constant {number}",
        "A branch or a shape of the program is right for that size only.",
        "Use torch._dynamo.maybe_mark_dynamic, or do not mark it.",
    ),
    "RL0822": Reason(
        "{name} would be compiled again: {missed}",
        "torch._dynamo.config.error_on_recompile is set.",
        "Call it with arguments like those before, or switch error_on_recompile off.",
    ),
    "RL0823": Reason(
        "incorrect results of backend {backend}: they are not what the graph itself gives",
        "torch._dynamo.config.verify_correctness is set, and the two were compared.",
        "Mend the backend, or switch verify_correctness off where the difference is harmless.",
    ),
    "RL0840": Reason(
        "cpu_level must be empty or one of {known}, got {level!r}",
        "Native kernels are written for these levels of x86-64.",
        "Leave RUSHLIGHT_CPU_LEVEL empty to use all that the CPU can do.",
    ),
    # -- files, data loading
    **FILES_REASONS,
    # -- nn and optim
    "RL1101": Reason(
        "{function}: the work is not split into chunks here; pass options=None",
        "Options choose how PyTorch splits the work; the result is the same.",
    ),
    "RL1102": missing(
        "RL1102",
        "The update of an optimiser is not recorded.",
        "Give it as a number, or write the update with functions of tensors.",
    ),
    "RL1103": Reason(
        "kl_divergence of {kind}: their {what} must be equal{found}",
        "The divergence is known in closed form only then.",
        "Estimate it from samples: (p.log_prob(x) - q.log_prob(x)).mean() for x = p.sample(...).",
    ),
    # -- devices, threads and settings
    "RL1201": missing("RL1201", "There is one device, the CPU.", "Leave device_ids out."),
    "RL1202": Reason(
        "no tensors can be made on device '{device}'; use 'cpu' or 'meta'",
        "Kernels are written for the CPU.",
    ),
    "RL1203": missing(
        "RL1203",
        "Ranges of other profilers are marked through their own libraries.",
        "Record with profiler.profile() and label code with profiler.record_function.",
    ),
    "RL1204": missing(
        "RL1204", "Devices are a fixed set.", "Use a subclass of Tensor, or a mode of dispatch."
    ),
    "RL1205": missing("RL1205", "The switch is there for reading; its value is held."),
    "RL1206": Reason(
        "Expected a CPUGeneratorImplState of size {expected} but found the input RNG state size to "
        "be {found}",
        "A state of the Mersenne twister has 5056 bytes, one of a counter-based generator 16.",
        "Load a state of a generator of the same algorithm, or seed with manual_seed().",
    ),
    "RL1207": Reason(
        "pin_memory=True requires a CUDA or other accelerator backend; no pinned memory allocator "
        "is available on this system.",
        "Pinned memory speeds copies to a GPU.",
        "Leave pin_memory out.",
    ),
    "RL1208": Reason(
        "Device type {device} is not supported for torch.Generator() api.",
        "Random numbers are drawn on the CPU.",
        "Make the generator with device='cpu'.",
    ),
    "RL1209": Reason(
        "Torch not compiled with CUDA enabled",
        "Rushlight computes on the CPU.",
        "Use device='cpu', or ask torch.cuda.is_available() first.",
    ),
    "RL1210": Reason(
        "{module} has no switch named {name!r}",
        "A switch that nothing reads would change nothing.",
        "dir({module}) lists the switches.",
    ),
    # -- names of torch's, command line and compatibility
    **NAMES_REASONS,
    # -- TorchScript
    **JIT_REASONS,
    **EXPORT_REASONS,
}
