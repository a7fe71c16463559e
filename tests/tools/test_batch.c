/* What the commands do where the first plan fails: with device memory too short, and with anything else. */
#include "command/batch.h"
#include "device_support.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static char said[1000];

static void say(const char *format, va_list arguments) {
    vsnprintf(said, sizeof said, format, arguments);
}
int command_fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    say(format, arguments);
    va_end(arguments);
    return EXIT_FAILED;
}
bool command_error(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    say(format, arguments);
    va_end(arguments);
    return false;
}
void command_warn(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    say(format, arguments);
    va_end(arguments);
}
void progress_line(const char *format, ...) {}
const char *bytes_text(double bytes, char *text, size_t room) {
    snprintf(text, room, "%.0f B", bytes);
    return text;
}

/* A model that needs a byte for each sample; plan `at` fails with `code`, or each one from there on. */
typedef struct model {
    int plans, at;
    bool always;
    kn_status code;
} model;

static kn_status plan(void *user, int64_t batch, uint64_t *bytes) {
    model *m = user;
    *bytes = (uint64_t)batch;
    m->plans++;
    return m->plans == m->at || (m->always && m->plans > m->at) ? m->code : KN_OK;
}
static const char *plan_error(void *user) {
    return "the kernel k did not compile";
}

static bool fit(kn_context *context, model *m, int64_t *batch) {
    const batch_plans plans = {.allowed = 40, .user = m, .plan = plan, .error = plan_error};
    said[0] = '\0';
    return batch_fit(context, &plans, "training continues with", batch);
}

static void only_device_memory_makes_a_batch_smaller(void **state) {
    static const kn_status others[] = {KN_ERROR_MEMORY, KN_ERROR_COMPILE, KN_ERROR_DEVICE};
    kn_context *context = *state;
    int64_t batch = 64;
    assert_true(fit(context, &(model){0}, &batch));
    assert_int_equal(batch, 40);
    assert_non_null(strstr(said, "a batch of 64 does not fit: 64 B of device memory are needed"));
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        for (int at = 1; at <= 3; at++) { /* the first plan, that of one sample, one of the search */
            batch = 64;
            assert_false(fit(context, &(model){.at = at, .code = others[i]}, &batch));
            assert_int_equal(batch, 64);
            assert_string_equal(said, "the kernel k did not compile");
        }
}

static void what_fails_once_for_memory_is_planned_again(void **state) {
    int64_t batch = 32;
    assert_true(fit(*state, &(model){.at = 1, .code = KN_ERROR_DEVICE_MEMORY}, &batch));
    assert_int_equal(batch, 32);
    assert_string_equal(said, "");
    assert_false(fit(*state, &(model){.at = 1, .always = true, .code = KN_ERROR_DEVICE_MEMORY}, &batch));
    assert_non_null(strstr(said, "too large for the device, even with a batch of 1"));
}

int main(void) {
    if (!device_is_there()) return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_device_memory_makes_a_batch_smaller),
        cmocka_unit_test(what_fails_once_for_memory_is_planned_again),
    };
    return cmocka_run_group_tests_name("tools: batches that fit", tests, device_setup, device_teardown);
}
