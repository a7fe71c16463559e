/* A training step of two layers with the kernels of many-thread devices, for loads.py, which counts what they
 * load from global memory. Each product, forward and for the gradients, is of size 128.
 *     loads linear | conv */
#include <koine/koine.h>

#include <stdio.h>
#include <string.h>

enum { NUMBERS = 128 * 128 };

/* x is (2,128,8,8): 128 pixels of 128 channels. */
static kn_value *convolutions(kn_value *x) {
    const kn_conv_params params = {.size = sizeof params, .no_bias = true};
    return kn_conv(kn_conv(x, 128, 1, 0, &params), 128, 1, 0, &params);
}

/* x is (128,128). */
static kn_value *linears(kn_value *x) {
    const kn_linear_params params = {.size = sizeof params, .no_bias = true};
    return kn_linear(kn_linear(x, 128, &params), 128, &params);
}

int main(int argc, char **argv) {
    static const float zeros[NUMBERS];
    if (argc != 2) return 2;
    bool images = !strcmp(argv[1], "conv");
    kn_context_params params;
    kn_context_params_init(&params);
    kn_context_debug debug = KN_CONTEXT_DEBUG_DEFAULTS;
    params.debug = &debug;
    debug.kernels = KN_KERNELS_GPU;
    kn_context *context = kn_context_create(&params);
    kn_graph *graph = kn_graph_create(NULL);
    kn_value *x = kn_input(graph, "x", KN_FLOAT32, images ? "batch,128,8,8" : "batch,128");
    kn_value *result = images ? convolutions(x) : linears(x);
    kn_trainer *trainer = kn_trainer_create(context, kn_mean(kn_mul(result, result), NULL, false), NULL);
    const kn_feed feed = {"x", zeros, sizeof zeros};
    double loss;
    kn_status status = kn_trainer_step(trainer, images ? 2 : 128, &feed, 1, &loss);
    if (status != KN_OK) fprintf(stderr, "%s: %s\n", argv[1], kn_trainer_error(trainer));
    kn_trainer_destroy(&trainer);
    kn_graph_destroy(&graph);
    kn_context_destroy(&context);
    return status != KN_OK;
}
