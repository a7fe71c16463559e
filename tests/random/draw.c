/* Draws random graphs: a table of families of operators, each of which adds a line or a few. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "random_graph.h"

int random_below(random_stream *stream, int bound) {
    return (int)kn_random_below(stream->key, stream->index++, (uint32_t)bound);
}

bool random_chance(random_stream *stream, int percent) {
    return random_below(stream, 100) < percent;
}

/* ---- adding lines -------------------------------------------------------------------------------- */

typedef struct drawing {
    random_graph *graph;
    random_stream stream;
    int operators; /* the most allowed */
    int largest;   /* elements of a value */
} drawing;

static int64_t elements_of(const graph_line *line) {
    int64_t count = 1;
    for (int d = 0; d < line->rank; d++)
        count *= line->dims[d];
    return count;
}

static int add_input(drawing *to, const int64_t *dims, int rank, const char *dtype, int bound) {
    random_graph *graph = to->graph;
    if (graph->count == GRAPH_LINES) return -1;
    graph_line *line = &graph->lines[graph->count];
    *line = (graph_line){.bound = bound, .rank = rank};
    size_t used = 0;
    for (int d = 0; d < rank; d++) {
        line->dims[d] = dims[d];
        used += (size_t)snprintf(line->words + used, sizeof line->words - used, "%s%lld", d ? "x" : "",
                                 (long long)dims[d]);
    }
    snprintf(line->words + used, sizeof line->words - used, "%s%s%s", rank ? "" : "scalar", *dtype ? " " : "",
             dtype);
    return graph->count++;
}

/* Adds an operator; -1, and nothing is added, if Koine does not accept it. The caller removes the inputs that
 * were added for it (`try`). */
static int add(drawing *to, const char *kind, const int *arguments, int argument_count, const char *words) {
    random_graph *graph = to->graph;
    if (graph->count == GRAPH_LINES) return -1;
    for (int a = 0; a < argument_count; a++)
        if (arguments[a] < 0) return -1;
    graph_line *line = &graph->lines[graph->count];
    *line = (graph_line){.argument_count = argument_count};
    snprintf(line->kind, sizeof line->kind, "%s", kind);
    snprintf(line->words, sizeof line->words, "%s", words);
    memcpy(line->arguments, arguments, (size_t)argument_count * sizeof *arguments);
    graph->count++;
    if (graph_infer(graph) && elements_of(line) <= to->largest) {
        line->wanted = random_chance(&to->stream, 8);
        return graph->count - 1;
    }
    graph->count--;
    return -1;
}

static int add1(drawing *to, const char *kind, int x, const char *words) {
    return add(to, kind, &x, 1, words);
}

static int add2(drawing *to, const char *kind, int x, int y, const char *words) {
    return add(to, kind, (int[]){x, y}, 2, words);
}

/* ---- choosing values ----------------------------------------------------------------------------- */

static bool is_float_type(kn_dtype dtype) {
    return dtype == KN_FLOAT32 || dtype == KN_FLOAT64 || kn_is_half(dtype);
}

/* A size: often 1, a small odd number, or a multiple of a vector. */
static int64_t draw_size(drawing *to) {
    static const int sizes[] = {1, 1, 2, 3, 4, 5, 7, 8, 8, 11, 16, 16, 17, 24, 32, 33};
    if (random_chance(&to->stream, 2)) return 0;
    return sizes[random_below(&to->stream, (int)KN_COUNT_OF(sizes))];
}

static int64_t draw_channels(drawing *to) {
    static const int sizes[] = {1, 3, 4, 8, 16, 16, 16, 24, 32, 32, 48, 64};
    return sizes[random_below(&to->stream, (int)KN_COUNT_OF(sizes))];
}

static const char *draw_type(drawing *to) {
    static const char *const types[] = {"float16", "bfloat16", "float64", "int32", "int64",
                                        "uint8",   "int8",     "bool",    "int16"};
    return random_chance(&to->stream, 88) ? "" : types[random_below(&to->stream, (int)KN_COUNT_OF(types))];
}

/* An input of any shape: an image, a sequence, or something else. */
static int draw_input(drawing *to) {
    int64_t dims[KN_MAX_RANK];
    int rank;
    const int form = random_below(&to->stream, 10);
    if (form < 5) {
        static const int64_t sides[] = {1, 2, 3, 4, 5, 7, 8, 9, 12};
        const int side = (int)KN_COUNT_OF(sides);
        rank = 4;
        dims[0] = 1 + random_below(&to->stream, 3);
        dims[1] = draw_channels(to);
        dims[2] = sides[random_below(&to->stream, side)];
        dims[3] = random_chance(&to->stream, 60) ? dims[2] : sides[random_below(&to->stream, side)];
    } else if (form < 8) {
        rank = 3;
        dims[0] = 1 + random_below(&to->stream, 4);
        dims[1] = 1 + random_below(&to->stream, 9);
        dims[2] = draw_channels(to);
    } else {
        rank = random_below(&to->stream, 6);
        for (int d = 0; d < rank; d++)
            dims[d] = draw_size(to);
    }
    return add_input(to, dims, rank, draw_type(to), 0);
}

/* A line with that property, the last ones more often; or -1. */
static int choose(drawing *to, bool (*suits)(const graph_line *line)) {
    const random_graph *graph = to->graph;
    int found[GRAPH_LINES], count = 0;
    for (int i = 0; i < graph->count; i++)
        if (suits(&graph->lines[i])) found[count++] = i;
    if (!count) return -1;
    if (random_chance(&to->stream, 60)) return found[count - 1];
    return found[random_below(&to->stream, count)];
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
static bool is_image(const graph_line *line) {
    return line->rank == 4 && line->dtype == KN_FLOAT32;
}
static bool is_sequence(const graph_line *line) {
    return line->rank == 3 && line->dtype == KN_FLOAT32;
}
static bool is_matrix(const graph_line *line) {
    return line->rank >= 2 && line->dtype == KN_FLOAT32;
}
static bool is_integer(const graph_line *line) {
    return !is_float_type(line->dtype) && line->dtype != KN_BOOL;
}
static bool is_float_with_axes(const graph_line *line) {
    return line->rank > 0 && line->dtype == KN_FLOAT32;
}

static const char *type_name(kn_dtype dtype) {
    return dtype == KN_FLOAT32 ? "" : kn_dtype_name(dtype);
}

/* A value that broadcasts with `x`: an earlier value, or a new input with some of its axes. */
static int draw_partner(drawing *to, int x, bool may_widen) {
    const graph_line line = to->graph->lines[x];
    if (random_chance(&to->stream, 45))
        for (int attempt = 0; attempt < 6; attempt++) {
            const int y = random_below(&to->stream, to->graph->count);
            const graph_line *other = &to->graph->lines[y];
            bool fits = other->dtype == line.dtype;
            for (int d = 1; d <= line.rank && d <= other->rank && fits; d++) {
                const int64_t a = line.dims[line.rank - d], b = other->dims[other->rank - d];
                fits = a == b || a == 1 || b == 1;
            }
            if (fits) return y;
        }
    int64_t dims[KN_MAX_RANK];
    int rank = 0;
    if (may_widen && line.rank < 5 && random_chance(&to->stream, 6))
        dims[rank++] = 1 + random_below(&to->stream, 3);
    /* Leading axes are left out, or have size 1. */
    const int first = rank                             ? 0
                      : random_chance(&to->stream, 30) ? random_below(&to->stream, line.rank + 1)
                                                       : 0;
    for (int d = first; d < line.rank; d++) {
        int64_t size = line.dims[d];
        if (random_chance(&to->stream, 35)) size = 1;
        if (line.dims[d] == 1 && may_widen && random_chance(&to->stream, 25))
            size = 1 + random_below(&to->stream, 5);
        dims[rank++] = size;
    }
    return add_input(to, dims, rank, type_name(line.dtype), 0);
}

/* ---- families ------------------------------------------------------------------------------------ */

/* Attributes of a random case of a pointwise row, or none. */
static const char *case_attributes(drawing *to, const kn_operator *row) {
    if (!row->case_count) return "";
    const char *text = row->cases[random_below(&to->stream, row->case_count)].attributes;
    return text ? text : "";
}

static int draw_unary(drawing *to) {
    for (int attempt = 0; attempt < 20; attempt++) {
        const kn_operator *row = kn_operator_table[random_below(&to->stream, kn_operator_table_count)];
        int least, most;
        kn_operator_arity(row, &least, &most);
        if (row->class != KN_CLASS_POINTWISE || row->backward || row->random || least != 1 || most != 1)
            continue;
        int x = choose(to, random_chance(&to->stream, 85) ? is_float_line : any_line);
        if (x < 0) return -1;
        /* Into the domain of logarithms, roots and inverse functions. */
        if (random_chance(&to->stream, 90)) {
            static const char *const positive[] = {"log", "sqrt", "rsqrt", "reciprocal", "acosh"};
            static const char *const small[] = {"asin", "acos", "atanh", "tan",  "exp",
                                                "sinh", "cosh", "expm1", "log1p"};
            for (size_t i = 0; i < KN_COUNT_OF(positive); i++)
                if (!strcmp(row->name, positive[i]))
                    x = add1(to, "shift", add1(to, "abs", x, ""), "summand=1.25");
            for (size_t i = 0; i < KN_COUNT_OF(small); i++)
                if (!strcmp(row->name, small[i]))
                    x = add1(to, "scale", add1(to, "sigmoid", x, ""), "factor=0.75");
        }
        return add1(to, row->name, x, case_attributes(to, row));
    }
    return -1;
}

static int draw_binary(drawing *to) {
    for (int attempt = 0; attempt < 30; attempt++) {
        static const char *const usual[] = {"add", "mul", "sub", "max", "min", "add", "mul"};
        const kn_operator *row =
            random_chance(&to->stream, 70)
                ? kn_operator_find(usual[random_below(&to->stream, (int)KN_COUNT_OF(usual))])
                : kn_operator_table[random_below(&to->stream, kn_operator_table_count)];
        int least, most;
        kn_operator_arity(row, &least, &most);
        if (row->class != KN_CLASS_POINTWISE || row->backward || row->random || least != 2) continue;
        const int x = choose(to, random_chance(&to->stream, 85) ? is_float_line : any_line);
        if (x < 0) return -1;
        int y = draw_partner(to, x, true);
        if (!strcmp(row->name, "div") || !strcmp(row->name, "mod") || !strcmp(row->name, "fmod"))
            y = add1(to, "shift", add1(to, "abs", y, ""), "summand=0.75");
        const bool turned = random_chance(&to->stream, 40);
        if (!strcmp(row->name, "pow"))
            return add2(to, row->name, add1(to, "shift", add1(to, "abs", x, ""), "summand=0.5"), y, "");
        return turned ? add2(to, row->name, y, x, case_attributes(to, row))
                      : add2(to, row->name, x, y, case_attributes(to, row));
    }
    return -1;
}

static int draw_where(drawing *to) {
    static const char *const comparisons[] = {"less", "greater", "less_equal", "greater_equal", "not_equal"};
    const int x = choose(to, is_float_line);
    if (x < 0) return -1;
    const int y = draw_partner(to, x, true), a = draw_partner(to, x, true);
    const int condition =
        add2(to, comparisons[random_below(&to->stream, (int)KN_COUNT_OF(comparisons))], x, y, "");
    return add(to, "where", (int[]){condition, random_chance(&to->stream, 50) ? x : a, a}, 3, "");
}

static int draw_cast(drawing *to) {
    static const char *const types[] = {"float32", "float16", "bfloat16", "float64", "int32",
                                        "int64",   "bool",    "uint8",    "int8",    "uint32"};
    const int x = choose(to, any_line);
    char words[64];
    if (x < 0) return -1;
    snprintf(words, sizeof words, "dtype=%s",
             is_float_type(to->graph->lines[x].dtype) && random_chance(&to->stream, 50)
                 ? types[1 + random_below(&to->stream, 2)]
                 : types[random_below(&to->stream, (int)KN_COUNT_OF(types))]);
    const int narrow = add1(to, "cast", x, words);
    return random_chance(&to->stream, 60) ? add1(to, "cast", narrow, "dtype=float32") : narrow;
}

static int draw_integer(drawing *to) {
    static const char *const kinds[] = {"add",   "mul", "bit_and",  "bit_or",         "bit_xor", "max",
                                        "equal", "sub", "quotient", "floor_quotient", "mod",     "fmod"};
    const int x = choose(to, is_integer);
    if (x < 0) return -1;
    return add2(to, kinds[random_below(&to->stream, (int)KN_COUNT_OF(kinds))], x, draw_partner(to, x, true),
                "");
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

static int draw_reduction(drawing *to) {
    static const char *const kinds[] = {"sum",
                                        "mean",
                                        "mean",
                                        "reduce_max",
                                        "reduce_min",
                                        "reduce_l1",
                                        "reduce_sum_square",
                                        "reduce_log_sum_exp"};
    const int x = choose(to, random_chance(&to->stream, 90) ? is_float_with_axes : has_axes);
    char axes[48], words[96];
    if (x < 0) return -1;
    draw_axes(to, to->graph->lines[x].rank, axes);
    snprintf(words, sizeof words, "%s%s%s", axes[0] ? "axes=" : "", axes,
             random_chance(&to->stream, 60) ? " keep=yes" : "");
    return add1(to, kinds[random_below(&to->stream, (int)KN_COUNT_OF(kinds))], x, words);
}

static int draw_along_axis(drawing *to) {
    static const char *const kinds[] = {"softmax", "log_softmax", "cumsum", "argmax", "argmin", "top_k"};
    const int x = choose(to, is_float_with_axes);
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
    return add1(to, kinds[kind], x, words);
}

static int draw_transpose(drawing *to) {
    const int x = choose(to, has_axes);
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
    return add1(to, "transpose", x, words);
}

/* Merges two axes, splits one, or flattens. */
static int draw_reshape(drawing *to) {
    const int x = choose(to, has_axes);
    char words[96];
    if (x < 0) return -1;
    const graph_line line = to->graph->lines[x];
    const int form = random_below(&to->stream, 4);
    if (form == 0) return add1(to, "flatten", x, "");
    if (form == 1) return add1(to, "unsqueeze", x, random_chance(&to->stream, 50) ? "0" : "1");
    if (form == 2) return add1(to, "squeeze", x, "");
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
    return used ? add1(to, "reshape", x, words) : -1;
}

static int draw_slice(drawing *to) {
    const int x = choose(to, has_axes);
    char words[96];
    if (x < 0) return -1;
    const graph_line line = to->graph->lines[x];
    const int axis = random_below(&to->stream, line.rank), size = (int)line.dims[axis];
    const int begin = random_below(&to->stream, size + 1),
              end = begin + random_below(&to->stream, size - begin + 1);
    snprintf(words, sizeof words, "axis=%d begin=%d end=%d%s", axis, begin, end,
             random_chance(&to->stream, 25) ? " step=2" : "");
    return add1(to, "slice", x, words);
}

static int draw_pad(drawing *to) {
    const int x = choose(to, has_axes);
    char words[96];
    if (x < 0) return -1;
    const int rank = to->graph->lines[x].rank;
    int used = snprintf(words, sizeof words, "amounts=");
    for (int d = 0; d < 2 * rank; d++)
        used += snprintf(words + used, sizeof words - (size_t)used, "%s%d", d ? "," : "",
                         random_chance(&to->stream, 50) ? 0 : random_below(&to->stream, 4) - 1);
    return add1(to, "pad", x, words);
}

static int draw_flip(drawing *to) {
    const int x = choose(to, has_axes);
    char axes[48], words[64];
    if (x < 0) return -1;
    draw_axes(to, to->graph->lines[x].rank, axes);
    snprintf(words, sizeof words, "%s%s", axes[0] ? "axes=" : "", axes);
    return add1(to, "flip", x, words);
}

static int draw_concat(drawing *to) {
    const int x = choose(to, has_axes);
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
        parts[p] = add_input(to, dims, line.rank, type_name(line.dtype), 0);
    }
    snprintf(words, sizeof words, "axis=%d", axis);
    return add(to, "concat", parts, count, words);
}

static int draw_broadcast(drawing *to) {
    const int x = choose(to, any_line);
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
    return add1(to, "broadcast", x, words);
}

static int draw_tile(drawing *to) {
    const int x = choose(to, is_float_with_axes);
    if (x < 0) return -1;
    if (random_chance(&to->stream, 50))
        return add1(to, "tile", x, random_chance(&to->stream, 50) ? "2x1" : "3");
    return add1(to, "repeat_elements", x, random_chance(&to->stream, 50) ? "2 axis=0" : "3 axis=-1");
}

static int draw_triangle(drawing *to) {
    const int x = choose(to, is_matrix);
    char words[16];
    if (x < 0) return -1;
    snprintf(words, sizeof words, "%d", random_below(&to->stream, 5) - 2);
    return add1(to, random_chance(&to->stream, 50) ? "tril" : "triu", x, words);
}

/* ---- convolutions, pools, products, norms -------------------------------------------------------- */

static int draw_conv(drawing *to) {
    const int x = choose(to, is_image);
    char words[128];
    if (x < 0) return -1;
    const int64_t channels = to->graph->lines[x].dims[1];
    if (channels < 1) return -1;
    static const int sizes[] = {1, 1, 2, 3, 3, 3, 5, 7};
    const int height = sizes[random_below(&to->stream, (int)KN_COUNT_OF(sizes))];
    const int width =
        random_chance(&to->stream, 75) ? height : sizes[random_below(&to->stream, (int)KN_COUNT_OF(sizes))];
    const int stride = random_chance(&to->stream, 70) ? 1 : 1 + random_below(&to->stream, 3);
    const int dilation = random_chance(&to->stream, 85) ? 1 : 2;
    int64_t groups = 1, results = draw_channels(to);
    if (random_chance(&to->stream, 25))
        groups = results = channels;
    else if (random_chance(&to->stream, 15) && channels % 2 == 0)
        groups = 2, results += results % 2;
    const int64_t weight[4] = {results, channels / groups, height, width};
    if (random_chance(&to->stream, 25)) {
        snprintf(words, sizeof words, "%lld %dx%d stride=%d padding=%d groups=%lld%s", (long long)results,
                 height, width, stride, random_below(&to->stream, height), (long long)groups,
                 random_chance(&to->stream, 50) ? " bias=no" : "");
        return add1(to, random_chance(&to->stream, 50) ? "conv" : "convtranspose", x, words);
    }
    int inputs[3] = {x, add_input(to, weight, 4, "", 0), -1}, count = 2;
    if (random_chance(&to->stream, 50)) inputs[count++] = add_input(to, &results, 1, "", 0);
    snprintf(words, sizeof words, "stride=%d dilation=%d groups=%lld padding=%d", stride, dilation,
             (long long)groups, random_below(&to->stream, height + 1));
    int y = add(to, "conv2d", inputs, 2, words);
    return count == 3 && y >= 0 ? add2(to, "add", y, add_input(to, (int64_t[]){results, 1, 1}, 3, "", 0), "")
                                : y;
}

static int draw_pool(drawing *to) {
    static const char *const kinds[] = {"maxpool",         "avgpool",       "lppool",
                                        "globalavgpool",   "globalmaxpool", "adaptiveavgpool",
                                        "adaptivemaxpool", "avgpool",       "maxpool"};
    const int x = choose(to, is_image), kind = random_below(&to->stream, (int)KN_COUNT_OF(kinds));
    char words[96] = "";
    if (x < 0) return -1;
    const int window = 1 + random_below(&to->stream, 4);
    if (kind < 3 || kind > 6)
        snprintf(words, sizeof words, "%d stride=%d padding=%d%s", window, 1 + random_below(&to->stream, 3),
                 random_below(&to->stream, window / 2 + 1),
                 random_chance(&to->stream, 20) ? " ceil=yes" : "");
    else if (kind > 4)
        snprintf(words, sizeof words, "%d", 1 + random_below(&to->stream, 4));
    return add1(to, kinds[kind], x, words);
}

static int draw_image(drawing *to) {
    const int x = choose(to, is_image);
    char words[96];
    if (x < 0) return -1;
    switch (random_below(&to->stream, 5)) {
    case 0:
        snprintf(words, sizeof words, "%dx%d mode=%s", 1 + random_below(&to->stream, 12),
                 1 + random_below(&to->stream, 12), random_chance(&to->stream, 50) ? "linear" : "nearest");
        return add1(to, "upsample", x, words);
    case 1:
        return add1(to, "padimage", x, random_chance(&to->stream, 50) ? "1" : "1 mode=edge");
    case 2:
        return add1(to, "depth_to_space", x, "2");
    case 3:
        return add1(to, "space_to_depth", x, "2");
    default:
        return add1(to, "localnorm", x, "3");
    }
}

static int draw_norm(drawing *to) {
    const int image = choose(to, is_image), rows = choose(to, is_matrix);
    char words[32];
    switch (random_below(&to->stream, 6)) {
    case 0:
    case 1:
        return add1(to, "batchnorm", image, "");
    case 2:
        return add1(to, "layernorm", rows, "");
    case 3:
        return add1(to, "rmsnorm", rows, "");
    case 4:
        return add1(to, "instancenorm", image, "");
    default:
        snprintf(words, sizeof words, "%d", 1 << random_below(&to->stream, 4));
        return add1(to, "groupnorm", image, words);
    }
}

static int draw_product(drawing *to) {
    const int x = choose(to, is_matrix);
    char words[64];
    if (x < 0) return -1;
    const graph_line line = to->graph->lines[x];
    const int64_t inner = line.dims[line.rank - 1], columns = draw_size(to);
    if (random_chance(&to->stream, 35)) {
        snprintf(words, sizeof words, "%lld", (long long)(columns ? columns : 3));
        return add1(to, "linear", x, words);
    }
    int64_t dims[KN_MAX_RANK];
    int rank = 0;
    if (line.rank == 2 && random_chance(&to->stream, 20)) {
        const int64_t groups = 1 + random_below(&to->stream, 4), by_group[] = {groups, inner, columns};
        const int matrices = add_input(to, by_group, 3, "", 0);
        const int ends = add_input(to, &groups, 1, "int32", (int)line.dims[0] + 1);
        return add(to, "grouped_matmul", (const int[]){x, matrices, ends}, 3, "");
    }
    for (int d = random_below(&to->stream, line.rank - 1); d < line.rank - 2; d++)
        dims[rank++] = random_chance(&to->stream, 40) ? 1 : line.dims[d];
    if (random_chance(&to->stream, 30)) { /* x is the right side */
        dims[rank++] = columns;
        dims[rank++] = line.dims[line.rank - 2];
        return add2(to, "matmul", add_input(to, dims, rank, "", 0), x, "");
    }
    const bool transposed = random_chance(&to->stream, 40);
    dims[rank++] = transposed ? columns : inner;
    dims[rank++] = transposed ? inner : columns;
    const int y = random_chance(&to->stream, 20) ? x : add_input(to, dims, rank, "", 0);
    return add2(to, "matmul", x, y, transposed || y == x ? "transpose_b=yes" : "");
}

static int draw_sequence(drawing *to) {
    const int x = choose(to, is_sequence);
    char words[112], limits[48] = "";
    if (x < 0) return -1;
    const char *const kinds[] = {"lstm", "gru", "rnn"};
    switch (random_below(&to->stream, 4)) {
    case 0:
    case 1:
        snprintf(words, sizeof words, "%d%s%s", 1 + random_below(&to->stream, 17),
                 random_chance(&to->stream, 30) ? " bidirectional=yes" : "",
                 random_chance(&to->stream, 25) ? " last=yes" : "");
        return add1(to, kinds[random_below(&to->stream, 3)], x, words);
    case 2: {
        if (random_chance(&to->stream, 40))
            snprintf(limits, sizeof limits, " window=%d", 1 + random_below(&to->stream, 6));
        if (random_chance(&to->stream, 30))
            snprintf(limits + strlen(limits), sizeof limits - strlen(limits), " softcap=%d",
                     1 + random_below(&to->stream, 3));
        snprintf(words, sizeof words, "heads=%d%s%s%s", 1 << random_below(&to->stream, 3),
                 random_chance(&to->stream, 50) ? " causal=yes" : "",
                 random_chance(&to->stream, 25) ? " last=yes" : "", limits);
        const int64_t *dims = to->graph->lines[x].dims;
        const int64_t other[] = {dims[0], random_chance(&to->stream, 50) ? dims[1] : draw_size(to), dims[2]};
        const int keys = random_chance(&to->stream, 50) ? x : add_input(to, other, 3, "", 0);
        int inputs[4] = {x, keys, random_chance(&to->stream, 50) ? keys : x}, count = 3;
        if (random_chance(&to->stream, 25))
            inputs[count++] = add_input(to, dims, 2, "int32", (int)(other[1] < 1 ? 1 : other[1]));
        return add(to, "attention", inputs, count, words);
    }
    default:
        snprintf(words, sizeof words, "heads=2%s%s", random_chance(&to->stream, 30) ? " interleaved=yes" : "",
                 random_chance(&to->stream, 30) ? " divisor=3" : "");
        return add1(to, "rotary", x, words);
    }
}

static int draw_lookup(drawing *to) {
    const int x = choose(to, is_float_with_axes);
    char words[64];
    if (x < 0) return -1;
    const graph_line line = to->graph->lines[x];
    const int axis = random_below(&to->stream, line.rank);
    if (line.dims[axis] < 1) return -1;
    int64_t dims[KN_MAX_RANK] = {1 + random_below(&to->stream, 5), 1 + random_below(&to->stream, 3)};
    const char *type = random_chance(&to->stream, 70) ? "int32" : "int64";
    snprintf(words, sizeof words, "axis=%d", axis);
    switch (random_below(&to->stream, 4)) {
    case 0: {
        const int numbers = add_input(to, dims, 1 + random_below(&to->stream, 2), type, 11);
        return add1(to, "embedding", numbers, "11 8");
    }
    case 1: {
        memcpy(dims, line.dims, sizeof dims);
        return add2(to, "gather_elements", x, add_input(to, dims, line.rank, type, (int)line.dims[axis]),
                    words);
    }
    default: {
        const int rank = 1 + random_below(&to->stream, 2);
        return add2(to, "gather", x, add_input(to, dims, rank, type, (int)line.dims[axis]), words);
    }
    }
}

static int draw_loss(drawing *to) {
    const int x = choose(to, is_matrix);
    if (x < 0) return -1;
    const graph_line line = to->graph->lines[x];
    if (random_chance(&to->stream, 50)) {
        const int classes = (int)line.dims[line.rank == 2 ? 1 : line.rank - 1];
        if (classes < 1) return -1;
        return add2(to, "cross_entropy", x, add_input(to, line.dims, line.rank - 1, "int32", classes), "");
    }
    return add2(to, random_chance(&to->stream, 50) ? "squared_error" : "huber_error", x,
                draw_partner(to, x, false), "");
}

/* Any row by one of its cases, on new inputs. */
static int draw_case(drawing *to) {
    for (int attempt = 0; attempt < 20; attempt++) {
        const kn_operator *row = kn_operator_table[random_below(&to->stream, kn_operator_table_count)];
        if (row->backward || row->random || !row->case_count || row->class == KN_CLASS_ASSIGN) continue;
        const kn_case *one = &row->cases[random_below(&to->stream, row->case_count)];
        int inputs[LINE_ARGUMENTS], count = 0;
        bool usual = !one->large && !one->training;
        for (int i = 0; i < 8 && one->inputs[i] && usual; i++) {
            char type[16] = "";
            const char *shape = one->inputs[i], *blank = strchr(shape, ' ');
            int64_t dims[KN_MAX_RANK];
            int rank = 0;
            usual = count < LINE_ARGUMENTS && strcmp(shape, "-") != 0 && !one->ranges[i];
            if (!usual) break;
            if (blank) {
                snprintf(type, sizeof type, "%.*s", (int)(blank - shape), shape);
                shape = blank + 1;
            }
            for (const char *at = shape; *at >= '0' && *at <= '9' && rank < KN_MAX_RANK;) {
                char *end;
                dims[rank++] = strtoll(at, &end, 10);
                at = *end == ',' ? end + 1 : end;
            }
            inputs[count++] = add_input(to, dims, rank, type, 0);
        }
        if (!usual || !count) return -1;
        return add(to, row->name, inputs, count, one->attributes ? one->attributes : "");
    }
    return -1;
}

/* ---- the whole ----------------------------------------------------------------------------------- */

typedef int draw_family(drawing *to);
static const struct {
    draw_family *draw;
    int weight;
} families[] = {
    {draw_unary, 16},     {draw_binary, 26},    {draw_where, 4},     {draw_cast, 4},      {draw_integer, 3},
    {draw_reduction, 10}, {draw_along_axis, 4}, {draw_transpose, 5}, {draw_reshape, 6},   {draw_slice, 4},
    {draw_pad, 3},        {draw_flip, 2},       {draw_concat, 5},    {draw_broadcast, 4}, {draw_tile, 2},
    {draw_triangle, 1},   {draw_conv, 16},      {draw_pool, 7},      {draw_image, 4},     {draw_norm, 8},
    {draw_product, 9},    {draw_sequence, 4},   {draw_lookup, 4},    {draw_loss, 3},      {draw_case, 3},
};

static draw_family *choose_family(drawing *to) {
    int sum = 0;
    for (size_t i = 0; i < KN_COUNT_OF(families); i++)
        sum += families[i].weight;
    int at = random_below(&to->stream, sum);
    for (size_t i = 0;; i++)
        if ((at -= families[i].weight) < 0) return families[i].draw;
}

void graph_draw(random_graph *graph, uint64_t seed, int operators) {
    drawing to = {.graph = graph, .stream = {kn_random_key(seed, "graph"), 0}, .largest = 20000};
    *graph = (random_graph){.count = 0};
    draw_input(&to);
    graph_infer(graph);
    const int wanted = 1 + random_below(&to.stream, operators);
    for (int attempt = 0, made = 0; made < wanted && attempt < 4 * operators; attempt++) {
        /* Lines of an attempt that fails are dropped. */
        random_graph before = *graph;
        if (random_chance(&to.stream, 8)) draw_input(&to);
        graph_infer(graph);
        if (choose_family(&to)(&to) < 0)
            *graph = before;
        else
            made++;
    }
    graph_infer(graph);
}
