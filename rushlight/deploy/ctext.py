"""The part of a C library that is the same for all programs, and sizes as C computes them."""

from __future__ import annotations

import ast
from collections.abc import Callable

from rushlight.base.errors import error

__all__ = ["RUNTIME", "c_size", "c_text", "header_text"]

HEADER = """\
/* {name}: a program as a C library. Sizes and strides are in elements; strides may be NULL, which
   means dense rows. {upper}_run gives 0, or another number and a text of {name}_error(). What it
   writes into `results` is freed by {name}_free. It keeps state and may be called by one thread at
   a time. */
#ifndef RUSHLIGHT_{upper}_H
#define RUSHLIGHT_{upper}_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

#ifndef RUSHLIGHT_TENSOR
#define RUSHLIGHT_TENSOR
enum rushlight_dtype {{
{dtypes}
}};

typedef struct {{
    void *data;
    int32_t dtype;
    int32_t ndim;
    const int64_t *sizes;
    const int64_t *strides;
    void *memory; /* of results: what is to be freed */
}} rushlight_tensor;
#endif

#define {upper}_INPUTS {inputs}
#define {upper}_RESULTS {results}

int {name}_run(rushlight_tensor *inputs, rushlight_tensor *results);
void {name}_free(rushlight_tensor *result);
const char *{name}_error(void);

#ifdef __cplusplus
}}
#endif
#endif
"""

# What generated C calls. Matrix products go to CBLAS where RUSHLIGHT_CBLAS is defined.
RUNTIME = r"""
static _Thread_local char message[512];

#define FAIL(...) do { snprintf(message, sizeof message, __VA_ARGS__); goto fail; } while (0)
#define MOST 64

static int64_t div_floor(int64_t a, int64_t b) {
    return a / b - ((a % b != 0) && ((a < 0) != (b < 0)));
}
static int64_t mod_floor(int64_t a, int64_t b) { return a - b * div_floor(a, b); }
static int64_t max_of(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t min_of(int64_t a, int64_t b) { return a < b ? a : b; }

typedef struct { void *blocks[BLOCKS + 1]; int count; } arena;

static void *take(arena *all, int64_t bytes) {
    void *made = aligned_alloc(64, (size_t)((bytes + 127) / 64 * 64));
    if (made) all->blocks[all->count++] = made;
    return made;
}

static void release(arena *all, const void *kept) {
    for (int at = 0; at < all->count; at++)
        if (all->blocks[at] == kept) all->blocks[at] = NULL;
}

static void give_back(arena *all) {
    for (int at = 0; at < all->count; at++) free(all->blocks[at]);
}

static int64_t stride_of(const rushlight_tensor *t, int dim) {
    if (t->strides) return t->strides[dim];
    int64_t step = 1;
    for (int at = t->ndim - 1; at > dim; at--) step *= t->sizes[at];
    return step;
}

static void copy_strided(char *to, const int64_t *to_steps, const char *from, const int64_t *steps,
                         const int64_t *sizes, int ndim, int64_t width) {
    if (ndim == 0) { memcpy(to, from, (size_t)width); return; }
    for (int64_t at = 0; at < sizes[0]; at++)
        copy_strided(to + at * to_steps[0] * width, to_steps + 1, from + at * steps[0] * width,
                     steps + 1, sizes + 1, ndim - 1, width);
}

/* Rows of a table by their numbers, of 4 or 8 bytes; 1 where one is outside of it. */
static int pick_rows(char *to, const char *from, int64_t width, const char *picks, int64_t each,
                     int64_t row, int64_t column, int64_t rows, int64_t columns, int64_t count) {
    const int64_t one = 1;
    for (int64_t at = 0; at < count; at++) {
        int64_t pick = each == 8 ? ((const int64_t *)picks)[at] : ((const int32_t *)picks)[at];
        if (pick < 0 || pick >= rows) return 1;
        copy_strided(to + at * columns * width, &one, from + pick * row * width, &column,
                     &columns, 1, width);
    }
    return 0;
}

/* The memory of an input as it is read: its own where it lies so, else a copy. */
static void *laid_out(arena *all, const rushlight_tensor *t, const int64_t *wanted, int64_t width,
                      int is_written) {
    int64_t steps[MOST], extent = 1;
    int fits = 1;
    for (int dim = 0; dim < t->ndim; dim++) {
        steps[dim] = stride_of(t, dim);
        if (t->sizes[dim] != 1 && steps[dim] != wanted[dim]) fits = 0;
        if (t->sizes[dim] == 0) return t->data ? t->data : (void *)t;
        extent += (t->sizes[dim] - 1) * wanted[dim];
    }
    if (fits) return t->data;
    if (is_written) return NULL;
    char *made = take(all, extent * width);
    if (made) copy_strided(made, wanted, t->data, steps, t->sizes, t->ndim, width);
    return made;
}

#ifdef RUSHLIGHT_CBLAS
#include <cblas.h>
#endif

#define PRODUCT(NAME, TYPE, BLAS) \
WIDE static int NAME(int64_t m, int64_t n, int64_t k, const TYPE *a, int64_t ar, int64_t ac, \
                     const TYPE *b, int64_t br, int64_t bc, TYPE *c) { \
    if (BLAS(m, n, k, a, ar, ac, b, br, bc, c)) return 0; \
    TYPE *row = malloc(sizeof(TYPE) * (size_t)(k + 1)); \
    if (!row) return 1; \
    for (int64_t i = 0; i < m; i++) { \
        TYPE *to = c + i * n; \
        for (int64_t p = 0; p < k; p++) row[p] = a[i * ar + p * ac]; \
        if (br == 1 && bc != 1) { \
            for (int64_t j = 0; j < n; j++) { \
                const TYPE *column = b + j * bc; \
                TYPE sums[16] = {0}, sum = 0; \
                int64_t p = 0; \
                for (; p + 16 <= k; p += 16) \
                    for (int lane = 0; lane < 16; lane++) \
                        sums[lane] += row[p + lane] * column[p + lane]; \
                for (; p < k; p++) sum += row[p] * column[p]; \
                for (int lane = 0; lane < 16; lane++) sum += sums[lane]; \
                to[j] = sum; \
            } \
        } else { \
            for (int64_t j = 0; j < n; j++) to[j] = 0; \
            for (int64_t p = 0; p < k; p++) { \
                const TYPE factor = row[p], *from = b + p * br; \
                if (bc == 1) for (int64_t j = 0; j < n; j++) to[j] += factor * from[j]; \
                else for (int64_t j = 0; j < n; j++) to[j] += factor * from[j * bc]; \
            } \
        } \
    } \
    free(row); \
    return 0; \
}

#ifdef RUSHLIGHT_CBLAS
#define BLAS_CALL(NAME, TYPE, FUNCTION) \
static int NAME(int64_t m, int64_t n, int64_t k, const TYPE *a, int64_t ar, int64_t ac, \
                const TYPE *b, int64_t br, int64_t bc, TYPE *c) { \
    int at = ac != 1, bt = bc != 1; \
    if ((at && ar != 1) || (bt && br != 1) || (!at && ar < k) || (at && ac < m) || (!bt && br < n) \
        || (bt && bc < k)) return 0; \
    FUNCTION(CblasRowMajor, at ? CblasTrans : CblasNoTrans, bt ? CblasTrans : CblasNoTrans, \
             (int)m, (int)n, (int)k, 1, a, (int)(at ? ac : ar), b, (int)(bt ? bc : br), 0, c, \
             (int)n); \
    return 1; \
}
BLAS_CALL(blas_f32, float, cblas_sgemm)
BLAS_CALL(blas_f64, double, cblas_dgemm)
#else
#define blas_f32(...) 0
#define blas_f64(...) 0
#endif

PRODUCT(product_f32, float, blas_f32)
PRODUCT(product_f64, double, blas_f64)
"""


def c_text(text: str) -> str:
    """A literal of C: files say how symbols are called."""
    plain = "".join(
        [c if c.isascii() and c.isprintable() and c not in '"\\?' else "_" for c in text]
    )
    return f'"{plain}"'


OPERATORS: dict[type, str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}
FUNCTIONS: dict[type, str] = {ast.FloorDiv: "div_floor", ast.Mod: "mod_floor"}
CALLS = {"max": "max_of", "min": "min_of"}


def header_text(name: str, inputs: int, results: int, dtypes: dict[str, int]) -> str:
    lines = [f"    RUSHLIGHT_{key.upper()} = {code}," for key, code in dtypes.items()]
    fields = {"name": name, "upper": name.upper(), "inputs": inputs, "results": results}
    return HEADER.format(dtypes="\n".join(lines), **fields)


def c_size(text: str, read: Callable[[ast.expr], str | None]) -> str:
    """Python that computes a size, as C; `read` tells what a part stands for that is no
    arithmetic."""
    return c_part(ast.parse(text, mode="eval").body, read)


def c_part(node: ast.expr, read: Callable[[ast.expr], str | None]) -> str:
    known = read(node)
    if known is not None:
        return known
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return f"INT64_C({node.value})"
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return f"(-{c_part(node.operand, read)})"
    if isinstance(node, ast.BinOp):
        left, right = c_part(node.left, read), c_part(node.right, read)
        kind = type(node.op)
        if kind in OPERATORS:
            return f"({left} {OPERATORS[kind]} {right})"
        if kind in FUNCTIONS:
            return f"{FUNCTIONS[kind]}({left}, {right})"
        if kind is ast.BitAnd:
            return f"({left} & {right})"
        if kind is ast.Pow and isinstance(node.right, ast.Constant):
            return "(" + " * ".join([left] * int(str(node.right.value))) + ")"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CALLS:
        first, *rest = [c_part(argument, read) for argument in node.args]
        for other in rest:
            first = f"{CALLS[node.func.id]}({first}, {other})"
        return first
    raise error("RL1587", NotImplementedError, what=f"the size {ast.unparse(node)}")
