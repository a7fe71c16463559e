/* Every pointwise row compared with a function of the C library: its values at many points, and its gradient
 * expressions with central differences of that function. */
#include "ops_tests.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef double function(const double *in, const double *attribute);

typedef struct known {
    const char *row;
    function *value;
    double low[3], high[3];
    double attributes[2]; /* used where `given` is set, otherwise the row's defaults */
    bool given;
    double uniform; /* of random rows */
} known;

static double logistic(double x) {
    return 1 / (1 + exp(-x));
}
static double expm1_scaled(double x, double alpha) {
    return x > 0 ? x : alpha * expm1(x);
}

#define KNOWN(name, text)                                                                                    \
    static double known_##name(const double *in, const double *a) {                                          \
        const double x = in[0], y = in[1], z = in[2];                                                        \
        (void)x, (void)y, (void)z, (void)a;                                                                  \
        return text;                                                                                         \
    }
KNOWN(add, x + y)
KNOWN(sub, x - y)
KNOWN(mul, x *y)
KNOWN(div, x / y)
KNOWN(pow, pow(x, y))
KNOWN(min, fmin(x, y))
KNOWN(max, fmax(x, y))
KNOWN(scale, x *a[0])
KNOWN(shift, x + a[0])
KNOWN(neg, -x)
KNOWN(exp, exp(x))
KNOWN(log, log(x))
KNOWN(sqrt, sqrt(x))
KNOWN(rsqrt, 1 / sqrt(x))
KNOWN(abs, fabs(x))
KNOWN(sin, sin(x))
KNOWN(cos, cos(x))
KNOWN(erf, erf(x))
KNOWN(clip, fmin(fmax(x, a[0]), a[1]))
KNOWN(sigmoid, logistic(x))
KNOWN(tanh, tanh(x))
KNOWN(relu, fmax(x, 0))
KNOWN(leaky_relu, x > 0 ? x : a[0] * x)
KNOWN(relu6, fmin(fmax(x, 0), 6))
KNOWN(elu, expm1_scaled(x, a[0]))
KNOWN(selu, 1.0507009873554804934 * expm1_scaled(x, 1.6732632423543772848))
KNOWN(gelu, x * 0.5 * erfc(-x / sqrt(2)))
KNOWN(gelu_tanh, 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x))))
KNOWN(silu, x *logistic(x))
KNOWN(softplus, log1p(exp(x)))
KNOWN(hard_sigmoid, fmin(fmax(a[0] * x + a[1], 0), 1))
KNOWN(hard_swish, x *fmin(fmax(x / 6 + 0.5, 0), 1))
KNOWN(dropout_kept, x / (1 - a[0]))
KNOWN(dropout_gone, 0)
KNOWN(uniform_like, 0.375 + 0 * x)
KNOWN(bfloat_below, 1.5 + 0 * x)
KNOWN(bfloat_above, 1.5078125 + 0 * x)
KNOWN(float8_below, 1.5 + 0 * x)
KNOWN(float8_above, 1.625 + 0 * x)
KNOWN(float8_least, -0x1p-9 + 0 * x)
KNOWN(float8_zero, 0 * x)
KNOWN(power_of_two, copysign(exp2(floor(log2(fabs(x)))), x))
KNOWN(equal, x == y)
KNOWN(not_equal, x != y)
KNOWN(less, x < y)
KNOWN(less_equal, x <= y)
KNOWN(greater, x > y)
KNOWN(greater_equal, x >= y)
KNOWN(where, x != 0 ? y : z)
KNOWN(same, x)
KNOWN(in_training, y)
KNOWN(truth, x != 0)
KNOWN(squared_error, (x - y) * (x - y))
KNOWN(huber_error, fabs(x - y) <= a[0] ? 0.5 * (x - y) * (x - y) : a[0] * (fabs(x - y) - 0.5 * a[0]))
KNOWN(logits_error, -(y *log(logistic(x)) + (1 - y) * log(1 - logistic(x))))
KNOWN(floor, floor(x))
KNOWN(ceil, ceil(x))
KNOWN(round, nearbyint(x))
KNOWN(sign, (x > 0) - (x < 0))
KNOWN(mod, x - y * floor(x / y))
KNOWN(fmod, fmod(x, y))
KNOWN(quotient, y == 0 ? 0 : trunc(x / y))
KNOWN(floor_quotient, y == 0 ? 0 : floor(x / y))
KNOWN(reciprocal, 1 / x)
KNOWN(log1p, log(1 + x))
KNOWN(expm1, exp(x) - 1)
KNOWN(tan, sin(x) / cos(x))
KNOWN(asin, atan(x / sqrt(1 - x * x)))
KNOWN(acos, acos(x))
KNOWN(atan, atan(x))
KNOWN(atan2, atan2(x, y))
KNOWN(sinh, 0.5 * (exp(x) - exp(-x)))
KNOWN(cosh, 0.5 * (exp(x) + exp(-x)))
KNOWN(asinh, log(x + sqrt(x * x + 1)))
KNOWN(acosh, log(x + sqrt(x * x - 1)))
KNOWN(atanh, 0.5 * log((1 + x) / (1 - x)))
KNOWN(log_sigmoid, log(logistic(x)))
KNOWN(mish, x *tanh(log1p(exp(x))))
KNOWN(softsign, x / (1 + fabs(x)))
KNOWN(celu, fmax(x, 0) + fmin(0, a[0] * (exp(x / a[0]) - 1)))
KNOWN(thresholded_relu, x > a[0] ? x : 0)
KNOWN(shrink, fabs(x) <= a[0] ? 0 : x > 0 ? x - a[1] : x + a[1])
KNOWN(prelu, x > 0 ? x : x * y)
KNOWN(and, x != 0 && y != 0)
KNOWN(or, x != 0 || y != 0)
KNOWN(xor, (x != 0) ^ (y != 0))
KNOWN(not, x == 0)
KNOWN(bit_and, (double)((long)x &(long)y))
KNOWN(bit_or, (double)((long)x | (long)y))
KNOWN(bit_xor, (double)((long)x ^ (long)y))
KNOWN(bit_left, trunc(x) * exp2(trunc(y)))
KNOWN(bit_right, floor(trunc(x) / exp2(trunc(y))))
KNOWN(isnan, isnan(x) != 0)
KNOWN(isinf, isinf(x) != 0)
KNOWN(absolute_error, fabs(x - y))
KNOWN(weighted_logits_error, -(z *y *log(logistic(x)) + (1 - y) * log(1 - logistic(x))))
KNOWN(probability_error, -(y *log(x) + (1 - y) * log(1 - x)))
KNOWN(divergence_error, y *(log(y) - x))
KNOWN(hinge_error, fmax(a[0] - x * y, 0))
KNOWN(cosine_error, y > 0 ? 1 - x : fmax(x - a[0], 0))
KNOWN(share_error, -x *y)
KNOWN(picked_slope, x - (y == z))
KNOWN(class_share, (x == y) * (1 - a[0]) + a[0] / a[1])

#define ONE(row, low, high)                                                                                  \
    { #row, known_##row, {low }, {high }, {0 }, false, 0 }
#define TWO(row, x0, x1, y0, y1)                                                                             \
    { #row, known_##row, {x0, y0 }, {x1, y1 }, {0 }, false, 0 }
static const known table[] = {
    TWO(add, -3, 3, -3, 3),
    TWO(sub, -3, 3, -3, 3),
    TWO(mul, -3, 3, -3, 3),
    TWO(div, -3, 3, 0.5, 3),
    TWO(pow, 0.25, 3, -2, 3),
    TWO(min, -3, 3, -3, 3),
    TWO(max, -3, 3, -3, 3),
    {"scale", known_scale, {-3}, {3}, {-1.5}, true, 0},
    {"shift", known_shift, {-3}, {3}, {0.75}, true, 0},
    ONE(neg, -3, 3),
    ONE(exp, -4, 4),
    ONE(log, 0.1, 4),
    ONE(sqrt, 0.1, 4),
    ONE(rsqrt, 0.1, 4),
    ONE(abs, -3, 3),
    ONE(sin, -9, 9),
    ONE(cos, -9, 9),
    ONE(erf, -3, 3),
    {"clip", known_clip, {-3}, {3}, {-1.25, 2}, true, 0},
    ONE(clip, -3, 3),
    ONE(sigmoid, -9, 9),
    ONE(tanh, -4, 4),
    ONE(tanh, 21, 40),
    ONE(tanh, -40, -21),
    ONE(relu, -3, 3),
    ONE(leaky_relu, -3, 3),
    {"leaky_relu", known_leaky_relu, {-3}, {3}, {-0.5}, true, 0},
    ONE(relu6, -3, 9),
    ONE(elu, -4, 3),
    {"elu", known_elu, {-0.01}, {-1e-5}, {2}, true, 0},
    ONE(selu, -4, 3),
    ONE(gelu, -4, 4),
    ONE(gelu_tanh, -4, 4),
    ONE(silu, -9, 9),
    ONE(softplus, -9, 9),
    ONE(hard_sigmoid, -5, 5),
    {"hard_sigmoid", known_hard_sigmoid, {-5}, {5}, {0.2, 0.4}, true, 0},
    ONE(hard_swish, -5, 5),
    {"dropout", known_dropout_kept, {-3}, {3}, {0.25}, true, 0.25},
    {"dropout", known_dropout_gone, {-3}, {3}, {0.25}, true, 0.2499},
    {"uniform_like", known_uniform_like, {-3}, {3}, {0}, true, 0.375},
    /* A quarter of the way from 1.5 to the next number of bfloat16, which is 1 / 128 larger. */
    {"round_random", known_bfloat_below, {1.501953125}, {1.501953125}, {0}, false, 0.7499},
    {"round_random", known_bfloat_above, {1.501953125}, {1.501953125}, {0}, false, 0.75},
    {"round_random_8", known_float8_below, {1.53125}, {1.53125}, {0}, false, 0.7499},
    {"round_random_8", known_float8_above, {1.53125}, {1.53125}, {0}, false, 0.75},
    {"round_random_8", known_float8_least, {-0x1p-10}, {-0x1p-10}, {0}, false, 0.4999},
    {"round_random_8", known_float8_zero, {-0x1p-10}, {-0x1p-10}, {0}, false, 0.5},
    ONE(power_of_two, 1e-9, 9),
    ONE(power_of_two, -9, -1e-9),
    TWO(equal, -3, 3, -3, 3),
    TWO(equal, 2, 2, 2, 2),
    TWO(not_equal, -3, 3, -3, 3),
    TWO(less, -3, 3, -3, 3),
    TWO(less_equal, -3, 3, -3, 3),
    TWO(greater, -3, 3, -3, 3),
    TWO(greater_equal, -3, 3, -3, 3),
    {"where", known_where, {0, -3, -3}, {0, 3, 3}, {0}, false, 0},
    {"where", known_where, {1, -3, -3}, {1, 3, 3}, {0}, false, 0},
    TWO(in_training, -3, 3, -3, 3),
    {"cast", known_same, {-3}, {3}, {KN_FLOAT32}, true, 0},
    {"cast", known_truth, {-3}, {3}, {KN_BOOL}, true, 0},
    {"broadcast", known_same, {-3}, {3}, {0}, false, 0},
    TWO(squared_error, -3, 3, -3, 3),
    TWO(huber_error, -3, 3, -3, 3),
    {"huber_error", known_huber_error, {-3, -3}, {3, 3}, {0.5}, true, 0},
    TWO(logits_error, -4, 4, 0, 1),
    ONE(floor, -9, 9),
    ONE(ceil, -9, 9),
    ONE(round, -9, 9),
    ONE(sign, -3, 3),
    ONE(sign, 0, 0),
    TWO(mod, -9, 9, 0.5, 3),
    TWO(mod, -9, 9, -3, -0.5),
    TWO(fmod, -9, 9, 0.5, 3),
    TWO(fmod, -9, 9, -3, -0.5),
    TWO(quotient, -99, 99, -5, 5),
    TWO(floor_quotient, -99, 99, -5, 5),
    TWO(bit_and, -99, 99, 0, 99),
    TWO(bit_or, -99, 99, 0, 99),
    TWO(bit_xor, -99, 99, 0, 99),
    TWO(bit_left, 0, 99, 0, 9),
    TWO(bit_right, -99, 99, 0, 9),
    ONE(reciprocal, 0.5, 3),
    ONE(log1p, -0.5, 4),
    ONE(expm1, -4, 4),
    ONE(tan, -1.2, 1.2),
    ONE(asin, -0.9, 0.9),
    ONE(acos, -0.9, 0.9),
    ONE(atan, -4, 4),
    TWO(atan2, -3, 3, 0.5, 3),
    TWO(atan2, -3, -0.5, -3, 3),
    ONE(sinh, -4, 4),
    ONE(cosh, -4, 4),
    ONE(asinh, -3, 3),
    ONE(acosh, 1.5, 4),
    ONE(atanh, -0.9, 0.9),
    ONE(log_sigmoid, -9, 9),
    ONE(mish, -4, 4),
    ONE(softsign, -4, 4),
    {"celu", known_celu, {-3}, {3}, {0.5}, true, 0},
    {"thresholded_relu", known_thresholded_relu, {-3}, {3}, {0.75}, true, 0},
    {"shrink", known_shrink, {-3}, {3}, {0.75, 0.5}, true, 0},
    TWO(prelu, -3, 3, -3, 3),
    TWO(and, 0, 1, 0, 1),
    TWO(and, 0, 0, 1, 1),
    TWO(or, 0, 0, 0, 1),
    TWO(or, 0, 0, 0, 0),
    TWO(xor, 0, 0, 1, 1),
    TWO(xor, 1, 2, 1, 2),
    ONE(not, 0, 0),
    ONE(not, 1, 2),
    ONE(isnan, -3, 3),
    ONE(isnan, NAN, NAN),
    ONE(isinf, -3, 3),
    ONE(isinf, -INFINITY, -INFINITY),
    ONE(isinf, INFINITY, INFINITY),
    TWO(absolute_error, -3, 3, -3, 3),
    {"weighted_logits_error", known_weighted_logits_error, {-4, 0, 0.5}, {4, 1, 3}, {0}, false, 0},
    TWO(probability_error, 0.05, 0.95, 0, 1),
    TWO(divergence_error, -4, 0, 0.05, 1),
    TWO(hinge_error, -3, 3, -3, 3),
    {"hinge_error", known_hinge_error, {-3, -3}, {3, 3}, {0.25}, true, 0},
    {"cosine_error", known_cosine_error, {-1, 1}, {1, 1}, {0.25}, true, 0},
    {"cosine_error", known_cosine_error, {-1, -1}, {1, -1}, {0.25}, true, 0},
    TWO(share_error, -4, 0, 0.1, 1),
    {"picked_slope", known_picked_slope, {-3, 2, 2}, {3, 2, 2}, {0}, false, 0},
    {"class_share", known_class_share, {2, 2}, {2, 2}, {0.25, 5}, true, 0},
    {"class_share", known_class_share, {1, 2}, {1, 2}, {0.25, 5}, true, 0},
};

static kn_arena arena;
static kn_host host;

/* The variables of an expression. */
typedef struct point {
    double in[3], result, gradient, uniform;
    double attributes[KN_MAX_ATTRIBUTES];
} point;

static double number_named(const kn_operator *row, const char *name, const point *at) {
    for (int i = 0; i < row->attribute_count; i++)
        if (!strcmp(row->attributes[i].name, name)) return at->attributes[i];
    if (!strcmp(name, "uniform")) return at->uniform;
    if (!strcmp(name, "r")) return at->result;
    if (!strcmp(name, "g")) return at->gradient;
    if (strlen(name) == 1 && name[0] >= 'x' && name[0] <= 'z') return at->in[name[0] - 'x'];
    fail_msg("%s reads '%s', which is nothing", row->name, name);
    return 0;
}

static double evaluate(const kn_operator *row, const char *text, const point *at) {
    kn_expression *expression;
    kn_error error = {0};
    double numbers[16];
    if (kn_expression_parse(&arena, text, &expression, &error)) fail_msg("%s: %s", row->name, error.text);
    int count = kn_expression_name_count(expression);
    assert_true(count <= 16);
    for (int i = 0; i < count; i++)
        numbers[i] = number_named(row, kn_expression_name(expression, i), at);
    return kn_expression_evaluate(expression, numbers);
}

static const kn_operator *row_of(const known *entry) {
    const kn_operator *row = kn_operator_find(entry->row);
    if (!row || row->class != KN_CLASS_POINTWISE) fail_msg("%s is not a pointwise row", entry->row);
    return row;
}

static point point_of(const known *entry, const kn_operator *row, int sample) {
    point at = {.uniform = entry->uniform, .gradient = 0.75};
    for (int i = 0; i < row->attribute_count; i++)
        at.attributes[i] = entry->given && i < 2 ? entry->attributes[i] : row->attributes[i].number;
    for (int i = 0; i < 3; i++) {
        double u = kn_random_uniform(kn_random_key(7, entry->row), (uint64_t)(3 * sample + i));
        double width = entry->low[i] < entry->high[i] ? entry->high[i] - entry->low[i] : 0;
        at.in[i] = entry->low[i] + u * width;
    }
    return at;
}

enum { SAMPLES = 60 };

/* The value of the reference function at a sample, and the value of the expression `text`, which replaces one
 * of the row's. */
typedef struct answers {
    point at;
    double expected, actual;
} answers;

static answers value_at(const known *entry, const kn_operator *row, const char *text, int sample) {
    answers both = {.at = point_of(entry, row, sample)};
    both.expected = entry->value(both.at.in, both.at.attributes);
    both.actual = evaluate(row, text, &both.at);
    return both;
}

static bool values_agree(const answers *both) {
    return fabs(both->actual - both->expected) <= 1e-12 * fmax(fabs(both->expected), 1e-3);
}

static bool has_gradient(const known *entry, const kn_operator *row, int by) {
    if (!row->by[by] || (row->fixed_dtype && row->result_dtype == KN_BOOL)) return false;
    return row != kn_operator_find("cast") || entry->attributes[0] != KN_BOOL;
}

static answers gradient_at(const known *entry, const kn_operator *row, int by, const char *text, int sample) {
    answers both = {.at = point_of(entry, row, sample)};
    point moved = both.at;
    const double step = 1e-6;
    both.at.result = entry->value(both.at.in, both.at.attributes);
    moved.in[by] = both.at.in[by] + step;
    double above = entry->value(moved.in, both.at.attributes);
    moved.in[by] = both.at.in[by] - step;
    double below = entry->value(moved.in, both.at.attributes);
    both.expected = both.at.gradient * (above - below) / (2 * step);
    both.actual = evaluate(row, text, &both.at);
    return both;
}

static bool gradients_agree(const answers *both) {
    return fabs(both->actual - both->expected) <= 1e-7 * fmax(fabs(both->expected), 1);
}

TEST(values_are_right) {
    for (size_t i = 0; i < KN_COUNT_OF(table); i++) {
        const kn_operator *row = row_of(&table[i]);
        for (int sample = 0; sample < SAMPLES; sample++) {
            answers both = value_at(&table[i], row, row->value, sample);
            if (!values_agree(&both))
                fail_msg("%s(%.9g, %.9g, %.9g) is %.17g; expected %.17g", row->name, both.at.in[0],
                         both.at.in[1], both.at.in[2], both.actual, both.expected);
        }
    }
}

TEST(gradients_are_right) {
    for (size_t i = 0; i < KN_COUNT_OF(table); i++) {
        const kn_operator *row = row_of(&table[i]);
        for (int sample = 0; sample < SAMPLES; sample++)
            for (int by = 0; by < 3; by++) {
                if (!has_gradient(&table[i], row, by)) continue;
                answers both = gradient_at(&table[i], row, by, row->by[by], sample);
                if (!gradients_agree(&both))
                    fail_msg("%s by input %d at (%.9g, %.9g, %.9g) is %.12g; central differences give %.12g",
                             row->name, by, both.at.in[0], both.at.in[1], both.at.in[2], both.actual,
                             both.expected);
            }
    }
}

/* Whether a sample distinguishes `text` from the value of the row (by -1) or from its gradient by an input.
 */
static bool is_noticed(const kn_operator *row, int by, const char *text) {
    for (size_t i = 0; i < KN_COUNT_OF(table); i++) {
        if (row_of(&table[i]) != row || (by >= 0 && !has_gradient(&table[i], row, by))) continue;
        for (int sample = 0; sample < SAMPLES; sample++) {
            answers both = by < 0 ? value_at(&table[i], row, text, sample)
                                  : gradient_at(&table[i], row, by, text, sample);
            if (by < 0 ? !values_agree(&both) : !gradients_agree(&both)) return true;
        }
    }
    return false;
}

/* Flips the sign at `place`, if there is one; a unary sign is removed. The sign of an exponent is skipped, as
 * is that of a zero that only propagates NaN. */
static bool turn_sign(char *text, size_t place) {
    size_t before = place;
    if (text[place] != '+' && text[place] != '-') return false;
    if (!strncmp(text + place, "+ 0 * ", 6)) return false;
    if (place > 1 && text[place - 1] == 'e' && text[place - 2] >= '0' && text[place - 2] <= '9') return false;
    while (before > 0 && text[before - 1] == ' ')
        before--;
    if (before == 0 || strchr("(,?:<>=*/+-&|!", text[before - 1]))
        text[place] = ' ';
    else
        text[place] = text[place] == '+' ? '-' : '+';
    return true;
}

static int unnoticed_signs(const kn_operator *row, int by, const char *expression) {
    char text[600];
    int unnoticed = 0;
    assert_true(strlen(expression) + 4 < sizeof text);
    for (size_t place = 0; place <= strlen(expression); place++) {
        bool whole = place == strlen(expression); /* past the end: the sign of the whole expression */
        snprintf(text, sizeof text, whole ? "-(%s)" : "%s", expression);
        if ((!whole && !turn_sign(text, place)) || is_noticed(row, by, text)) continue;
        print_error("%s: \"%s\" instead of \"%s\" is not noticed\n", row->name, text, expression);
        unnoticed++;
    }
    return unnoticed;
}

/* Devices and references compute from one expression, so only this table can detect a wrong sign in it. */
TEST(signs_are_noticed) {
    int unnoticed = 0;
    for (int i = 0; i < kn_operator_table_count; i++) {
        const kn_operator *row = kn_operator_table[i];
        if (row->class != KN_CLASS_POINTWISE) continue;
        unnoticed += unnoticed_signs(row, -1, row->value);
        for (int by = 0; by < 3; by++)
            if (row->by[by] && !(row->fixed_dtype && row->result_dtype == KN_BOOL))
                unnoticed += unnoticed_signs(row, by, row->by[by]);
    }
    assert_int_equal(unnoticed, 0);
}

/* Where two inputs are equal or a function has a corner, central differences do not apply: the gradient is a
 * convention. */
TEST(corners_are_chosen) {
    static const struct {
        const char *row;
        int by;
        double x, y, expected;
    } corners[] = {
        {"min", 0, 2, 2, 0.5},
        {"min", 1, 2, 2, 0.5},
        {"max", 0, 2, 2, 0.5},
        {"max", 1, 2, 2, 0.5},
        {"relu", 0, 0, 0, 0},
        {"abs", 0, 0, 0, 0},
        {"clip", 0, 1e30, 0, 1},
        {"pow", 0, 0, 0, 0},
        {"pow", 1, 0, 2, 0},
        {"leaky_relu", 0, 0, 0, 0.01},
        {"relu6", 0, 6, 0, 0},
        {"huber_error", 0, 3, 2, 1},
        {"absolute_error", 0, 2, 2, 0},
        {"share_error", 0, -2, 0, 0},
        {"hinge_error", 0, 1, 1, 0},
        {"divergence_error", 0, -2, 0, 0},
    };
    for (size_t i = 0; i < KN_COUNT_OF(corners); i++) {
        const kn_operator *row = kn_operator_find(corners[i].row);
        assert_non_null(row);
        point at = {.in = {corners[i].x, corners[i].y}, .gradient = 1};
        for (int j = 0; j < row->attribute_count; j++)
            at.attributes[j] = row->attributes[j].number;
        at.result = evaluate(row, row->value, &at);
        double actual = evaluate(row, row->by[corners[i].by], &at);
        if (actual != corners[i].expected)
            fail_msg("%s by %d at (%g, %g) is %g; expected %g", row->name, corners[i].by, corners[i].x,
                     corners[i].y, actual, corners[i].expected);
    }
}

/* Every operator propagates NaN; comparisons return a bool. */
TEST(nan_is_passed_on) {
    for (size_t i = 0; i < KN_COUNT_OF(table); i++) {
        const kn_operator *row = row_of(&table[i]);
        if (row->fixed_dtype || row->mixed_inputs || row->random || row->training_only ||
            !strcmp(row->name, "cast"))
            continue;
        int least, most;
        kn_operator_arity(row, &least, &most);
        for (int input = 0; input < most; input++) {
            point at = point_of(&table[i], row, 0);
            at.in[input] = NAN;
            if (!isnan(evaluate(row, row->value, &at)))
                fail_msg("%s loses the NaN of input %d", row->name, input);
        }
    }
}

TEST(every_row_is_here) {
    for (int i = 0; i < kn_operator_table_count; i++) {
        const kn_operator *row = kn_operator_table[i];
        bool found = row->class != KN_CLASS_POINTWISE;
        for (size_t j = 0; j < KN_COUNT_OF(table) && !found; j++)
            found = !strcmp(table[j].row, row->name);
        if (!found) fail_msg("pointwise row %s has no function in this file", row->name);
    }
}

static int begin(void **state) {
    host = kn_host_defaults();
    kn_arena_init(&arena, &host);
    return 0;
}

static int end(void **state) {
    kn_arena_finish(&arena);
    return 0;
}

TEST_FILE(test_pointwise_values, begin, end)
