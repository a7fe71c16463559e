/* Draws random graphs: a table of families of operators, each of which adds a line or a few. */
#include <stdio.h>
#include <string.h>

#include "draw.h"

int random_below(random_stream *stream, int bound) {
    return (int)kn_random_below(stream->key, stream->index++, (uint32_t)bound);
}

bool random_chance(random_stream *stream, int percent) {
    return random_below(stream, 100) < percent;
}

/* ---- adding lines -------------------------------------------------------------------------------- */

static int64_t elements_of(const graph_line *line) {
    int64_t count = 1;
    for (int d = 0; d < line->rank; d++)
        count *= line->dims[d];
    return count;
}

int draw_add_input(drawing *to, const int64_t *dims, int rank, const char *dtype, int bound) {
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

int draw_add(drawing *to, const char *kind, const int *arguments, int argument_count, const char *words) {
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

int draw_add1(drawing *to, const char *kind, int x, const char *words) {
    return draw_add(to, kind, &x, 1, words);
}

int draw_add2(drawing *to, const char *kind, int x, int y, const char *words) {
    return draw_add(to, kind, (int[]){x, y}, 2, words);
}

/* ---- choosing values ----------------------------------------------------------------------------- */

int64_t draw_size(drawing *to) {
    static const int sizes[] = {1, 1, 2, 3, 4, 5, 7, 8, 8, 11, 16, 16, 17, 24, 32, 33};
    if (random_chance(&to->stream, 2)) return 0;
    return sizes[random_below(&to->stream, (int)KN_COUNT_OF(sizes))];
}

int64_t draw_channels(drawing *to) {
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
    return draw_add_input(to, dims, rank, draw_type(to), 0);
}

int draw_choose(drawing *to, bool (*suits)(const graph_line *line)) {
    const random_graph *graph = to->graph;
    int found[GRAPH_LINES], count = 0;
    for (int i = 0; i < graph->count; i++)
        if (suits(&graph->lines[i])) found[count++] = i;
    if (!count) return -1;
    if (random_chance(&to->stream, 60)) return found[count - 1];
    return found[random_below(&to->stream, count)];
}

const char *draw_type_name(kn_dtype dtype) {
    return dtype == KN_FLOAT32 ? "" : kn_dtype_name(dtype);
}

int draw_partner(drawing *to, int x, bool may_widen) {
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
    return draw_add_input(to, dims, rank, draw_type_name(line.dtype), 0);
}

/* ---- the whole ----------------------------------------------------------------------------------- */

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
