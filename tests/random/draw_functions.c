/* Functions of elements, reductions, and operators that move elements. */
#include <stdio.h>
#include <string.h>

#include "draw.h"

static bool is_float_type(kn_dtype dtype) {
    return dtype == KN_FLOAT32 || dtype == KN_FLOAT64 || kn_is_half(dtype);
}
static bool any_line(const graph_line *line) {
    return line->rank >= 0;
}
static bool is_float_line(const graph_line *line) {
    return is_float_type(line->dtype);
}
static bool has_axes(const graph_line *line) {
    return line->rank > 0;
}
static bool is_integer(const graph_line *line) {
    return !is_float_type(line->dtype) && line->dtype != KN_BOOL;
}

/* Attributes of a random case of a pointwise row, or none. */
static const char *case_attributes(drawing *to, const kn_operator *row) {
    if (!row->case_count) return "";
    const char *text = row->cases[random_below(&to->stream, row->case_count)].attributes;
    return text ? text : "";
}

int draw_unary(drawing *to) {
    for (int attempt = 0; attempt < 20; attempt++) {
        const kn_operator *row = kn_operator_table[random_below(&to->stream, kn_operator_table_count)];
        int least, most;
        kn_operator_arity(row, &least, &most);
        if (row->class != KN_CLASS_POINTWISE || row->backward || row->random || least != 1 || most != 1)
            continue;
        int x = draw_choose(to, random_chance(&to->stream, 85) ? is_float_line : any_line);
        if (x < 0) return -1;
        /* Into the domain of logarithms, roots and inverse functions. */
        if (random_chance(&to->stream, 90)) {
            static const char *const positive[] = {"log", "sqrt", "rsqrt", "reciprocal", "acosh"};
            static const char *const small[] = {"asin", "acos", "atanh", "tan",  "exp",
                                                "sinh", "cosh", "expm1", "log1p"};
            for (size_t i = 0; i < KN_COUNT_OF(positive); i++)
                if (!strcmp(row->name, positive[i]))
                    x = draw_add1(to, "shift", draw_add1(to, "abs", x, ""), "summand=1.25");
            for (size_t i = 0; i < KN_COUNT_OF(small); i++)
                if (!strcmp(row->name, small[i]))
                    x = draw_add1(to, "scale", draw_add1(to, "sigmoid", x, ""), "factor=0.75");
        }
        return draw_add1(to, row->name, x, case_attributes(to, row));
    }
    return -1;
}

int draw_binary(drawing *to) {
    for (int attempt = 0; attempt < 30; attempt++) {
        static const char *const usual[] = {"add", "mul", "sub", "max", "min", "add", "mul"};
        const kn_operator *row =
            random_chance(&to->stream, 70)
                ? kn_operator_find(usual[random_below(&to->stream, (int)KN_COUNT_OF(usual))])
                : kn_operator_table[random_below(&to->stream, kn_operator_table_count)];
        int least, most;
        kn_operator_arity(row, &least, &most);
        if (row->class != KN_CLASS_POINTWISE || row->backward || row->random || least != 2) continue;
        const int x = draw_choose(to, random_chance(&to->stream, 85) ? is_float_line : any_line);
        if (x < 0) return -1;
        int y = draw_partner(to, x, true);
        if (!strcmp(row->name, "div") || !strcmp(row->name, "mod") || !strcmp(row->name, "fmod"))
            y = draw_add1(to, "shift", draw_add1(to, "abs", y, ""), "summand=0.75");
        const bool turned = random_chance(&to->stream, 40);
        if (!strcmp(row->name, "pow"))
            return draw_add2(to, row->name,
                             draw_add1(to, "shift", draw_add1(to, "abs", x, ""), "summand=0.5"), y, "");
        return turned ? draw_add2(to, row->name, y, x, case_attributes(to, row))
                      : draw_add2(to, row->name, x, y, case_attributes(to, row));
    }
    return -1;
}

int draw_where(drawing *to) {
    static const char *const comparisons[] = {"less", "greater", "less_equal", "greater_equal", "not_equal"};
    const int x = draw_choose(to, is_float_line);
    if (x < 0) return -1;
    const int y = draw_partner(to, x, true), a = draw_partner(to, x, true);
    const int condition =
        draw_add2(to, comparisons[random_below(&to->stream, (int)KN_COUNT_OF(comparisons))], x, y, "");
    return draw_add(to, "where", (int[]){condition, random_chance(&to->stream, 50) ? x : a, a}, 3, "");
}

int draw_cast(drawing *to) {
    static const char *const types[] = {"float32", "float16", "bfloat16", "float64", "int32",
                                        "int64",   "bool",    "uint8",    "int8",    "uint32"};
    const int x = draw_choose(to, any_line);
    char words[64];
    if (x < 0) return -1;
    snprintf(words, sizeof words, "dtype=%s",
             is_float_type(to->graph->lines[x].dtype) && random_chance(&to->stream, 50)
                 ? types[1 + random_below(&to->stream, 2)]
                 : types[random_below(&to->stream, (int)KN_COUNT_OF(types))]);
    const int narrow = draw_add1(to, "cast", x, words);
    return random_chance(&to->stream, 60) ? draw_add1(to, "cast", narrow, "dtype=float32") : narrow;
}

int draw_integer(drawing *to) {
    static const char *const kinds[] = {"add",   "mul", "bit_and",  "bit_or",         "bit_xor", "max",
                                        "equal", "sub", "quotient", "floor_quotient", "mod",     "fmod"};
    const int x = draw_choose(to, is_integer);
    if (x < 0) return -1;
    return draw_add2(to, kinds[random_below(&to->stream, (int)KN_COUNT_OF(kinds))], x,
                     draw_partner(to, x, true), "");
}

/* A subset of axes, "0,2", negative ones as well. */
static void draw_axes(drawing *to, int rank, char axes[48]) {
    size_t used = 0;
    axes[0] = 0;
    for (int d = 0; d < rank; d++)
        if (random_chance(&to->stream, 45))
            used += (size_t)snprintf(axes + used, 48 - used, "%s%d", used ? "," : "",
                                     random_chance(&to->stream, 20) ? d - rank : d);
}

int draw_reduction(drawing *to) {
    static const char *const kinds[] = {"sum",
                                        "mean",
                                        "mean",
                                        "reduce_max",
                                        "reduce_min",
                                        "reduce_l1",
                                        "reduce_sum_square",
                                        "reduce_log_sum_exp"};
    const int x = draw_choose(to, random_chance(&to->stream, 90) ? draw_is_float_with_axes : has_axes);
    char axes[48], words[96];
    if (x < 0) return -1;
    draw_axes(to, to->graph->lines[x].rank, axes);
    snprintf(words, sizeof words, "%s%s%s", axes[0] ? "axes=" : "", axes,
             random_chance(&to->stream, 60) ? " keep=yes" : "");
    return draw_add1(to, kinds[random_below(&to->stream, (int)KN_COUNT_OF(kinds))], x, words);
}

int draw_along_axis(drawing *to) {
    static const char *const kinds[] = {"softmax", "log_softmax", "cumsum", "argmax", "argmin", "top_k"};
    const int x = draw_choose(to, draw_is_float_with_axes);
    char words[96];
    if (x < 0) return -1;
    const int axis = random_below(&to->stream, to->graph->lines[x].rank);
    const int kind = random_below(&to->stream, (int)KN_COUNT_OF(kinds));
    int used = snprintf(words, sizeof words, "axis=%d", axis);
    if (kind == 2)
        snprintf(words + used, sizeof words - (size_t)used, "%s%s",
                 random_chance(&to->stream, 30) ? " exclusive=yes" : "",
                 random_chance(&to->stream, 30) ? " reverse=yes" : "");
    if (kind == 5)
        snprintf(words + used, sizeof words - (size_t)used, " k=%d",
                 1 + random_below(&to->stream, (int)to->graph->lines[x].dims[axis] + 1));
    return draw_add1(to, kinds[kind], x, words);
}

int draw_transpose(drawing *to) {
    const int x = draw_choose(to, has_axes);
    if (x < 0) return -1;
    const int rank = to->graph->lines[x].rank;
    uint32_t order[KN_MAX_RANK];
    char words[64];
    int used = snprintf(words, sizeof words, "permutation=");
    for (int d = 0; d < rank; d++)
        order[d] = (uint32_t)d;
    kn_random_shuffle(to->stream.key + to->stream.index++, order, (size_t)rank);
    for (int d = 0; d < rank; d++)
        used += snprintf(words + used, sizeof words - (size_t)used, "%s%u", d ? "," : "", order[d]);
    return draw_add1(to, "transpose", x, words);
}

/* Merges two axes, splits one, or flattens. */
int draw_reshape(drawing *to) {
    const int x = draw_choose(to, has_axes);
    char words[96];
    if (x < 0) return -1;
    const graph_line line = to->graph->lines[x];
    const int form = random_below(&to->stream, 4);
    if (form == 0) return draw_add1(to, "flatten", x, "");
    if (form == 1) return draw_add1(to, "unsqueeze", x, random_chance(&to->stream, 50) ? "0" : "1");
    if (form == 2) return draw_add1(to, "squeeze", x, "");
    int used = 0, merged = line.rank > 2 ? 1 + random_below(&to->stream, line.rank - 2) : -1;
    for (int d = 1; d < line.rank; d++) {
        const char *comma = used ? "," : "";
        if (d == merged) {
            used += snprintf(words + used, sizeof words - (size_t)used, "%s%lld", comma,
                             (long long)(line.dims[d] * line.dims[d + 1]));
            d++;
        } else if (line.dims[d] % 2 == 0 && line.dims[d] && random_chance(&to->stream, 40)) {
            used += snprintf(words + used, sizeof words - (size_t)used, "%s2,%lld", comma,
                             (long long)(line.dims[d] / 2));
        } else {
            used +=
                snprintf(words + used, sizeof words - (size_t)used, "%s%lld", comma, (long long)line.dims[d]);
        }
    }
    return used ? draw_add1(to, "reshape", x, words) : -1;
}

int draw_slice(drawing *to) {
    const int x = draw_choose(to, has_axes);
    char words[96];
    if (x < 0) return -1;
    const graph_line line = to->graph->lines[x];
    const int axis = random_below(&to->stream, line.rank), size = (int)line.dims[axis];
    const int begin = random_below(&to->stream, size + 1),
              end = begin + random_below(&to->stream, size - begin + 1);
    snprintf(words, sizeof words, "axis=%d begin=%d end=%d%s", axis, begin, end,
             random_chance(&to->stream, 25) ? " step=2" : "");
    return draw_add1(to, "slice", x, words);
}

int draw_pad(drawing *to) {
    const int x = draw_choose(to, has_axes);
    char words[96];
    if (x < 0) return -1;
    const int rank = to->graph->lines[x].rank;
    int used = snprintf(words, sizeof words, "amounts=");
    for (int d = 0; d < 2 * rank; d++)
        used += snprintf(words + used, sizeof words - (size_t)used, "%s%d", d ? "," : "",
                         random_chance(&to->stream, 50) ? 0 : random_below(&to->stream, 4) - 1);
    return draw_add1(to, "pad", x, words);
}

int draw_flip(drawing *to) {
    const int x = draw_choose(to, has_axes);
    char axes[48], words[64];
    if (x < 0) return -1;
    draw_axes(to, to->graph->lines[x].rank, axes);
    snprintf(words, sizeof words, "%s%s", axes[0] ? "axes=" : "", axes);
    return draw_add1(to, "flip", x, words);
}

int draw_concat(drawing *to) {
    const int x = draw_choose(to, has_axes);
    char words[32];
    if (x < 0) return -1;
    const graph_line line = to->graph->lines[x];
    const int axis = random_below(&to->stream, line.rank);
    int parts[3] = {x, x, x}, count = 2 + random_below(&to->stream, 2);
    for (int p = 0; p < count; p++) {
        if (random_chance(&to->stream, 35)) continue;
        int64_t dims[KN_MAX_RANK];
        memcpy(dims, line.dims, sizeof dims);
        dims[axis] = random_below(&to->stream, 9);
        parts[p] = draw_add_input(to, dims, line.rank, draw_type_name(line.dtype), 0);
    }
    snprintf(words, sizeof words, "axis=%d", axis);
    return draw_add(to, "concat", parts, count, words);
}

int draw_broadcast(drawing *to) {
    const int x = draw_choose(to, any_line);
    char words[96];
    if (x < 0) return -1;
    const graph_line line = to->graph->lines[x];
    int used = snprintf(words, sizeof words, "shape=");
    if (random_chance(&to->stream, 30))
        used += snprintf(words + used, sizeof words - (size_t)used, "3%s", line.rank ? "," : "");
    for (int d = 0; d < line.rank; d++)
        used += snprintf(words + used, sizeof words - (size_t)used, "%s%lld", d ? "," : "",
                         line.dims[d] == 1 ? 1 + (long long)random_below(&to->stream, 6)
                                           : (long long)line.dims[d]);
    return draw_add1(to, "broadcast", x, words);
}

int draw_tile(drawing *to) {
    const int x = draw_choose(to, draw_is_float_with_axes);
    if (x < 0) return -1;
    if (random_chance(&to->stream, 50))
        return draw_add1(to, "tile", x, random_chance(&to->stream, 50) ? "2x1" : "3");
    return draw_add1(to, "repeat_elements", x, random_chance(&to->stream, 50) ? "2 axis=0" : "3 axis=-1");
}

int draw_triangle(drawing *to) {
    const int x = draw_choose(to, draw_is_matrix);
    char words[16];
    if (x < 0) return -1;
    snprintf(words, sizeof words, "%d", random_below(&to->stream, 5) - 2);
    return draw_add1(to, random_chance(&to->stream, 50) ? "tril" : "triu", x, words);
}

/* ---- convolutions, pools, products, norms -------------------------------------------------------- */
