/* Layers, products, lookups and losses, and cases of the operator table. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "draw.h"

static bool is_image(const graph_line *line) {
    return line->rank == 4 && line->dtype == KN_FLOAT32;
}
static bool is_sequence(const graph_line *line) {
    return line->rank == 3 && line->dtype == KN_FLOAT32;
}

int draw_conv(drawing *to) {
    const int x = draw_choose(to, is_image);
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
        return draw_add1(to, random_chance(&to->stream, 50) ? "conv" : "convtranspose", x, words);
    }
    int inputs[3] = {x, draw_add_input(to, weight, 4, "", 0), -1}, count = 2;
    if (random_chance(&to->stream, 50)) inputs[count++] = draw_add_input(to, &results, 1, "", 0);
    snprintf(words, sizeof words, "stride=%d dilation=%d groups=%lld padding=%d", stride, dilation,
             (long long)groups, random_below(&to->stream, height + 1));
    int y = draw_add(to, "conv2d", inputs, 2, words);
    return count == 3 && y >= 0
               ? draw_add2(to, "add", y, draw_add_input(to, (int64_t[]){results, 1, 1}, 3, "", 0), "")
               : y;
}

int draw_pool(drawing *to) {
    static const char *const kinds[] = {"maxpool",         "avgpool",       "lppool",
                                        "globalavgpool",   "globalmaxpool", "adaptiveavgpool",
                                        "adaptivemaxpool", "avgpool",       "maxpool"};
    const int x = draw_choose(to, is_image), kind = random_below(&to->stream, (int)KN_COUNT_OF(kinds));
    char words[96] = "";
    if (x < 0) return -1;
    const int window = 1 + random_below(&to->stream, 4);
    if (kind < 3 || kind > 6)
        snprintf(words, sizeof words, "%d stride=%d padding=%d%s", window, 1 + random_below(&to->stream, 3),
                 random_below(&to->stream, window / 2 + 1),
                 random_chance(&to->stream, 20) ? " ceil=yes" : "");
    else if (kind > 4)
        snprintf(words, sizeof words, "%d", 1 + random_below(&to->stream, 4));
    return draw_add1(to, kinds[kind], x, words);
}

int draw_image(drawing *to) {
    const int x = draw_choose(to, is_image);
    char words[96];
    if (x < 0) return -1;
    switch (random_below(&to->stream, 5)) {
    case 0:
        snprintf(words, sizeof words, "%dx%d mode=%s", 1 + random_below(&to->stream, 12),
                 1 + random_below(&to->stream, 12), random_chance(&to->stream, 50) ? "linear" : "nearest");
        return draw_add1(to, "upsample", x, words);
    case 1:
        return draw_add1(to, "padimage", x, random_chance(&to->stream, 50) ? "1" : "1 mode=edge");
    case 2:
        return draw_add1(to, "depth_to_space", x, "2");
    case 3:
        return draw_add1(to, "space_to_depth", x, "2");
    default:
        return draw_add1(to, "localnorm", x, "3");
    }
}

int draw_norm(drawing *to) {
    const int image = draw_choose(to, is_image), rows = draw_choose(to, draw_is_matrix);
    char words[32];
    switch (random_below(&to->stream, 6)) {
    case 0:
    case 1:
        return draw_add1(to, "batchnorm", image, "");
    case 2:
        return draw_add1(to, "layernorm", rows, "");
    case 3:
        return draw_add1(to, "rmsnorm", rows, "");
    case 4:
        return draw_add1(to, "instancenorm", image, "");
    default:
        snprintf(words, sizeof words, "%d", 1 << random_below(&to->stream, 4));
        return draw_add1(to, "groupnorm", image, words);
    }
}

int draw_product(drawing *to) {
    const int x = draw_choose(to, draw_is_matrix);
    char words[64];
    if (x < 0) return -1;
    const graph_line line = to->graph->lines[x];
    const int64_t inner = line.dims[line.rank - 1], columns = draw_size(to);
    if (random_chance(&to->stream, 35)) {
        snprintf(words, sizeof words, "%lld", (long long)(columns ? columns : 3));
        return draw_add1(to, "linear", x, words);
    }
    int64_t dims[KN_MAX_RANK];
    int rank = 0;
    if (line.rank == 2 && random_chance(&to->stream, 20)) {
        const int64_t groups = 1 + random_below(&to->stream, 4), by_group[] = {groups, inner, columns};
        const int matrices = draw_add_input(to, by_group, 3, "", 0);
        const int ends = draw_add_input(to, &groups, 1, "int32", (int)line.dims[0] + 1);
        return draw_add(to, "grouped_matmul", (const int[]){x, matrices, ends}, 3, "");
    }
    for (int d = random_below(&to->stream, line.rank - 1); d < line.rank - 2; d++)
        dims[rank++] = random_chance(&to->stream, 40) ? 1 : line.dims[d];
    if (random_chance(&to->stream, 30)) { /* x is the right side */
        dims[rank++] = columns;
        dims[rank++] = line.dims[line.rank - 2];
        return draw_add2(to, "matmul", draw_add_input(to, dims, rank, "", 0), x, "");
    }
    const bool transposed = random_chance(&to->stream, 40);
    dims[rank++] = transposed ? columns : inner;
    dims[rank++] = transposed ? inner : columns;
    const int y = random_chance(&to->stream, 20) ? x : draw_add_input(to, dims, rank, "", 0);
    return draw_add2(to, "matmul", x, y, transposed || y == x ? "transpose_b=yes" : "");
}

int draw_sequence(drawing *to) {
    const int x = draw_choose(to, is_sequence);
    char words[112], limits[48] = "";
    if (x < 0) return -1;
    const char *const kinds[] = {"lstm", "gru", "rnn"};
    switch (random_below(&to->stream, 4)) {
    case 0:
    case 1:
        snprintf(words, sizeof words, "%d%s%s", 1 + random_below(&to->stream, 17),
                 random_chance(&to->stream, 30) ? " bidirectional=yes" : "",
                 random_chance(&to->stream, 25) ? " last=yes" : "");
        return draw_add1(to, kinds[random_below(&to->stream, 3)], x, words);
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
        const int keys = random_chance(&to->stream, 50) ? x : draw_add_input(to, other, 3, "", 0);
        int inputs[4] = {x, keys, random_chance(&to->stream, 50) ? keys : x}, count = 3;
        if (random_chance(&to->stream, 25))
            inputs[count++] = draw_add_input(to, dims, 2, "int32", (int)(other[1] < 1 ? 1 : other[1]));
        return draw_add(to, "attention", inputs, count, words);
    }
    default:
        snprintf(words, sizeof words, "heads=2%s%s", random_chance(&to->stream, 30) ? " interleaved=yes" : "",
                 random_chance(&to->stream, 30) ? " divisor=3" : "");
        return draw_add1(to, "rotary", x, words);
    }
}

int draw_lookup(drawing *to) {
    const int x = draw_choose(to, draw_is_float_with_axes);
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
        const int numbers = draw_add_input(to, dims, 1 + random_below(&to->stream, 2), type, 11);
        return draw_add1(to, "embedding", numbers, "11 8");
    }
    case 1: {
        memcpy(dims, line.dims, sizeof dims);
        return draw_add2(to, "gather_elements", x,
                         draw_add_input(to, dims, line.rank, type, (int)line.dims[axis]), words);
    }
    default: {
        const int rank = 1 + random_below(&to->stream, 2);
        return draw_add2(to, "gather", x, draw_add_input(to, dims, rank, type, (int)line.dims[axis]), words);
    }
    }
}

int draw_loss(drawing *to) {
    const int x = draw_choose(to, draw_is_matrix);
    if (x < 0) return -1;
    const graph_line line = to->graph->lines[x];
    if (random_chance(&to->stream, 50)) {
        const int classes = (int)line.dims[line.rank == 2 ? 1 : line.rank - 1];
        if (classes < 1) return -1;
        return draw_add2(to, "cross_entropy", x,
                         draw_add_input(to, line.dims, line.rank - 1, "int32", classes), "");
    }
    return draw_add2(to, random_chance(&to->stream, 50) ? "squared_error" : "huber_error", x,
                     draw_partner(to, x, false), "");
}

/* Any row by one of its cases, on new inputs. */
int draw_case(drawing *to) {
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
            inputs[count++] = draw_add_input(to, dims, rank, type, 0);
        }
        if (!usual || !count) return -1;
        return draw_add(to, row->name, inputs, count, one->attributes ? one->attributes : "");
    }
    return -1;
}
