/* One step of koine bench-crossover: uploads all inputs and downloads the result. */
#include <math.h>
#include <stdlib.h>

#include "batch.h"
#include "bench_crossover.h"
#include "training.h"

enum { IMAGES = 4, CHANNELS = 16 };

const cross_operation cross_operations[CROSS_OPERATIONS] = {
    {"matmul", "matrix product, N x N by N x N", 16},
    {"conv2d", "convolution 3 x 3 of 4 images N x N, 16 channels to 16", 8},
    {"train", "training step of mlp with N samples", 1},
};

typedef struct cross_case {
    kn_graph *graph;
    kn_session *session;
    kn_trainer *trainer;
    training_setup setup;
    int64_t batch;
    kn_feed feeds[2];
    void *data[3]; /* the feeds and the result */
    size_t feed_count;
    kn_fetch fetch;
} cross_case;

static bool feed(cross_case *self, const char *name, int64_t elements, bool classes) {
    float *numbers = malloc((size_t)elements * sizeof *numbers + 1);
    int32_t *whole = (int32_t *)(void *)numbers;
    if (!numbers) return command_error("out of memory");
    for (int64_t i = 0; i < elements; i++)
        if (classes)
            whole[i] = (int32_t)(i % 10);
        else
            numbers[i] = (float)(i * 37 % 64 - 32) / 64;
    self->data[self->feed_count] = numbers;
    self->feeds[self->feed_count++] = (kn_feed){name, numbers, (size_t)elements * sizeof *numbers};
    return true;
}

static bool session_step(void *user) {
    cross_case *self = user;
    if (kn_session_run(self->session, self->feeds, self->feed_count, &self->fetch, 1) == KN_OK) return true;
    return command_error("%s", kn_session_error(self->session));
}

static bool train_step(void *user) {
    cross_case *self = user;
    double loss;
    if (kn_trainer_step(self->trainer, self->batch, self->feeds, self->feed_count, &loss) == KN_OK)
        return true;
    return command_error("%s", kn_trainer_error(self->trainer));
}

/* A session for one value with this many elements. */
static bool prepare_value(cross_case *self, kn_context *context, kn_value *value, int64_t elements,
                          const arithmetic *how, double *flops) {
    kn_session_params params;
    kn_plan_info info = {.size = sizeof info};
    kn_session_params_init(&params);
    arithmetic_apply(how, &params);
    self->session = kn_session_create(context, &value, 1, &params);
    self->data[2] = malloc((size_t)elements * sizeof(float) + 1);
    self->fetch = (kn_fetch){"result", self->data[2], (size_t)elements * sizeof(float)};
    if (!self->data[2]) return command_error("out of memory");
    kn_status status = kn_session_status(self->session);
    if (status == KN_OK) status = kn_session_compile(self->session, self->feeds, self->feed_count);
    if (status == KN_OK) status = kn_session_plan(self->session, &info);
    *flops = info.flops;
    return status == KN_OK ||
           command_error("%s", self->session ? kn_session_error(self->session) : "out of memory");
}

/* a (n,n) times b (n,n). */
static bool prepare_matmul(cross_case *self, kn_context *context, int64_t n, const arithmetic *how,
                           double *flops) {
    char shape[48];
    snprintf(shape, sizeof shape, "%lld,%lld", (long long)n, (long long)n);
    kn_value *product = kn_matmul(kn_input(self->graph, "a", KN_FLOAT32, shape),
                                  kn_input(self->graph, "b", KN_FLOAT32, shape), false, false);
    return feed(self, "a", n * n, false) && feed(self, "b", n * n, false) &&
           prepare_value(self, context, kn_name(product, "result"), n * n, how, flops);
}

/* x (images,channels,n,n); the weights stay on the device. */
static bool prepare_conv(cross_case *self, kn_context *context, int64_t n, const arithmetic *how,
                         double *flops) {
    char shape[80], weight[80];
    kn_conv_params params = {.size = sizeof params, .padding = {1}};
    int64_t elements = IMAGES * CHANNELS * n * n;
    snprintf(shape, sizeof shape, "%d,%d,%lld,%lld", IMAGES, CHANNELS, (long long)n, (long long)n);
    snprintf(weight, sizeof weight, "%d,%d,3,3", CHANNELS, CHANNELS);
    kn_value *result = kn_conv2d(kn_input(self->graph, "x", KN_FLOAT32, shape),
                                 kn_parameter(self->graph, "w", KN_FLOAT32, weight, NULL), NULL, &params);
    return feed(self, "x", elements, false) &&
           prepare_value(self, context, kn_name(result, "result"), elements, how, flops);
}

static bool prepare_training(cross_case *self, kn_context *context, int64_t batch, const arithmetic *how,
                             double *flops) {
    kn_trainer_params params;
    kn_plan_info info = {.size = sizeof info};
    kn_trainer_params_init(&params);
    kn_trainer_params_choose(&params, KN_OPTIMIZER_SGD);
    kn_session_params session = KN_SESSION_DEFAULTS;
    arithmetic_apply(how, &session);
    params.session = &session;
    self->batch = batch;
    if (!setup_model(&self->setup, "mlp", NULL)) return false;
    const kn_value *input = kn_model_input_at(self->setup.model, 0);
    int64_t elements = batch;
    for (int d = 1; d < kn_value_rank(input); d++)
        elements *= kn_value_dimension(input, d);
    if (!feed(self, kn_value_name(input), elements, false) ||
        !feed(self, kn_value_name(self->setup.loss.target), batch, true))
        return false;
    self->trainer = kn_trainer_create(context, self->setup.loss.value, &params);
    kn_status status = kn_trainer_status(self->trainer);
    if (status == KN_OK) status = kn_trainer_compile(self->trainer, batch);
    if (status == KN_OK) status = kn_trainer_plan(self->trainer, &info);
    *flops = info.flops;
    return status == KN_OK ||
           command_error("%s", self->trainer ? kn_trainer_error(self->trainer) : "out of memory");
}

double cross_measure(kn_context *context, const cross_operation *operation, int64_t size,
                     const arithmetic *how, double seconds, double *flops) {
    static bench_times times;
    cross_case self = {.graph = kn_graph_create(NULL)};
    double median = NAN, best, p99;
    bool train = operation == &cross_operations[2];
    bool fine = (operation == &cross_operations[0]   ? prepare_matmul
                 : operation == &cross_operations[1] ? prepare_conv
                                                     : prepare_training)(&self, context, size, how, flops);
    if (fine && bench_measure(train ? train_step : session_step, &self, seconds, &times))
        bench_summary(&times, &median, &best, &p99);
    kn_trainer_destroy(&self.trainer);
    kn_session_destroy(&self.session);
    kn_graph_destroy(&self.graph);
    setup_finish(&self.setup);
    for (int i = 0; i < 3; i++)
        free(self.data[i]);
    return median;
}
