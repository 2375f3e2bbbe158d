"""The JSON of exported programs: which fields records have, and data checked against that.

`TEXT` is the whole schema, a line a type. `Name: field type, …` is a record, `Name | tag type, …` a
choice of exactly one tag. A type may be followed by `[]` (a list), `{}` (an object with text keys),
`?` (may be null) and `=` (may be missing; it is then null, empty or false).
Invariant: what `checked` returns has the types the schema says, all the way down.
"""

from __future__ import annotations

import json
import math
from typing import Any

from rushlight.base.errors import CheckpointError, error

__all__ = ["SCHEMA_VERSION", "TREESPEC_VERSION", "Choice", "Record", "SerializeError", "checked",
           "parse_json", "refuse"]  # fmt: skip

SCHEMA_VERSION = (8, 20)
TREESPEC_VERSION = 1

TEXT = """
Device: type str, index int?=
SymExprHint | as_int int, as_bool bool, as_float float
SymExpr: expr_str str, hint SymExprHint?=
SymInt | as_expr SymExpr, as_int int
SymFloat | as_expr SymExpr, as_float float
SymBool | as_expr SymExpr, as_bool bool
TensorMeta: dtype int, sizes SymInt[], requires_grad bool, device Device, strides SymInt[], \
storage_offset SymInt, layout int
SymIntArgument | as_name str, as_int int
SymFloatArgument | as_name str, as_float float
SymBoolArgument | as_name str, as_bool bool
TensorArgument: name str
TokenArgument: name str
OptionalTensorArgument | as_tensor TensorArgument, as_none bool
GraphArgument: name str, graph Graph
CustomObjArgument: name str, class_fqn str
ComplexValue: real float, imag float
Argument | as_none bool, as_tensor TensorArgument, as_tensors TensorArgument[], as_int int, \
as_ints int[], as_float float, as_floats float[], as_string str, as_strings str[], \
as_sym_int SymIntArgument, as_sym_ints SymIntArgument[], as_scalar_type int, \
as_memory_format int, as_layout int, as_device Device, as_bool bool, as_bools bool[], \
as_sym_bool SymBoolArgument, as_sym_bools SymBoolArgument[], as_graph GraphArgument, \
as_optional_tensors OptionalTensorArgument[], as_custom_obj CustomObjArgument, as_operator str, \
as_sym_float SymFloatArgument, as_sym_floats SymFloatArgument[], \
as_optional_tensor OptionalTensorArgument, as_complex ComplexValue, \
as_nested_tensors TensorArgument[][], as_int_lists int[][], as_string_to_argument Argument{}, \
as_float_lists float[][]
NamedArgument: name str, arg Argument, kind int?=
Node: target str, inputs NamedArgument[], outputs Argument[], metadata str{}, \
is_hop_single_tensor_return bool?=, name str?=
Graph: inputs Argument[], outputs Argument[], nodes Node[], tensor_values TensorMeta{}, \
sym_int_values SymInt{}, sym_bool_values SymBool{}, is_single_tensor_return bool=, \
custom_obj_values CustomObjArgument{}=, sym_float_values SymFloat{}=
UserInputSpec: arg Argument
ConstantValue | as_none bool, as_int int, as_float float, as_string str, as_bool bool
InputToConstantInputSpec: name str, value ConstantValue
InputToParameterSpec: arg TensorArgument, parameter_name str
InputToBufferSpec: arg TensorArgument, buffer_name str, persistent bool
InputToTensorConstantSpec: arg TensorArgument, tensor_constant_name str
InputToCustomObjSpec: arg CustomObjArgument, custom_obj_name str
InputTokenSpec: arg TokenArgument
InputSpec | user_input UserInputSpec, parameter InputToParameterSpec, buffer InputToBufferSpec, \
tensor_constant InputToTensorConstantSpec, custom_obj InputToCustomObjSpec, \
token InputTokenSpec, constant_input InputToConstantInputSpec
UserOutputSpec: arg Argument
LossOutputSpec: arg TensorArgument
BufferMutationSpec: arg TensorArgument, buffer_name str
ParameterMutationSpec: arg TensorArgument, parameter_name str
GradientToParameterSpec: arg TensorArgument, parameter_name str
GradientToUserInputSpec: arg TensorArgument, user_input_name str
UserInputMutationSpec: arg TensorArgument, user_input_name str
OutputTokenSpec: arg TokenArgument
OutputSpec | user_output UserOutputSpec, loss_output LossOutputSpec, \
buffer_mutation BufferMutationSpec, gradient_to_parameter GradientToParameterSpec, \
gradient_to_user_input GradientToUserInputSpec, user_input_mutation UserInputMutationSpec, \
token OutputTokenSpec, parameter_mutation ParameterMutationSpec
GraphSignature: input_specs InputSpec[], output_specs OutputSpec[]
RangeConstraint: min_val int?, max_val int?
ModuleCallSignature: inputs Argument[], outputs Argument[], in_spec str, out_spec str, \
forward_arg_names str[]?=
ModuleCallEntry: fqn str, signature ModuleCallSignature?=
NamedTupleDef: field_names str[]
GraphModule: graph Graph, signature GraphSignature, module_call_graph ModuleCallEntry[], \
metadata str{}=, treespec_namedtuple_fields NamedTupleDef{}=
SchemaVersion: major int, minor int
ExportedProgram: graph_module GraphModule, opset_version int{}, \
range_constraints RangeConstraint{}, schema_version SchemaVersion, verifiers str[]=, \
torch_version str=, guards_code str[]=
PayloadMeta: path_name str, is_param bool, use_pickle bool, tensor_meta TensorMeta?
PayloadConfig: config PayloadMeta{}
"""

# Graphs within graphs; a program has a few.
MOST_DEPTH = 120
MOST_TEXT = 1 << 20
MOST_INT = 1 << 63


class SerializeError(CheckpointError):
    """A program that cannot be written, or a file that cannot be read."""


def refuse(what: str) -> SerializeError:
    """The error for a file that is not what it should be."""
    return error("RL1560", SerializeError, what=what)


class Record:
    """A checked JSON object: its fields are attributes."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.__dict__.update(fields)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


class Choice:
    """A checked choice: which of its tags it has, and that tag's value."""

    __slots__ = ("tag", "value")

    def __init__(self, tag: str, value: Any) -> None:
        self.tag = tag
        self.value = value


class Shape:
    """The type of a field: a name of the schema or of a plain value, and what follows it."""

    __slots__ = ("may_be_missing", "name", "nesting", "optional")

    def __init__(self, text: str) -> None:
        self.may_be_missing = text.endswith("=")
        text = text.removesuffix("=")
        self.optional = text.endswith("?")
        text = text.removesuffix("?")
        nesting = []
        while text[-2:] in ("[]", "{}"):
            nesting.append(text[-2:])
            text = text[:-2]
        self.name = text
        # Outermost first.
        self.nesting = tuple(nesting)

    def default(self) -> Any:
        if self.optional:
            return None
        if self.nesting:
            return [] if self.nesting[0] == "[]" else {}
        return False if self.name == "bool" else ""


RECORDS: dict[str, dict[str, Shape]] = {}
CHOICES: dict[str, dict[str, Shape]] = {}


def read_schema() -> None:
    for line in TEXT.strip().splitlines():
        name, mark, rest = line.partition(":") if ":" in line else line.partition("|")
        fields = dict([field.split() for field in rest.split(",")])
        table = RECORDS if mark == ":" else CHOICES
        table[name.strip()] = {field: Shape(text) for field, text in fields.items()}


read_schema()


def parse_json(data: bytes, what: str) -> Any:
    """Data of a JSON text."""
    try:
        return json.loads(data.decode())
    except (ValueError, RecursionError) as failure:
        raise refuse(f"its {what} is no JSON ({type(failure).__name__})") from None


def checked(data: Any, name: str) -> Any:
    """`data` as the record or choice `name`; what does not fit the schema is refused."""
    return value_of(data, Shape(name), 0, name, 0)


def value_of(data: Any, shape: Shape, level: int, where: str, depth: int) -> Any:
    """`data` as a value of `shape`, of which `level` containers have been entered."""
    if level < len(shape.nesting):
        if shape.nesting[level] == "[]":
            if type(data) is not list:
                raise misfit(where, "a list", data)
            return [value_of(item, shape, level + 1, where, depth) for item in data]
        if type(data) is not dict:
            raise misfit(where, "an object", data)
        return {
            short(key, where): value_of(item, shape, level + 1, where, depth)
            for key, item in data.items()
        }
    plain = PLAIN.get(shape.name)
    if plain is not None:
        return plain(data, where)
    if depth > MOST_DEPTH:
        raise refuse("it is nested too deeply")
    if type(data) is not dict:
        raise misfit(where, f"a {shape.name}", data)
    if shape.name in CHOICES:
        return choice_of(data, shape.name, depth + 1)
    fields: dict[str, Any] = {}
    for field, inner in RECORDS[shape.name].items():
        if field not in data:
            if not inner.may_be_missing:
                raise refuse(f"a {shape.name} has no {field!r}")
            fields[field] = inner.default()
        elif data[field] is None and inner.optional:
            fields[field] = None
        else:
            fields[field] = value_of(data[field], inner, 0, f"{shape.name}.{field}", depth + 1)
    return Record(fields)


def choice_of(data: dict[Any, Any], name: str, depth: int) -> Choice:
    if len(data) != 1:
        raise refuse(f"a {name} has {len(data)} tags; it has one")
    ((tag, value),) = data.items()
    inner = CHOICES[name].get(tag)
    if inner is None:
        raise refuse(f"a {name} has the tag {tag[:100]!r}, which is not known")
    return Choice(tag, value_of(value, inner, 0, f"{name}.{tag}", depth))


def misfit(where: str, wanted: str, data: Any) -> SerializeError:
    return refuse(f"{where} is a {type(data).__name__}; it should be {wanted}")


def short(data: Any, where: str) -> str:
    if type(data) is not str:
        raise misfit(where, "a text", data)
    if len(data) > MOST_TEXT:
        raise refuse(f"{where} is a text of {len(data)} characters")
    return data


def integer(data: Any, where: str) -> int:
    if type(data) is not int:
        raise misfit(where, "an integer", data)
    if not -MOST_INT <= data < MOST_INT:
        raise refuse(f"{where} is an integer of more than 64 bits")
    return data


def boolean(data: Any, where: str) -> bool:
    # torch wrote () where a None stands.
    if type(data) is not bool and data != []:
        raise misfit(where, "true or false", data)
    return bool(data)


WORDS = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}


def number(data: Any, where: str) -> float:
    if type(data) is str and data in WORDS:
        return WORDS[data]
    if type(data) is int and abs(data) < 1 << 1000:
        return float(data)
    if type(data) is not float:
        raise misfit(where, "a number", data)
    return data


PLAIN: dict[str, Any] = {"str": short, "int": integer, "bool": boolean, "float": number}
