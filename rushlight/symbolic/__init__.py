"""Integers that may be symbols: SymInt and its kin, shape environments, guards.

Names resolve on first use: sympy is imported with the first ShapeEnv, never before.
"""

from __future__ import annotations

from rushlight.base.lazy import namespace

MODULES = {
    "numbers": "NUMBERS SymInt SymFloat SymBool sym_int sym_float sym_max sym_min sym_not sym_ite "
    "sym_sqrt sym_sum",
    "queries": "is_symbolic is_concrete_int is_concrete_float is_concrete_bool has_hint hint_int "
    "size_hint guard_int guard_float guard_bool guard_scalar guard_size_oblivious guard_or_false "
    "guard_or_true guard_as_size_or statically_known_true statically_known_false definitely_true "
    "definitely_false expect_true constrain_range constrain_range_for_size free_symbols "
    "free_unbacked_symbols has_free_symbols has_free_unbacked_symbols sym_and sym_or sym_eq "
    "has_static_value guarding_hint_or_throw optimization_hint has_symbolic_sizes_strides "
    "is_nested_int",
    "checks": "check check_is_size",
    "errors": "GuardOnDataDependentSymNode ConstraintViolationError PendingUnbackedSymbolNotFound",
    "ranges": "ValueRanges ValueRangeError int_oo",
    "node": "SymNode",
    "shapeenv": "ShapeEnv DimDynamic SymbolicContext StatelessSymbolicContext "
    "StatefulSymbolicContext",
    "guards": "ShapeGuard RuntimeAssert",
    "bindings": "CallMethodKey ConvertIntKey DivideByKey unbacked_bindings",
    "sources": "Source ConstantSource LocalSource AttrSource TensorPropertySource",
    "expressions": "build FloorDiv CleanDiv Mod Max Min IntTrueDiv FloatTrueDiv ToFloat",
}
HOMES = {name: f".{module}" for module, names in MODULES.items() for name in names.split()}

__getattr__, __dir__ = namespace(__name__, HOMES)
