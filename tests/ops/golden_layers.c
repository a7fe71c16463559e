/* The operators of tools/golden/layers.py, built with Koine. */
#include "ops_tests.h"

#include <string.h>

static double number(const kn_json *given, const char *key, double usual) {
    const kn_json *found = kn_json_member(given, key);
    return found ? found->number : usual;
}

static bool truth(const kn_json *given, const char *key) {
    const kn_json *found = kn_json_member(given, key);
    return found && found->truth;
}

/* A list that may be missing. */
static void numbers(const kn_json *given, const char *key, int64_t *list) {
    const kn_json *found = kn_json_member(given, key);
    for (const kn_json *item = found ? found->first : NULL; item; item = item->next)
        *list++ = (int64_t)item->number;
}

static kn_value *convolution(const char *name, kn_value **in, const kn_json *given) {
    kn_conv_params params = {
        .size = sizeof params, .groups = (int64_t)number(given, "groups", 1), .all_padding = true};
    numbers(given, "stride", params.stride);
    numbers(given, "dilation", params.dilation);
    numbers(given, "padding", params.padding);
    numbers(given, "output_padding", params.output_padding);
    if (!strcmp(name, "conv1d")) return kn_conv1d(in[0], in[1], in[2], &params);
    if (!strcmp(name, "conv_transpose1d")) return kn_conv_transpose1d(in[0], in[1], in[2], &params);
    return kn_conv_transpose2d(in[0], in[1], in[2], &params);
}

static kn_value *pooling(const char *name, kn_value *x, const kn_json *given) {
    kn_pool_params params = {.size = sizeof params, .ceil = truth(given, "ceil"), .all_padding = true};
    int64_t size[2] = {0, 0};
    numbers(given, "size", size);
    numbers(given, "window", params.window);
    numbers(given, "stride", params.stride);
    numbers(given, "padding", params.padding);
    numbers(given, "dilation", params.dilation);
    params.skip_padding = !truth(given, "count_include_pad");
    if (!strcmp(name, "adaptive_avg_pool")) return kn_adaptive_average_pool(x, size[0], size[1]);
    if (!strcmp(name, "adaptive_max_pool")) return kn_adaptive_max_pool(x, size[0], size[1]);
    if (!strcmp(name, "lp_pool")) return kn_lp_pool(x, number(given, "power", 0), params.window[0], &params);
    return (!strcmp(name, "avg_pool") ? kn_average_pool : kn_max_pool)(x, params.window[0], &params);
}

/* Layers own their parameters; here they are inputs. */
static kn_value *norm(const char *name, kn_value **in, int count, const kn_json *given) {
    kn_norm_params plain;
    kn_local_norm_params local;
    kn_norm_params_init(&plain);
    plain.no_affine = true;
    if (!strcmp(name, "layer_norm_plain")) return kn_layer_norm(in[0], &plain);
    if (!strcmp(name, "instance_norm")) return kn_instance_norm(in[0], &plain);
    if (!strcmp(name, "group_norm")) {
        kn_value *y = kn_group_norm(in[0], (int64_t)number(given, "groups", 0), &plain);
        const char *column = kn_value_rank(y) == 4 ? "-1,1,1" : "-1";
        return count < 3 ? y : kn_add(kn_mul(y, kn_reshape(in[1], column)), kn_reshape(in[2], column));
    }
    kn_local_norm_params_init(&local);
    local.alpha = number(given, "alpha", 0);
    local.beta = number(given, "beta", 0);
    local.k = number(given, "k", 0);
    return kn_local_response_norm(in[0], (int64_t)number(given, "channels", 0), &local);
}

static kn_value *class_loss(const char *name, kn_value **in, int count, const kn_json *given) {
    const kn_json *reduction = kn_json_member(given, "reduction");
    kn_cross_entropy_params params = {.size = sizeof params,
                                      .label_smoothing = number(given, "label_smoothing", 0),
                                      .class_weights = count > 2 ? in[2] : NULL,
                                      .has_ignore_index = kn_json_member(given, "ignore_index") != NULL,
                                      .ignore_index = (int64_t)number(given, "ignore_index", 0),
                                      .sum = reduction && !strcmp(reduction->text, "sum")};
    return (!strcmp(name, "nll") ? kn_nll : kn_cross_entropy)(in[0], in[1], &params);
}

static kn_value *ctc(kn_value **in, const kn_json *given) {
    kn_ctc_params params = {.size = sizeof params,
                            .blank = (int64_t)number(given, "blank", 0),
                            .sum = truth(given, "sum"),
                            .zero_infinite = truth(given, "zero_infinity")};
    return kn_ctc(in[0], in[1], in[2], in[3], &params);
}

static kn_value *loss(const char *name, kn_value **in, const kn_json *given) {
    double margin = number(given, "margin", 0);
    if (!strcmp(name, "l1")) return kn_l1(in[0], in[1]);
    if (!strcmp(name, "smooth_l1")) return kn_smooth_l1(in[0], in[1], number(given, "beta", 1));
    if (!strcmp(name, "bce")) return kn_probability_cross_entropy(in[0], in[1]);
    if (!strcmp(name, "bce_with_logits_weight")) return kn_binary_cross_entropy_weighted(in[0], in[1], in[2]);
    if (!strcmp(name, "kl_div")) return kn_kl_divergence(in[0], in[1]);
    if (!strcmp(name, "hinge")) return kn_hinge(in[0], in[1], margin);
    if (!strcmp(name, "margin_ranking")) return kn_margin_ranking(in[0], in[1], in[2], margin);
    if (!strcmp(name, "cosine_embedding")) return kn_cosine_embedding(in[0], in[1], in[2], margin);
    if (!strcmp(name, "triplet_margin")) return kn_triplet_margin(in[0], in[1], in[2], margin);
    return NULL;
}

/* Parameters are inputs, called "net.weight_ih" and so on; the result and the last states are
 * concatenated. */
static kn_value *recurrent(const char *name, kn_value *x, const kn_json *given) {
    kn_graph *graph = kn_value_graph(x);
    kn_value *final = NULL, *final_cells = NULL;
    kn_recurrent_params params = {.size = sizeof params,
                                  .share = "net",
                                  .layers = (int)number(given, "layers", 1),
                                  .bidirectional = truth(given, "bidirectional"),
                                  .relu = truth(given, "relu"),
                                  .lengths = kn_graph_find(graph, "lengths"),
                                  .start = kn_graph_find(graph, "start"),
                                  .start_cells = kn_graph_find(graph, "start_cells"),
                                  .final = &final,
                                  .final_cells = &final_cells};
    bool lstm = !strncmp(name, "lstm", 4);
    kn_value *y = (lstm                       ? kn_lstm
                   : !strncmp(name, "gru", 3) ? kn_gru
                                              : kn_rnn)(x, (int64_t)number(given, "units", 0), &params);
    kn_value *parts[3] = {kn_reshape(y, "-1"), kn_reshape(final, "-1"),
                          lstm ? kn_reshape(final_cells, "-1") : NULL};
    return kn_concat(parts, lstm ? 3 : 2, 0);
}

kn_value *golden_layer(const char *name, const kn_json *given, kn_value **in, int count) {
    if (strstr(name, "_layer")) return recurrent(name, in[0], given);
    if (!strcmp(name, "conv1d") || !strncmp(name, "conv_transpose", 14)) return convolution(name, in, given);
    if (strstr(name, "pool") && strcmp(name, "global_avg_pool")) return pooling(name, in[0], given);
    if (!strcmp(name, "nll") || !strcmp(name, "cross_entropy")) return class_loss(name, in, count, given);
    if (strstr(name, "_norm") && strcmp(name, "batch_norm")) return norm(name, in, count, given);
    return !strcmp(name, "ctc") ? ctc(in, given) : loss(name, in, given);
}
