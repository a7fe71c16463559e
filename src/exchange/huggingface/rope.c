/* How config.json says that q and k are rotated. */
#include <math.h>
#include <string.h>

#include "exchange/huggingface/huggingface.h"

static const double most = 1e12, least = 1e-12, pi = 3.14159265358979323846;

/* The divisors of the pairs' angles, all 1. */
static bool take_divisors(kn_fields *fields, kn_arena *arena, kn_folder_rope *rope) {
    rope->divisors = kn_arena_take(arena, (size_t)rope->pairs, sizeof *rope->divisors);
    if (!rope->divisors) return kn_model_no_memory(fields->model);
    rope->rotation.divisors = true;
    return true;
}

/* The wavelength of a pair, in positions. */
static double wavelength(const kn_folder_rope *rope, int64_t pair) {
    return 2 * pi * pow(rope->rotation.base, (double)pair / (double)rope->pairs);
}

static bool need_real(kn_fields *fields, const char *name, double low, double *value) {
    if (!kn_fields_find(fields, name)) return kn_fields_fail(fields, name, "a number");
    return kn_fields_real(fields, name, low, most, value);
}

static bool read_linear(kn_fields *fields, kn_arena *arena, kn_folder_rope *rope) {
    (void)arena;
    return need_real(fields, "factor", least, &rope->rotation.divisor);
}

/* Long waves are divided by a factor, short ones stay, and those in between are interpolated. */
static bool read_llama3(kn_fields *fields, kn_arena *arena, kn_folder_rope *rope) {
    double factor = 1, low = 1, high = 1;
    int64_t original = rope->context;
    if (!need_real(fields, "factor", least, &factor) || !need_real(fields, "low_freq_factor", least, &low) ||
        !need_real(fields, "high_freq_factor", least, &high) ||
        !kn_fields_whole(fields, "original_max_position_embeddings", 1, INT32_MAX, &original) ||
        !take_divisors(fields, arena, rope))
        return false;
    if (!(high > low)) return kn_fields_fail(fields, "high_freq_factor", "more than low_freq_factor");
    for (int64_t i = 0; i < rope->pairs; i++) {
        const double length = wavelength(rope, i);
        double share = ((double)original / length - low) / (high - low); /* of the undivided wave */
        share = share < 0 ? 0 : share > 1 ? 1 : share;
        rope->divisors[i] = (float)(1 / ((1 - share) / factor + share));
    }
    return true;
}

static const struct scaling {
    const char *type;
    bool (*read)(kn_fields *fields, kn_arena *arena, kn_folder_rope *rope);
} scalings[] = {{"default", NULL}, {"linear", read_linear}, {"llama3", read_llama3}};

static bool read_scaling(kn_fields *fields, kn_arena *arena, kn_folder_rope *rope) {
    static const char *const none[] = {NULL};
    const char *type = "default", *old = NULL;
    const bool renamed = !kn_fields_has(fields, "rope_type");
    double share = 1;
    if (!kn_fields_word(fields, "rope_type", &type) || !kn_fields_word(fields, "type", &old)) return false;
    if (renamed && old) type = old;
    if (!kn_fields_real(fields, "rope_theta", least, most, &rope->rotation.base) ||
        !kn_fields_real(fields, "partial_rotary_factor", least, 1, &share))
        return false;
    if (!(share >= 1)) return kn_fields_fail(fields, "partial_rotary_factor", "1");
    for (size_t i = 0; i < KN_COUNT_OF(scalings); i++)
        if (!strcmp(scalings[i].type, type))
            return (!scalings[i].read || scalings[i].read(fields, arena, rope)) &&
                   kn_fields_end(fields, none);
    return kn_fields_fail(fields, renamed ? "type" : "rope_type", "default, linear or llama3");
}

/* The rotations of some layers, if rope_parameters has them apart. */
static bool read_nested(kn_fields *fields, kn_arena *arena, const char *layers, kn_folder_rope *rope) {
    static const char *const known[] = {"full_attention", "sliding_attention", NULL};
    kn_fields inner;
    if (kn_fields_enter(fields, layers, &inner) && !read_scaling(&inner, arena, rope)) return false;
    return fields->model->error.status == KN_OK && kn_fields_end(fields, known);
}

/* Versions before 5 of the library have rope_theta in config.json, and the rest in rope_scaling. */
bool kn_folder_read_rope(kn_fields *config, kn_arena *arena, const char *layers, double usual,
                         kn_folder_rope *rope) {
    kn_fields fields;
    const bool old = kn_fields_find(config, "rope_scaling") != NULL;
    rope->rotation = (kn_language_rotation){.base = usual, .divisor = 1};
    if (!kn_fields_real(config, "rope_theta", least, most, &rope->rotation.base)) return false;
    if (!kn_fields_enter(config, old ? "rope_scaling" : "rope_parameters", &fields))
        return config->model->error.status == KN_OK;
    if (layers && !old && kn_fields_has(&fields, layers)) return read_nested(&fields, arena, layers, rope);
    return read_scaling(&fields, arena, rope);
}

bool kn_folder_read_local_rope(kn_fields *config, kn_arena *arena, const char *layers, double usual,
                               kn_folder_rope *rope) {
    kn_fields fields;
    rope->rotation = (kn_language_rotation){.base = usual, .divisor = 1};
    if (kn_fields_find(config, "rope_scaling") || !kn_fields_find(config, "rope_parameters")) return true;
    if (!kn_fields_enter(config, "rope_parameters", &fields)) return false;
    return !kn_fields_has(&fields, layers) || read_nested(&fields, arena, layers, rope);
}
