/* Optimizer rules with one sign inverted: the linker redirects calls of rules.c to this file. KOINE_TEST_FLIP
 * is the index (from 0) of the addition, subtraction, factor or summand of a rule to invert. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "train/optimizer.h"

static bool inside;
static int seen;

void __real_kn_update_by_rule(const kn_update_part *part);
kn_value *__real_kn_add(kn_value *x, kn_value *y);
kn_value *__real_kn_sub(kn_value *x, kn_value *y);
kn_value *__real_kn_scale(kn_value *x, double factor);
kn_value *__real_kn_shift(kn_value *x, double summand);
void __wrap_kn_update_by_rule(const kn_update_part *part);
kn_value *__wrap_kn_add(kn_value *x, kn_value *y);
kn_value *__wrap_kn_sub(kn_value *x, kn_value *y);
kn_value *__wrap_kn_scale(kn_value *x, double factor);
kn_value *__wrap_kn_shift(kn_value *x, double summand);

static bool is_turned(void) {
    const char *wanted = getenv("KOINE_TEST_FLIP");
    if (!inside || !wanted || seen++ != atoi(wanted)) return false;
    fprintf(stderr, "turned round\n");
    return true;
}

/* The same sign in the rule of each parameter. */
void __wrap_kn_update_by_rule(const kn_update_part *part) {
    seen = 0;
    inside = true;
    __real_kn_update_by_rule(part);
    inside = false;
}

kn_value *__wrap_kn_add(kn_value *x, kn_value *y) {
    return is_turned() ? __real_kn_sub(x, y) : __real_kn_add(x, y);
}

kn_value *__wrap_kn_sub(kn_value *x, kn_value *y) {
    return is_turned() ? __real_kn_add(x, y) : __real_kn_sub(x, y);
}

kn_value *__wrap_kn_scale(kn_value *x, double factor) {
    return __real_kn_scale(x, is_turned() ? -factor : factor);
}

/* The sign of an epsilon hardly changes the result. */
kn_value *__wrap_kn_shift(kn_value *x, double summand) {
    return __real_kn_shift(x, fabs(summand) > 1e-3 && is_turned() ? -summand : summand);
}
