"""The C of steps that are no loops of the object file: convolution, pooling, sorting, choices of
elements, recurrent layers. A library has those that its program calls, for the types that it has.

Operands are views: memory with sizes and steps in elements. `$T` stands for a type of C, `$S` for
its short name. A kernel gives 0, or 1 where memory or an index is not as it has to be.
"""

from __future__ import annotations

import re

__all__ = ["KERNELS", "NEEDS", "TYPES", "kernel_text"]

# dtype -> (type of C, short name).
TYPES = {
    "float32": ("float", "f32"), "float64": ("double", "f64"), "int64": ("int64_t", "i64"),
    "int32": ("int32_t", "i32"), "int16": ("int16_t", "i16"), "int8": ("int8_t", "i8"),
    "uint8": ("uint8_t", "u8"), "bool": ("uint8_t", "b8"),
}  # fmt: skip

VIEW = r"""
#define DIMS 12
typedef struct { char *at; int ndim; int64_t sizes[DIMS], steps[DIMS]; } view;

/* The next place of an iteration over sizes, the last dim first; 0 after the last. */
static int onward(int64_t *place, const int64_t *sizes, int ndim) {
    for (int dim = ndim - 1; dim >= 0; dim--) {
        if (++place[dim] < sizes[dim]) return 1;
        place[dim] = 0;
    }
    return 0;
}

static int is_empty(const view *v) {
    for (int dim = 0; dim < v->ndim; dim++) if (v->sizes[dim] == 0) return 1;
    return 0;
}

static int64_t offset_at(const view *v, const int64_t *place) {
    int64_t found = 0;
    for (int dim = 0; dim < v->ndim; dim++) found += place[dim] * v->steps[dim];
    return found;
}

static int wrapped(int64_t *index, int64_t size) {
    if (*index < 0) *index += size;
    return *index < 0 || *index >= size;
}
"""

# Filled memory, and numbers in equal steps.
FILL = r"""
static void fill(const view *v, const void *value, int64_t width) {
    int64_t place[DIMS] = {0};
    if (is_empty(v)) return;
    do memcpy(v->at + offset_at(v, place) * width, value, (size_t)width);
    while (onward(place, v->sizes, v->ndim));
}
"""

# Elements beyond the edges are those of the edge, or those that a mirror there shows.
EDGES = r"""
static void padded(const view *x, const view *y, const int64_t *before, int mirrored,
                   int64_t width) {
    int64_t place[DIMS] = {0};
    if (is_empty(y)) return;
    do {
        int64_t from = 0;
        for (int dim = 0; dim < y->ndim; dim++) {
            int64_t at = place[dim] - before[dim], last = x->sizes[dim] - 1;
            if (mirrored) at = at < 0 ? -at : at > last ? 2 * last - at : at;
            from += max_of(min_of(at, last), 0) * x->steps[dim];
        }
        memcpy(y->at + offset_at(y, place) * width, x->at + from * width, (size_t)width);
    } while (onward(place, y->sizes, y->ndim));
}
"""

# Convolution as products of matrices: the weights, and columns of what windows see. The input, the
# weight and the result have three dims of space.
CONVOLUTION = r"""
typedef $T lanes_$S __attribute__((vector_size(VECTOR), aligned(sizeof($T)), may_alias));
#define LANES_$S ((int64_t)(VECTOR / sizeof($T)))
#define WIDTH_$S (2 * LANES_$S)
#define LOADED_$S(from) (*(const lanes_$S *)(from))
#define STORED_$S(row, left, right) \
    *(lanes_$S *)(c + (row) * wide) = left, *(lanes_$S *)(c + (row) * wide + LANES_$S) = right

/* c = a b for `rows` rows of a, up to four, and two vectors of columns. */
WIDE static void tile_$S(int rows, int64_t k, const $T *a, const $T *b, int64_t wide, $T *c) {
    if (rows < 4) {
        for (int row = 0; row < rows; row++) {
            lanes_$S s = {0}, t = {0};
            for (int64_t p = 0; p < k; p++) {
                s += a[row * k + p] * LOADED_$S(b + p * wide);
                t += a[row * k + p] * LOADED_$S(b + p * wide + LANES_$S);
            }
            STORED_$S(row, s, t);
        }
        return;
    }
    const $T *a1 = a + k, *a2 = a + 2 * k, *a3 = a + 3 * k;
    lanes_$S s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0}, t0 = {0}, t1 = {0}, t2 = {0}, t3 = {0};
    for (int64_t p = 0; p < k; p++) {
        lanes_$S x = LOADED_$S(b + p * wide), y = LOADED_$S(b + p * wide + LANES_$S);
        s0 += a[p] * x; t0 += a[p] * y; s1 += a1[p] * x; t1 += a1[p] * y;
        s2 += a2[p] * x; t2 += a2[p] * y; s3 += a3[p] * x; t3 += a3[p] * y;
    }
    STORED_$S(0, s0, t0); STORED_$S(1, s1, t1); STORED_$S(2, s2, t2); STORED_$S(3, s3, t3);
}

/* Where the window of output `o` sees the input through tap `t`; -1 outside of it. */
static int64_t seen_at(int64_t o, int64_t t, int64_t size, const int64_t *form, int transposed) {
    int64_t stride = form[0], padding = form[1], dilation = form[2], at;
    if (!transposed) at = o * stride - padding + t * dilation;
    else {
        at = o + padding - t * dilation;
        if (at % stride) return -1;
        at /= stride;
    }
    return at < 0 || at >= size ? -1 : at;
}

#define PANEL 64
/* form: stride, padding and dilation of each of the three dims. */
WIDE static int convolution_$S(const view *x, const view *w, const $T *bias, int64_t bias_step,
                               const view *y, const int64_t *form, int transposed,
                               int64_t groups) {
    int64_t images = x->sizes[0], outs = y->sizes[1] / groups, ins = x->sizes[1] / groups;
    int64_t taps = w->sizes[2] * w->sizes[3] * w->sizes[4], k = ins * taps;
    int64_t points = y->sizes[2] * y->sizes[3] * y->sizes[4];
    $T *a = malloc(sizeof($T) * (size_t)(outs * k + 1));
    $T *b = malloc(sizeof($T) * (size_t)(k + 1) * PANEL);
    $T *c = malloc(sizeof($T) * (size_t)(outs + 4) * PANEL);
    int64_t *steps = malloc(sizeof(int64_t) * (size_t)(taps + 1) * PANEL);
    int failed = !a || !b || !c || !steps;
    for (int64_t group = 0; !failed && group < groups; group++) {
        int64_t filled = 0;
        for (int64_t out = 0; out < outs; out++)
            for (int64_t in = 0; in < ins; in++) {
                int64_t lead = transposed ? group * ins + in : group * outs + out;
                const $T *from = (const $T *)w->at + lead * w->steps[0]
                    + (transposed ? out : in) * w->steps[1];
                for (int64_t d = 0; d < w->sizes[2]; d++)
                    for (int64_t h = 0; h < w->sizes[3]; h++)
                        for (int64_t v = 0; v < w->sizes[4]; v++)
                            a[filled++] = from[d * w->steps[2] + h * w->steps[3] + v * w->steps[4]];
            }
        for (int64_t start = 0; start < points; start += PANEL) {
            int64_t count = points - start < PANEL ? points - start : PANEL;
            int64_t wide = (count + WIDTH_$S - 1) / WIDTH_$S * WIDTH_$S;
            for (int64_t at = 0; at < count; at++) {
                int64_t o2 = (start + at) % y->sizes[4], rest = (start + at) / y->sizes[4], tap = 0;
                int64_t o1 = rest % y->sizes[3], o0 = rest / y->sizes[3];
                for (int64_t d = 0; d < w->sizes[2]; d++) {
                    int64_t i0 = seen_at(o0, d, x->sizes[2], form, transposed);
                    for (int64_t h = 0; h < w->sizes[3]; h++) {
                        int64_t i1 = seen_at(o1, h, x->sizes[3], form + 3, transposed);
                        for (int64_t v = 0; v < w->sizes[4]; v++) {
                            int64_t i2 = seen_at(o2, v, x->sizes[4], form + 6, transposed);
                            int inside = i0 >= 0 && i1 >= 0 && i2 >= 0;
                            steps[tap++ * PANEL + at] = inside
                                ? i0 * x->steps[2] + i1 * x->steps[3] + i2 * x->steps[4] : -1;
                        }
                    }
                }
            }
            for (int64_t image = 0; image < images; image++) {
                for (int64_t in = 0; in < ins; in++) {
                    const $T *from = (const $T *)x->at + image * x->steps[0]
                        + (group * ins + in) * x->steps[1];
                    for (int64_t tap = 0; tap < taps; tap++) {
                        $T *to = b + (in * taps + tap) * wide;
                        const int64_t *step = steps + tap * PANEL;
                        for (int64_t at = 0; at < count; at++)
                            to[at] = step[at] < 0 ? 0 : from[step[at]];
                        for (int64_t at = count; at < wide; at++) to[at] = 0;
                    }
                }
                for (int64_t out = 0; out < outs; out += 4)
                    for (int64_t at = 0; at < wide; at += WIDTH_$S)
                        tile_$S(outs - out < 4 ? (int)(outs - out) : 4, k, a + out * k, b + at,
                                wide, c + out * wide + at);
                for (int64_t out = 0; out < outs; out++) {
                    int64_t channel = group * outs + out;
                    $T shift = bias ? bias[channel * bias_step] : 0;
                    $T *to = ($T *)y->at + image * y->steps[0] + channel * y->steps[1];
                    int64_t o2 = start % y->sizes[4], rest = start / y->sizes[4];
                    int64_t o1 = rest % y->sizes[3], o0 = rest / y->sizes[3];
                    for (int64_t at = 0; at < count; at++) {
                        to[o0 * y->steps[2] + o1 * y->steps[3] + o2 * y->steps[4]]
                            = c[out * wide + at] + shift;
                        if (++o2 < y->sizes[4]) continue;
                        o2 = 0;
                        if (++o1 < y->sizes[3]) continue;
                        o1 = 0;
                        o0++;
                    }
                }
            }
        }
    }
    free(a); free(b); free(c); free(steps);
    return failed;
}
"""

# Pooling over three dims of space, channel by channel. form: kernel, stride, padding, dilation.
POOLING = r"""
static void max_pool_$S(const view *x, const view *y, const view *picks, const int64_t *form) {
    int64_t place[DIMS] = {0};
    if (is_empty(y)) return;
    do {
        const $T *from = (const $T *)x->at + place[0] * x->steps[0] + place[1] * x->steps[1];
        $T best = 0;
        int64_t found = -1;
        for (int64_t d = 0; d < form[0]; d++) {
            int64_t i0 = place[2] * form[1] - form[2] + d * form[3];
            if (i0 < 0 || i0 >= x->sizes[2]) continue;
            for (int64_t h = 0; h < form[4]; h++) {
                int64_t i1 = place[3] * form[5] - form[6] + h * form[7];
                if (i1 < 0 || i1 >= x->sizes[3]) continue;
                for (int64_t v = 0; v < form[8]; v++) {
                    int64_t i2 = place[4] * form[9] - form[10] + v * form[11];
                    if (i2 < 0 || i2 >= x->sizes[4]) continue;
                    $T value = from[i0 * x->steps[2] + i1 * x->steps[3] + i2 * x->steps[4]];
                    if (found < 0 || value > best || value != value) {
                        best = value;
                        found = (i0 * x->sizes[3] + i1) * x->sizes[4] + i2;
                    }
                }
            }
        }
        (($T *)y->at)[offset_at(y, place)] = best;
        if (picks->at) ((int64_t *)picks->at)[offset_at(picks, place)] = found;
    } while (onward(place, y->sizes, y->ndim));
}

/* The mean over [from, to) of each dim; `bounds` finds them, and what the sum is divided by. */
static void mean_pool_$S(const view *x, const view *y, const int64_t *form, int adaptive,
                         int with_padding, int64_t divisor) {
    int64_t place[DIMS] = {0}, from[3], to[3];
    if (is_empty(y)) return;
    do {
        int64_t all = 1, inside = 1;
        double sum = 0;
        for (int dim = 0; dim < 3; dim++) {
            int64_t size = x->sizes[dim + 2], outs = y->sizes[dim + 2], at = place[dim + 2];
            if (adaptive) {
                from[dim] = at * size / outs;
                to[dim] = ((at + 1) * size + outs - 1) / outs;
            } else {
                const int64_t *own = form + 4 * dim;
                from[dim] = at * own[1] - own[2];
                to[dim] = min_of(from[dim] + own[0], size + own[2]);
                all *= to[dim] - from[dim];
                from[dim] = max_of(from[dim], 0);
                to[dim] = min_of(to[dim], size);
            }
            inside *= max_of(to[dim] - from[dim], 0);
        }
        const $T *base = (const $T *)x->at + place[0] * x->steps[0] + place[1] * x->steps[1];
        for (int64_t i = from[0]; i < to[0]; i++)
            for (int64_t j = from[1]; j < to[1]; j++)
                for (int64_t k = from[2]; k < to[2]; k++)
                    sum += (double)base[i * x->steps[2] + j * x->steps[3] + k * x->steps[4]];
        int64_t by = divisor ? divisor : with_padding && !adaptive ? all : inside;
        (($T *)y->at)[offset_at(y, place)] = ($T)(sum / (double)by);
    } while (onward(place, y->sizes, y->ndim));
}
"""

# Two dims of space in another size, of what `scale` says: nearest points, or lines between them.
RESIZING = r"""
static double source_of(int64_t at, double scale, int aligned) {
    if (aligned) return (double)at * scale;
    double found = ((double)at + 0.5) * scale - 0.5;
    return found < 0 ? 0 : found;
}

static void resize_$S(const view *x, const view *y, const double *scale, int lines, int aligned) {
    int64_t place[DIMS] = {0};
    if (is_empty(y)) return;
    do {
        const $T *base = (const $T *)x->at + place[0] * x->steps[0] + place[1] * x->steps[1];
        $T *to = ($T *)y->at + offset_at(y, place);
        int64_t near[2], next[2];
        $T part[2];
        for (int dim = 0; dim < 2; dim++) {
            int64_t size = x->sizes[dim + 2], at = place[dim + 2];
            double from = lines ? source_of(at, scale[dim], aligned) : (double)at * scale[dim];
            near[dim] = min_of((int64_t)from, size - 1);
            next[dim] = min_of(near[dim] + 1, size - 1);
            part[dim] = ($T)(from - (double)near[dim]);
        }
        const int64_t r = x->steps[2], c = x->steps[3];
        if (!lines) { *to = base[near[0] * r + near[1] * c]; continue; }
        $T above = base[near[0] * r + near[1] * c] * (1 - part[1])
            + base[near[0] * r + next[1] * c] * part[1];
        $T below = base[next[0] * r + near[1] * c] * (1 - part[1])
            + base[next[0] * r + next[1] * c] * part[1];
        *to = above * (1 - part[0]) + below * part[0];
    } while (onward(place, y->sizes, y->ndim));
}
"""

# NaN is the greatest number.
ORDER = r"""
static int comes_before_$S($T a, $T b, int descending) {
    int a_is_number = a == a, b_is_number = b == b;
    if (a_is_number != b_is_number) return descending ? b_is_number : a_is_number;
    return a_is_number && (descending ? a > b : a < b);
}
"""

# Rows in order, equal elements as they were; the first `values->sizes[dim]` are kept.
SORTING = r"""
static int sort_$S(const view *x, const view *values, const view *picks, int dim, int descending) {
    int64_t count = x->sizes[dim], kept = values->sizes[dim], place[DIMS] = {0}, sizes[DIMS];
    $T *row = malloc(sizeof($T) * (size_t)(count + 1));
    int64_t *order = malloc(sizeof(int64_t) * (size_t)(2 * count + 1)), *other = order + count;
    int64_t *both = order;
    if (!row || !order) { free(row); free(order); return 1; }
    memcpy(sizes, x->sizes, sizeof sizes);
    sizes[dim] = 1;
    if (!is_empty(x)) do {
        const $T *from = (const $T *)x->at + offset_at(x, place);
        order = both; other = both + count;
        for (int64_t at = 0; at < count; at++) {
            row[at] = from[at * x->steps[dim]];
            order[at] = at;
        }
        for (int64_t run = 1; run < count; run *= 2) {
            for (int64_t start = 0; start < count; start += 2 * run) {
                int64_t middle = min_of(start + run, count), end = min_of(start + 2 * run, count);
                int64_t left = start, right = middle;
                for (int64_t to = start; to < end; to++) {
                    int takes_right = right < end && (left >= middle
                        || comes_before_$S(row[order[right]], row[order[left]], descending));
                    other[to] = order[takes_right ? right++ : left++];
                }
            }
            int64_t *swap = order; order = other; other = swap;
        }
        $T *to = ($T *)values->at + offset_at(values, place);
        int64_t *pick = (int64_t *)picks->at + offset_at(picks, place);
        for (int64_t at = 0; at < kept; at++) {
            to[at * values->steps[dim]] = row[order[at]];
            pick[at * picks->steps[dim]] = order[at];
        }
    } while (onward(place, sizes, x->ndim));
    free(row); free(both);
    return 0;
}
"""

# The first element that no other comes before, along a dim; the result has one element there.
EXTREMES = r"""
static void extreme_$S(const view *x, const view *values, const view *picks, int dim, int largest) {
    int64_t place[DIMS] = {0}, sizes[DIMS];
    memcpy(sizes, x->sizes, sizeof sizes);
    sizes[dim] = 1;
    if (is_empty(x)) return;
    do {
        const $T *from = (const $T *)x->at + offset_at(x, place);
        int64_t found = 0;
        for (int64_t at = 1; at < x->sizes[dim]; at++) {
            $T now = from[at * x->steps[dim]], best = from[found * x->steps[dim]];
            if (best != best) break;
            if (now != now || (largest ? now > best : now < best)) found = at;
        }
        if (values->at) (($T *)values->at)[offset_at(values, place)] = from[found * x->steps[dim]];
        ((int64_t *)picks->at)[offset_at(picks, place)] = found;
    } while (onward(place, sizes, x->ndim));
}
"""

SUMS = r"""
static void running_$S(const view *x, const view *y, int dim, int multiplies) {
    int64_t place[DIMS] = {0}, sizes[DIMS];
    memcpy(sizes, x->sizes, sizeof sizes);
    sizes[dim] = 1;
    if (is_empty(x)) return;
    do {
        const $T *from = (const $T *)x->at + offset_at(x, place);
        $T *to = ($T *)y->at + offset_at(y, place), total = ($T)(multiplies ? 1 : 0);
        for (int64_t at = 0; at < x->sizes[dim]; at++) {
            if (multiplies) total *= from[at * x->steps[dim]];
            else total += from[at * x->steps[dim]];
            to[at * y->steps[dim]] = total;
        }
    } while (onward(place, sizes, x->ndim));
}
"""

# Elements by their place along one dim. `into` says that the picks are places of the result.
GATHERING = r"""
static int along(const view *x, const view *picks, const view *y, int dim, int64_t width,
                 int into) {
    int64_t place[DIMS] = {0};
    if (is_empty(picks)) return 0;
    do {
        int64_t pick = ((const int64_t *)picks->at)[offset_at(picks, place)], own = place[dim];
        const view *there = into ? y : x;
        if (pick < 0 || pick >= there->sizes[dim]) return 1;
        int64_t here = offset_at(into ? x : y, place);
        place[dim] = pick;
        int64_t at = offset_at(there, place);
        place[dim] = own;
        const char *from = x->at + (into ? here : at) * width;
        memcpy(y->at + (into ? at : here) * width, from, (size_t)width);
    } while (onward(place, picks->sizes, picks->ndim));
    return 0;
}
"""

ADDING = r"""
static int add_along_$S(const view *x, const view *picks, const view *y, int dim) {
    int64_t place[DIMS] = {0};
    if (is_empty(picks)) return 0;
    do {
        int64_t pick = ((const int64_t *)picks->at)[offset_at(picks, place)], own = place[dim];
        if (pick < 0 || pick >= y->sizes[dim]) return 1;
        $T value = ((const $T *)x->at)[offset_at(x, place)];
        place[dim] = pick;
        (($T *)y->at)[offset_at(y, place)] += value;
        place[dim] = own;
    } while (onward(place, picks->sizes, picks->ndim));
    return 0;
}
"""

# Elements of a table whose places along some dims are those of tensors. `walk` has the sizes of the
# choice: dims of the picks at `first`, the others are the table's other dims.
PICKING = r"""
static int64_t picked(const view *table, int count, const view *picks, const int *dims,
                      const int64_t *place, int first, int ndim) {
    int64_t found = 0;
    int taken[DIMS] = {0};
    for (int each = 0; each < count; each++) {
        int64_t pick = ((const int64_t *)picks[each].at)[offset_at(&picks[each], place + first)];
        if (wrapped(&pick, table->sizes[dims[each]])) return -1;
        found += pick * table->steps[dims[each]];
        taken[dims[each]] = 1;
    }
    for (int dim = 0, at = 0; dim < table->ndim; dim++) {
        if (taken[dim]) continue;
        if (at == first) at += ndim;
        found += place[at++] * table->steps[dim];
    }
    return found;
}

static int pick_all(const view *table, int count, const view *picks, const int *dims,
                    const view *y, int first, int64_t width) {
    int64_t place[DIMS] = {0};
    if (is_empty(y)) return 0;
    do {
        int64_t from = picked(table, count, picks, dims, place, first, picks[0].ndim);
        if (from < 0) return 1;
        memcpy(y->at + offset_at(y, place) * width, table->at + from * width, (size_t)width);
    } while (onward(place, y->sizes, y->ndim));
    return 0;
}

static int put_all(const view *table, int count, const view *picks, const int *dims,
                   const view *x, int first, int64_t width) {
    int64_t place[DIMS] = {0};
    if (is_empty(x)) return 0;
    do {
        int64_t to = picked(table, count, picks, dims, place, first, picks[0].ndim);
        if (to < 0) return 1;
        memcpy(table->at + to * width, x->at + offset_at(x, place) * width, (size_t)width);
    } while (onward(place, x->sizes, x->ndim));
    return 0;
}
"""

ADDING_PICKED = r"""
static int add_all_$S(const view *table, int count, const view *picks, const int *dims,
                      const view *x, int first) {
    int64_t place[DIMS] = {0};
    if (is_empty(x)) return 0;
    do {
        int64_t to = picked(table, count, picks, dims, place, first, picks[0].ndim);
        if (to < 0) return 1;
        (($T *)table->at)[to] += ((const $T *)x->at)[offset_at(x, place)];
    } while (onward(place, x->sizes, x->ndim));
    return 0;
}
"""

# A layer over dense steps: mode 0 is ReLU, 1 tanh, 2 LSTM, 3 GRU; gates lie side by side.
RECURRENT = r"""
#include <math.h>
static $T sigmoid_$S($T x) { return ($T)(1 / (1 + exp(-(double)x))); }

static int recurrent_$S(const $T *x, const $T *wi, const $T *wh, const $T *bi, const $T *bh,
                        const $T *h0, const $T *c0, $T *y, $T *h, $T *c, int64_t steps,
                        int64_t rows, int64_t ins, int64_t size, int mode, int reverse) {
    int64_t wide = size * (mode == 2 ? 4 : mode == 3 ? 3 : 1);
    $T *shares = malloc(sizeof($T) * (size_t)(steps * rows * wide + 1));
    $T *own = malloc(sizeof($T) * (size_t)(rows * wide + 1));
    int failed = !shares || !own
        || product_$S(steps * rows, wide, ins, x, ins, 1, wi, 1, ins, shares);
    if (!failed) {
        memcpy(h, h0, sizeof($T) * (size_t)(rows * size));
        if (mode == 2) memcpy(c, c0, sizeof($T) * (size_t)(rows * size));
    }
    for (int64_t step = 0; !failed && step < steps; step++) {
        int64_t at = reverse ? steps - 1 - step : step;
        failed = product_$S(rows, wide, size, h, size, 1, wh, 1, size, own);
        for (int64_t row = 0; !failed && row < rows; row++) {
            const $T *in = shares + (at * rows + row) * wide, *mine = own + row * wide;
            $T *to = y + (at * rows + row) * size, *now = h + row * size;
            for (int64_t j = 0; j < size; j++) {
#define INPUT(gate) (in[(gate) * size + j] + (bi ? bi[(gate) * size + j] : 0))
#define OWN(gate) (mine[(gate) * size + j] + (bh ? bh[(gate) * size + j] : 0))
                if (mode == 2) {
                    $T *cell = c + row * size + j;
                    *cell = sigmoid_$S(INPUT(1) + OWN(1)) * *cell
                        + sigmoid_$S(INPUT(0) + OWN(0)) * ($T)tanh((double)(INPUT(2) + OWN(2)));
                    now[j] = sigmoid_$S(INPUT(3) + OWN(3)) * ($T)tanh((double)*cell);
                } else if (mode == 3) {
                    $T reset = sigmoid_$S(INPUT(0) + OWN(0)), keep = sigmoid_$S(INPUT(1) + OWN(1));
                    $T value = ($T)tanh((double)(INPUT(2) + reset * OWN(2)));
                    now[j] = value + keep * (now[j] - value);
                } else {
                    $T sum = INPUT(0) + OWN(0);
                    now[j] = mode == 1 ? ($T)tanh((double)sum) : sum < 0 ? 0 : sum;
                }
#undef INPUT
#undef OWN
                to[j] = now[j];
            }
        }
    }
    free(shares); free(own);
    return failed;
}
"""

KERNELS = {
    "view": VIEW, "fill": FILL, "edges": EDGES, "convolution": CONVOLUTION, "pooling": POOLING,
    "resizing": RESIZING, "order": ORDER, "sorting": SORTING, "extremes": EXTREMES, "sums": SUMS,
    "gathering": GATHERING, "adding": ADDING, "picking": PICKING, "adding picked": ADDING_PICKED,
    "recurrent": RECURRENT,
}  # fmt: skip
# What a kernel needs of others, if not just views.
NEEDS = {
    "view": (), "sorting": ("view", "order"), "adding picked": ("view", "picking"),
}  # fmt: skip
FUNCTION = re.compile(r"^(WIDE )?static ", re.M)


def kernel_text(name: str, dtype: str | None) -> str:
    """A kernel for a type; `dtype` is None where it has none."""
    text = KERNELS[name]
    if dtype is not None:
        made, short = TYPES[dtype]
        text = text.replace("$T", made).replace("$S", short)
    # Of a group of functions not all may be called.
    return FUNCTION.sub(r"\1static __attribute__((unused)) ", text)
