/* Caffe's pointwise layers. */
#include <float.h>
#include <math.h>

#include "exchange/caffe/caffe.h"

/* Layers that are one operator without attributes. */
bool kn_caffe_plain(kn_caffe *net, kn_caffe_layer *layer) {
    static const struct {
        const char *type, *kind;
    } kinds[] = {{"AbsVal", "abs"}, {"BNLL", "softplus"}, {"Sigmoid", "sigmoid"}, {"TanH", "tanh"}};
    size_t i = 0;
    while (strcmp(kinds[i].type, layer->row->type))
        i++;
    return kn_caffe_like(net, layer,
                         kn_caffe_line(net, layer, NULL, "%s @%s", kinds[i].kind, layer->bottoms[0]->value));
}

/* Writes a line with one operator and one attribute. */
static bool with_number(kn_caffe *net, const kn_caffe_layer *layer, const char *kind, const char *setting,
                        double number) {
    const char *line = kn_caffe_line(net, layer, NULL, "%s @%s", kind, layer->bottoms[0]->value);
    kn_caffe_more_number(net, setting, number);
    return kn_caffe_like(net, layer, line);
}

bool kn_caffe_relu(kn_caffe *net, kn_caffe_layer *layer) {
    double slope = kn_caffe_number(layer->param, "negative_slope", 0);
    if (slope != 0) return with_number(net, layer, "leaky_relu", "slope", slope);
    return kn_caffe_like(net, layer, kn_caffe_line(net, layer, NULL, "relu @%s", layer->bottoms[0]->value));
}

bool kn_caffe_elu(kn_caffe *net, kn_caffe_layer *layer) {
    return with_number(net, layer, "elu", "alpha", kn_caffe_number(layer->param, "alpha", 1));
}

bool kn_caffe_dropout(kn_caffe *net, kn_caffe_layer *layer) {
    return with_number(net, layer, "dropout", "rate", kn_caffe_number(layer->param, "dropout_ratio", 0.5));
}

bool kn_caffe_clip(kn_caffe *net, kn_caffe_layer *layer) {
    const char *line = kn_caffe_line(net, layer, NULL, "clip @%s", layer->bottoms[0]->value);
    kn_caffe_more_number(net, "low", kn_caffe_number(layer->param, "min", -FLT_MAX));
    kn_caffe_more_number(net, "high", kn_caffe_number(layer->param, "max", FLT_MAX));
    return kn_caffe_like(net, layer, line);
}

/* ---- with several lines -------------------------------------------------------------------------------- */

/* value * scale + shift, without steps that change nothing; NULL when out of memory. */
static const char *write_scaled(kn_caffe *net, const kn_caffe_layer *layer, const char *value, double scale,
                                double shift) {
    if (value && scale != 1) {
        value = kn_caffe_line(net, layer, "scaled", "scale @%s", value);
        kn_caffe_more_number(net, "factor", scale);
    }
    if (value && shift != 0) {
        value = kn_caffe_line(net, layer, "shifted", "shift @%s", value);
        kn_caffe_more_number(net, "summand", shift);
    }
    return value;
}

static const char *write_scale_and_shift(kn_caffe *net, const kn_caffe_layer *layer, double factor) {
    return write_scaled(net, layer, layer->bottoms[0]->value,
                        factor * kn_caffe_number(layer->param, "scale", 1),
                        factor * kn_caffe_number(layer->param, "shift", 0));
}

bool kn_caffe_swish(kn_caffe *net, kn_caffe_layer *layer) {
    const char *x = layer->bottoms[0]->value;
    const char *gate = write_scaled(net, layer, x, kn_caffe_number(layer->param, "beta", 1), 0);
    if (gate) gate = kn_caffe_line(net, layer, "gate", "sigmoid @%s", gate);
    return gate && kn_caffe_like(net, layer, kn_caffe_line(net, layer, NULL, "mul @%s @%s", x, gate));
}

/* (shift + scale * x) ^ power. */
bool kn_caffe_power(kn_caffe *net, kn_caffe_layer *layer) {
    const double power = kn_caffe_number(layer->param, "power", 1);
    const char *inner = write_scale_and_shift(net, layer, 1), *line = inner;
    if (!inner) return false;
    if (power == 2) {
        line = kn_caffe_line(net, layer, NULL, "mul @%s @%s", inner, inner);
    } else if (power == 0.5 || power == -1) {
        line = kn_caffe_line(net, layer, NULL, "%s @%s", power < 0 ? "reciprocal" : "sqrt", inner);
    } else if (power != 1) {
        const char *exponent = kn_caffe_line(net, layer, "power", "number");
        kn_caffe_more_number(net, "value", power);
        if (exponent) line = kn_caffe_line(net, layer, NULL, "pow @%s @%s", inner, exponent);
    }
    return kn_caffe_like(net, layer, line);
}

/* base ^ (shift + scale * x); base -1 means e. */
bool kn_caffe_exp(kn_caffe *net, kn_caffe_layer *layer) {
    const double base = kn_caffe_number(layer->param, "base", -1);
    if (base <= 0 && base != -1)
        return kn_caffe_refuse(net, layer, "base is %g; expected a positive number, or -1 for e", base);
    const char *inner = write_scale_and_shift(net, layer, base == -1 ? 1 : log(base));
    return inner && kn_caffe_like(net, layer, kn_caffe_line(net, layer, NULL, "exp @%s", inner));
}

/* The logarithm of shift + scale * x. */
bool kn_caffe_log(kn_caffe *net, kn_caffe_layer *layer) {
    const double base = kn_caffe_number(layer->param, "base", -1);
    if ((base <= 0 && base != -1) || base == 1)
        return kn_caffe_refuse(net, layer, "base is %g; expected a positive number other than 1, or -1 for e",
                               base);
    const char *inner = write_scale_and_shift(net, layer, 1);
    if (inner) inner = kn_caffe_line(net, layer, base == -1 ? NULL : "natural", "log @%s", inner);
    if (inner && base != -1) {
        inner = kn_caffe_line(net, layer, NULL, "scale @%s", inner);
        kn_caffe_more_number(net, "factor", 1 / log(base));
    }
    return kn_caffe_like(net, layer, inner);
}

bool kn_caffe_threshold(kn_caffe *net, kn_caffe_layer *layer) {
    const char *limit = kn_caffe_line(net, layer, "limit", "number");
    kn_caffe_more_number(net, "value", kn_caffe_number(layer->param, "threshold", 0));
    const char *above =
        limit ? kn_caffe_line(net, layer, "above", "greater @%s @%s", layer->bottoms[0]->value, limit) : NULL;
    return above && kn_caffe_like(net, layer, kn_caffe_line(net, layer, NULL, "cast @%s", above));
}

/* A bottom times its coefficient. */
static const char *write_term(kn_caffe *net, const kn_caffe_layer *layer, int position,
                              const kn_caffe_item *coefficient) {
    double factor = coefficient && coefficient->kind == KN_CAFFE_NUMBER ? coefficient->as.number : 1;
    return write_scaled(net, layer, layer->bottoms[position]->value, factor, 0);
}

/* All bottoms have the same shape. */
bool kn_caffe_eltwise(kn_caffe *net, kn_caffe_layer *layer) {
    const char *operation = kn_caffe_text(layer->param, "operation", "SUM");
    const char *kind = !strcmp(operation, "SUM") ? "add" : !strcmp(operation, "PROD") ? "mul" : "max";
    const kn_caffe_blob *x = layer->bottoms[0];
    const bool sum = !strcmp(kind, "add");
    const int coefficients = kn_caffe_count(layer->param, "coeff");
    if (!sum && strcmp(operation, "PROD") && strcmp(operation, "MAX"))
        return kn_caffe_refuse(net, layer, "operation is %.40s; expected SUM, PROD or MAX", operation);
    if (coefficients && (!sum || coefficients != layer->bottom_count))
        return kn_caffe_refuse(net, layer,
                               "has %d coefficients for %d bottoms; expected one per bottom, only for SUM",
                               coefficients, layer->bottom_count);
    const kn_caffe_item *coefficient = kn_caffe_next(layer->param, "coeff", NULL);
    const char *value = write_term(net, layer, 0, coefficient);
    for (int i = 1; value && i < layer->bottom_count; i++) {
        const kn_caffe_blob *other = layer->bottoms[i];
        if (other->rank != x->rank || memcmp(other->dims, x->dims, (size_t)x->rank * sizeof *x->dims))
            return kn_caffe_refuse(net, layer, "'%s' and '%s' have different shapes", x->name, other->name);
        if (coefficient) coefficient = kn_caffe_next(layer->param, "coeff", coefficient);
        const char *term = write_term(net, layer, i, coefficient);
        if (term)
            value = kn_caffe_line(net, layer, i + 1 < layer->bottom_count ? "part" : NULL, "%s @%s @%s", kind,
                                  value, term);
        if (!term) value = NULL;
    }
    return kn_caffe_like(net, layer, value);
}
