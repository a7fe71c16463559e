/* The launches and the memory of a training step of some networks on a GPU that a target file describes. */
#include "support.h"

#include <stdio.h>

#include <koine/koine.h>

static const char *target;

/* The plan of a training step; closes the model. */
static kn_plan_info plan_of(const char *name, kn_model *model, int64_t batch, kn_precision precision,
                            bool accuracy) {
    kn_context_params context_params;
    kn_context_params_init(&context_params);
    context_params.target = target;
    kn_context *context = kn_context_create(&context_params);
    if (kn_context_status(context)) fail_msg("%s: %s", target, kn_context_error(context));
    kn_model_loss loss = KN_MODEL_LOSS_DEFAULTS;
    if (kn_model_status(model) || kn_model_add_loss(model, NULL, &loss))
        fail_msg("%s: %s", name, kn_model_error(model));
    kn_trainer_params params;
    kn_session_params session;
    kn_session_params_init(&session);
    session.precision = precision;
    kn_trainer_params_init(&params);
    kn_trainer_params_choose(&params, KN_OPTIMIZER_SGD);
    params.extra = &loss.accuracy;
    params.extra_count = accuracy;
    params.session = &session;
    kn_trainer *trainer = kn_trainer_create(context, loss.value, &params);
    kn_plan_info info = {.size = sizeof info};
    if (kn_trainer_compile(trainer, batch) || kn_trainer_plan(trainer, &info))
        fail_msg("%s: %s", name, kn_trainer_error(trainer));
    kn_trainer_destroy(&trainer);
    kn_model_destroy(&model);
    kn_context_destroy(&context);
    return info;
}

static void check_launches(const char *name, int64_t batch, kn_precision precision, int most) {
    const kn_plan_info info = plan_of(name, kn_model_open(name, NULL), batch, precision, false);
    if (info.steps < 1 || info.steps > most)
        fail_msg("%s: %d launches, expected at most %d", name, info.steps, most);
}

static void convolutions_take_few_launches(void **state) {
    check_launches("resnet50", 32, KN_PRECISION_FLOAT32, 360);
    check_launches("resnet50", 32, KN_PRECISION_BFLOAT16, 443);
}

static void transformers_take_few_launches(void **state) {
    check_launches("gpt", 8, KN_PRECISION_FLOAT32, 147);
}

/* Parts of the rows with all classes, and slices of the classes. All logits would take 1 GB and 5 GB. */
static void few_logits_are_kept(void **state) {
    static const int vocabularies[] = {60000, 300000};
    for (int i = 0; i < 2; i++) {
        char text[200];
        snprintf(
            text, sizeof text,
            "koine 1\ntask classification\ninput x 512 int32\nembedding %d 16\noutput = linear %d bias=no\n",
            vocabularies[i], vocabularies[i]);
        const kn_plan_info info = plan_of("text", kn_model_parse(text, NULL), 8, KN_PRECISION_FLOAT32, true);
        if (!info.scratch_bytes || info.scratch_bytes > 150 << 20)
            fail_msg("%d classes: %llu bytes", vocabularies[i], (unsigned long long)info.scratch_bytes);
    }
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    target = argv[1];
    const struct CMUnitTest tests[] = {cmocka_unit_test(convolutions_take_few_launches),
                                       cmocka_unit_test(transformers_take_few_launches),
                                       cmocka_unit_test(few_logits_are_kept)};
    return cmocka_run_group_tests_name("launches", tests, NULL, NULL) != 0;
}
