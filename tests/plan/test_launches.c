/* The launches of a training step of networks of the zoo on a GPU that a target file describes. */
#include "support.h"

#include <koine/koine.h>

static const char *target;

static void check_launches(const char *name, int64_t batch, int most) {
    kn_context_params context_params;
    kn_context_params_init(&context_params);
    context_params.target = target;
    kn_context *context = kn_context_create(&context_params);
    if (kn_context_status(context)) fail_msg("%s: %s", target, kn_context_error(context));
    kn_model *model = kn_model_open(name, NULL);
    kn_model_loss loss = KN_MODEL_LOSS_DEFAULTS;
    if (kn_model_status(model) || kn_model_add_loss(model, NULL, &loss))
        fail_msg("%s: %s", name, kn_model_error(model));
    kn_trainer_params params;
    kn_trainer_params_init(&params);
    kn_trainer_params_choose(&params, KN_OPTIMIZER_SGD);
    kn_trainer *trainer = kn_trainer_create(context, loss.value, &params);
    kn_plan_info info = {.size = sizeof info};
    if (kn_trainer_compile(trainer, batch) || kn_trainer_plan(trainer, &info))
        fail_msg("%s: %s", name, kn_trainer_error(trainer));
    if (info.steps < 1 || info.steps > most)
        fail_msg("%s: %d launches, expected at most %d", name, info.steps, most);
    kn_trainer_destroy(&trainer);
    kn_model_destroy(&model);
    kn_context_destroy(&context);
}

static void convolutions_take_few_launches(void **state) {
    (void)state;
    check_launches("resnet50", 32, 360);
}

static void transformers_take_few_launches(void **state) {
    (void)state;
    check_launches("gpt", 8, 147);
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    target = argv[1];
    const struct CMUnitTest tests[] = {cmocka_unit_test(convolutions_take_few_launches),
                                       cmocka_unit_test(transformers_take_few_launches)};
    return cmocka_run_group_tests_name("launches", tests, NULL, NULL) != 0;
}
