/* The rotations of q and k in config.json. */
#include <math.h>
#include <string.h>

#include "exchange/huggingface/huggingface.h"

static const double most = 1e12, least = 1e-12, pi = 3.14159265358979323846;

/* The divisor of the angle of a pair that is not rotated: the angle is 0 in float32. */
static const float unrotated = 1e30f;

static bool take_divisors(kn_fields *fields, kn_arena *arena, kn_folder_rope *rope) {
    rope->divisors = kn_arena_take(arena, (size_t)rope->head / 2, sizeof *rope->divisors);
    if (!rope->divisors) return kn_model_no_memory(fields->model);
    rope->rotation.divisors = true;
    return true;
}

/* The divisor of positions for a pair without scaling. */
static double rate(const kn_folder_rope *rope, int64_t pair) {
    return pow(rope->rotation.base, (double)(2 * pair) / (double)rope->rotated);
}

static bool need_real(kn_fields *fields, const char *name, double low, double *value) {
    if (!kn_fields_find(fields, name)) return kn_fields_fail(fields, name, "a number");
    return kn_fields_real(fields, name, low, most, value);
}

/* The positions of the training before the context was extended; absent: those of the model. */
static bool read_original(kn_fields *fields, kn_folder_rope *rope) {
    return kn_fields_whole(fields, "original_max_position_embeddings", 2, INT32_MAX, &rope->original);
}

static bool read_linear(kn_fields *fields, kn_arena *arena, kn_folder_rope *rope) {
    (void)arena;
    return need_real(fields, "factor", least, &rope->rotation.divisor);
}

/* Long waves are divided by a factor, short ones stay, and those in between are interpolated. */
static bool read_llama3(kn_fields *fields, kn_arena *arena, kn_folder_rope *rope) {
    double factor = 1, low = 1, high = 1;
    if (!need_real(fields, "factor", least, &factor) || !need_real(fields, "low_freq_factor", least, &low) ||
        !need_real(fields, "high_freq_factor", least, &high) || !read_original(fields, rope) ||
        !take_divisors(fields, arena, rope))
        return false;
    if (!(high > low)) return kn_fields_fail(fields, "high_freq_factor", "more than low_freq_factor");
    for (int64_t i = 0; i < rope->rotated / 2; i++) {
        const double length = 2 * pi * rate(rope, i);
        double share = ((double)rope->original / length - low) / (high - low); /* of the undivided wave */
        share = share < 0 ? 0 : share > 1 ? 1 : share;
        rope->divisors[i] = (float)(1 / ((1 - share) / factor + share));
    }
    return true;
}

static double grown(double factor, double scale) {
    return factor > 1 ? 0.1 * scale * log(factor) + 1 : 1;
}

/* The pair that turns this often within the original positions. */
static double pair_of(const kn_folder_rope *rope, double turns) {
    return (double)rope->rotated * log((double)rope->original / (turns * 2 * pi)) /
           (2 * log(rope->rotation.base));
}

static bool read_yarn(kn_fields *fields, kn_arena *arena, kn_folder_rope *rope) {
    double factor = 1, fast = 32, slow = 1, scale = 0, all = 0, given = 0;
    bool truncate = true;
    if (!need_real(fields, "factor", least, &factor) ||
        !kn_fields_real(fields, "beta_fast", least, most, &fast) ||
        !kn_fields_real(fields, "beta_slow", least, most, &slow) ||
        !kn_fields_real(fields, "mscale", 0, most, &scale) ||
        !kn_fields_real(fields, "mscale_all_dim", 0, most, &all) ||
        !kn_fields_real(fields, "attention_factor", least, most, &given) ||
        !kn_fields_flag(fields, "truncate", &truncate) || !read_original(fields, rope) ||
        !take_divisors(fields, arena, rope))
        return false;
    if (!(rope->rotation.base > 1)) return kn_fields_fail(fields, "rope_theta", "more than 1");
    double low = pair_of(rope, fast), high = pair_of(rope, slow);
    if (truncate) low = floor(low), high = ceil(high);
    low = low < 0 ? 0 : low;
    high = high > (double)(rope->rotated - 1) ? (double)(rope->rotated - 1) : high;
    if (low == high) high += 0.001;
    for (int64_t i = 0; i < rope->rotated / 2; i++) {
        double share = ((double)i - low) / (high - low); /* of the wave that is divided */
        share = share < 0 ? 0 : share > 1 ? 1 : share;
        rope->divisors[i] = (float)(1 / (share / factor + 1 - share));
    }
    rope->factor = given > 0              ? given
                   : scale > 0 && all > 0 ? grown(factor, scale) / grown(factor, all)
                                          : grown(factor, 1);
    return true;
}

/* Texts up to the original length have the short factors, longer ones the long factors. So the window must
 * not be longer. */
static bool limit_window(kn_fields *fields, kn_folder_rope *rope) {
    const kn_model_params *params = &fields->model->params;
    if (rope->context > rope->original) rope->context = rope->original;
    for (size_t i = 0; i < params->setting_count; i++)
        if (params->settings[i].name && !strcmp(params->settings[i].name, "window") &&
            params->settings[i].value > rope->original) {
            kn_fail(&fields->model->error, KN_ERROR_UNSUPPORTED,
                    "%s: a window of %lld is longer than "
                    "original_max_position_embeddings, %lld; longer texts "
                    "with longrope are not supported",
                    fields->file, (long long)params->settings[i].value, (long long)rope->original);
            return false;
        }
    return true;
}

static bool read_longrope(kn_fields *fields, kn_arena *arena, kn_folder_rope *rope) {
    const char *expected = "a number above 0 for each rotated pair";
    const int64_t context = rope->context;
    double factor = 0, given = 0;
    const kn_json *list = kn_fields_find(fields, "short_factor");
    kn_fields_find(fields, "long_factor"); /* only for longer texts */
    if (!kn_fields_real(fields, "factor", least, most, &factor) ||
        !kn_fields_real(fields, "attention_factor", least, most, &given) || !read_original(fields, rope) ||
        !limit_window(fields, rope) || !take_divisors(fields, arena, rope))
        return false;
    if (!list || list->kind != KN_JSON_ARRAY || list->count != (size_t)rope->rotated / 2)
        return kn_fields_fail(fields, "short_factor", expected);
    int64_t i = 0;
    for (const kn_json *item = list->first; item; item = item->next, i++) {
        if (item->kind != KN_JSON_NUMBER || !(item->number >= least && item->number <= most))
            return kn_fields_fail(fields, "short_factor", expected);
        rope->divisors[i] = (float)item->number;
    }
    if (!(factor > 0)) factor = (double)context / (double)rope->original;
    rope->factor = given > 0 ? given : factor > 1 ? sqrt(1 + log(factor) / log((double)rope->original)) : 1;
    return true;
}

static const struct scaling {
    const char *type;
    bool (*read)(kn_fields *fields, kn_arena *arena, kn_folder_rope *rope);
} scalings[] = {{"default", NULL},   {"linear", read_linear},     {"llama3", read_llama3},
                {"yarn", read_yarn}, {"longrope", read_longrope}, {"su", read_longrope}};

/* The member's name depends on the architecture. */
static bool refuse_share(const kn_fields *fields, const kn_folder_rope *rope, const char *expected) {
    kn_fail(&fields->model->error, KN_ERROR_UNSUPPORTED,
            "%s: %g of a head of %lld elements is rotated (partial_rotary_factor, rotary_pct); expected %s",
            fields->file, rope->share, (long long)rope->head, expected);
    return false;
}

/* Only the first elements of a head are rotated: the text rotates whole heads, with divisors. */
static bool expand(kn_fields *fields, kn_arena *arena, kn_folder_rope *rope) {
    const bool divided = rope->divisors != NULL;
    if (rope->rotated == rope->head) return true;
    if (!divided && !take_divisors(fields, arena, rope)) return false;
    for (int64_t i = 0; i < rope->head / 2; i++)
        rope->divisors[i] =
            i >= rope->rotated / 2
                ? unrotated
                : (float)((divided ? (double)rope->divisors[i] : 1) * rate(rope, i) * rope->rotation.divisor);
    rope->rotation.base = rope->rotation.divisor = 1;
    return true;
}

static bool check_share(const kn_fields *fields, const kn_folder_rope *rope) {
    if (rope->rotated != rope->head && !rope->partial) return refuse_share(fields, rope, "1");
    return (rope->rotated >= 2 && rope->rotated % 2 == 0) ||
           refuse_share(fields, rope, "a share with an even number of elements");
}

static bool read_scaling(kn_fields *fields, kn_arena *arena, kn_folder_rope *rope) {
    static const char *const none[] = {NULL};
    const char *type = "default", *old = NULL;
    const bool renamed = !kn_fields_has(fields, "rope_type");
    const struct scaling *scaling = NULL;
    if (!kn_fields_word(fields, "rope_type", &type) || !kn_fields_word(fields, "type", &old)) return false;
    if (renamed && old) type = old;
    if (!kn_fields_real(fields, "rope_theta", least, most, &rope->rotation.base) ||
        !kn_fields_real(fields, "partial_rotary_factor", least, 1, &rope->share))
        return false;
    rope->rotated = (int64_t)((double)rope->head * rope->share);
    if (!check_share(fields, rope)) return false;
    for (size_t i = 0; i < KN_COUNT_OF(scalings); i++)
        if (!strcmp(scalings[i].type, type)) scaling = &scalings[i];
    if (!scaling)
        return kn_fields_fail(fields, renamed ? "type" : "rope_type",
                              "default, linear, llama3, yarn or longrope");
    return (!scaling->read || scaling->read(fields, arena, rope)) && kn_fields_end(fields, none) &&
           expand(fields, arena, rope);
}

/* The rotations of some layers, if rope_parameters has separate members. */
static bool read_nested(kn_fields *fields, kn_arena *arena, const char *layers, kn_folder_rope *rope) {
    static const char *const known[] = {"full_attention", "sliding_attention", NULL};
    kn_fields inner;
    if (kn_fields_enter(fields, layers, &inner) && !read_scaling(&inner, arena, rope)) return false;
    return fields->model->error.status == KN_OK && kn_fields_end(fields, known);
}

static void begin(kn_folder_rope *rope, double base) {
    rope->rotation = (kn_language_rotation){.base = base, .divisor = 1};
    rope->factor = 1;
    rope->rotated = rope->head;
    if (!rope->original) rope->original = rope->context;
    if (!(rope->share > 0)) rope->share = 1;
}

/* Versions before 5 of the library have rope_theta in config.json, and the rest in rope_scaling. */
bool kn_folder_read_rope(kn_fields *config, kn_arena *arena, const char *layers, double usual,
                         kn_folder_rope *rope) {
    static const kn_json nothing = {.kind = KN_JSON_OBJECT};
    kn_fields fields;
    const bool old = kn_fields_find(config, "rope_scaling") != NULL;
    begin(rope, usual);
    if (!kn_fields_real(config, "rope_theta", least, most, &rope->rotation.base) ||
        !kn_fields_real(config, "partial_rotary_factor", least, 1, &rope->share))
        return false;
    if (!kn_fields_enter(config, old ? "rope_scaling" : "rope_parameters", &fields))
        return config->model->error.status == KN_OK &&
               kn_fields_begin(&fields, config->model, config->file, "", &nothing) &&
               read_scaling(&fields, arena, rope);
    if (layers && !old && kn_fields_has(&fields, layers)) return read_nested(&fields, arena, layers, rope);
    return read_scaling(&fields, arena, rope);
}

bool kn_folder_read_local_rope(kn_fields *config, kn_arena *arena, const char *layers, double usual,
                               kn_folder_rope *rope) {
    kn_fields fields;
    begin(rope, usual);
    if (kn_fields_find(config, "rope_scaling") || !kn_fields_find(config, "rope_parameters")) return true;
    if (!kn_fields_enter(config, "rope_parameters", &fields)) return false;
    return !kn_fields_has(&fields, layers) || read_nested(&fields, arena, layers, rope);
}

void kn_folder_take_rope(const kn_folder_rope *rope, kn_folder *folder, kn_language *language) {
    language->rotation = language->sliding_rotation = rope->rotation;
    language->context = rope->context;
    folder->divisors = rope->divisors;
    folder->divisor_count = rope->head / 2;
    folder->head = rope->head;
    folder->rotated = rope->rotated == rope->head ? 0 : rope->rotated;
    folder->factor = folder->rotated ? rope->factor : 1; /* unrotated elements do not have it */
    if (rope->factor == 1 || folder->rotated) return;
    /* Sines and cosines of both q and k have the factor. */
    if (!(language->scale > 0)) language->scale = 1 / sqrt((double)language->head);
    language->scale *= rope->factor * rope->factor;
}
