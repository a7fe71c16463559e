#include "train_tests.h"

#include <math.h>
#include <string.h>

float sample_x[SAMPLES][INPUTS];
int32_t sample_y[SAMPLES];

void samples_draw(void) {
    uint32_t word = 12345;
    for (int i = 0; i < SAMPLES; i++) {
        sample_y[i] = i * 7 % CLASSES;
        for (int k = 0; k < INPUTS; k++) {
            word = word * 1664525u + 1013904223u;
            float noise = (float)(word >> 8) / (float)(1 << 24) - 0.5f;
            sample_x[i][k] = noise + (k % CLASSES == sample_y[i] ? 1.0f : 0.0f);
        }
    }
}

void samples_feed(int64_t first, int64_t count, kn_feed feeds[2]) {
    static float x[SAMPLES][INPUTS];
    static int32_t y[SAMPLES];
    assert_true(count <= SAMPLES);
    for (int64_t i = 0; i < count; i++) {
        int64_t from = (first + i) % SAMPLES;
        memcpy(x[i], sample_x[from], sizeof x[i]);
        y[i] = sample_y[from];
    }
    feeds[0] = (kn_feed){"x", x, (size_t)count * sizeof x[0]};
    feeds[1] = (kn_feed){"y", y, (size_t)count * sizeof y[0]};
}

static small_net net_of(kn_model *model) {
    small_net net = {.model = model, .loss = KN_MODEL_LOSS_DEFAULTS};
    if (kn_model_status(model) != KN_OK) fail_msg("%s", kn_model_error(model));
    if (kn_model_add_loss(model, NULL, &net.loss) != KN_OK) fail_msg("%s", kn_model_error(model));
    return net;
}

small_net net_make(void) {
    return net_of(kn_model_parse("koine 1\n"
                                 "input x 6\n"
                                 "linear 16\n"
                                 "batchnorm\n"
                                 "relu\n"
                                 "dropout 0.25\n"
                                 "logits = linear 3\n",
                                 NULL));
}

small_net net_open(const char *path) {
    return net_of(kn_model_open(path, NULL));
}

void net_destroy(small_net *net) {
    kn_model_destroy(&net->model);
}

kn_trainer_params adam(void) {
    static const kn_session_params session = {.size = sizeof session, .seed = 5};
    kn_trainer_params params;
    kn_trainer_params_init(&params);
    params.learning_rate = 0.01;
    params.session = &session;
    return params;
}

kn_trainer *trainer_make(kn_context *context, kn_value *loss, const kn_trainer_params *params) {
    kn_trainer_params usual = adam();
    kn_trainer *trainer = kn_trainer_create(context, loss, params ? params : &usual);
    assert_non_null(trainer);
    trainer_good(trainer, kn_trainer_status(trainer));
    return trainer;
}

void trainer_good(const kn_trainer *trainer, kn_status status) {
    if (status != KN_OK) fail_msg("%s: %s", kn_status_name(status), kn_trainer_error(trainer));
}

double trainer_steps(kn_trainer *trainer, int64_t batch, int steps) {
    double loss = NAN;
    for (int i = 0; i < steps; i++) {
        kn_feed feeds[2];
        samples_feed((int64_t)kn_trainer_steps(trainer) * batch, batch, feeds);
        trainer_good(trainer, kn_trainer_step(trainer, batch, feeds, 2, i == steps - 1 ? &loss : NULL));
    }
    return loss;
}

void state_get(kn_states *states, const char *name, float *numbers, size_t count) {
    if (kn_states_get(states, name, numbers, count * sizeof *numbers) != KN_OK)
        fail_msg("%s: %s", name, kn_states_error(states));
}

int main(int argc, char **argv) {
    samples_draw();
    if (!device_is_there()) return 77;
    if (argc == 2 && !strcmp(argv[1], "--bits")) return print_bits();
    if (argc == 2 && !strcmp(argv[1], "workers")) return test_shards() != 0;
    if (argc == 2 && !strcmp(argv[1], "moments")) return test_moments_losses() != 0;
    if (argc == 2 && !strcmp(argv[1], "host-moments")) return test_host_moments() != 0;
    if (argc >= 2 && !strcmp(argv[1], "memory")) return test_memory(test_part_of(argc, argv)) != 0;
    if (argc == 2 && !strcmp(argv[1], "counts")) return test_counts() != 0;
    if (argc == 2 && !strcmp(argv[1], "sync-norm")) return test_sync_norm() != 0;
    if (argc == 2 && !strcmp(argv[1], "adapters")) return test_adapters() != 0;
    if (argc == 2 && !strcmp(argv[1], "config")) return test_config() != 0;
    if (argc == 2 && !strcmp(argv[1], "rounds")) return test_rounds() != 0;
    int failures = test_schedules() + test_updates() + test_not_finite() + test_resume() +
                   test_same_bits(argv[0]) + test_fit() + test_moments() + test_host_moments() +
                   test_devices();
    return failures != 0;
}
