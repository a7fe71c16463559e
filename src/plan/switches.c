/* Parses the switches for tests and tuning: "matmul=tiled,invariant=recompute". */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "ops/ops.h"
#include "plan/plan_private.h"

/* The switches other than OPERATOR=KERNEL. */
static const struct {
    const char *word, *value;
    size_t offset;
    int number; /* the value to store: a bool or an enum */
    bool flag;  /* it is a bool */
} known[] = {
    {"images", "blocked", offsetof(kn_switches, blocked_images), true, true},
    {"invariant", "recompute", offsetof(kn_switches, recompute_invariant), true, true},
    {"statistics", "separate", offsetof(kn_switches, separate_statistics), true, true},
    {"packs", "separate", offsetof(kn_switches, separate_packs), true, true},
    {"products", "tf32", offsetof(kn_switches, tf32), true, true},
    {"launches", "separate", offsetof(kn_switches, separate_launches), true, true},
    {"launches", "cut", offsetof(kn_switches, cut_launches), true, true},
    {"producers", "fused", offsetof(kn_switches, producers), KN_PRODUCERS_FUSED, false},
    {"producers", "separate", offsetof(kn_switches, producers), KN_PRODUCERS_SEPARATE, false},
    {"tuning", "off", offsetof(kn_switches, tuning), KN_TUNING_OFF, false},
    {"tuning", "noted", offsetof(kn_switches, tuning), KN_TUNING_NOTED, false},
    {"programs", "file", offsetof(kn_switches, programs), KN_PROGRAMS_FILE, false},
    {"programs", "unsaved", offsetof(kn_switches, programs), KN_PROGRAMS_UNSAVED, false},
    {"programs", "none", offsetof(kn_switches, programs), KN_PROGRAMS_NONE, false},
};

static bool is_word(const char *word, const char *text, size_t length) {
    return strlen(word) == length && !strncmp(word, text, length);
}

static bool set_known(kn_switches *switches, const char *word, size_t length, const char *value,
                      size_t value_length) {
    for (size_t i = 0; i < KN_COUNT_OF(known); i++) {
        if (!is_word(known[i].word, word, length) || !is_word(known[i].value, value, value_length)) continue;
        char *place = (char *)switches + known[i].offset;
        const bool flag = true;
        if (known[i].flag)
            memcpy(place, &flag, sizeof flag);
        else
            memcpy(place, &known[i].number, sizeof known[i].number);
        return true;
    }
    return false;
}

static kn_status fail_word(const char *word, size_t length, kn_error *error) {
    char list[384] = "";
    for (size_t i = 0, used = 0; i < KN_COUNT_OF(known); i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s=%s, ", known[i].word, known[i].value);
    return kn_fail(error, KN_ERROR_NOT_FOUND,
                   "unknown switch '%.*s'; expected %stile=TILE, stored=TYPE, why=NODE, OPERATOR=KERNEL or "
                   "*=KERNEL",
                   (int)length, word, list);
}

/* "tile=NAME", a tile of matrix products. */
static kn_status set_tile(kn_switches *switches, const char *value, size_t length, kn_error *error) {
    char name[KN_TILE_NAME], list[256] = "";
    size_t used = 0;
    for (int tile = 1; kn_product_tile_name(tile, name); tile++) {
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", name);
        if (!is_word(name, value, length)) continue;
        switches->tile = tile;
        return KN_OK;
    }
    return kn_fail(error, KN_ERROR_NOT_FOUND, "unknown tile '%.*s'; expected one of %s", (int)length, value,
                   list);
}

/* "stored=TYPE", or "stored=TYPE/INPUTS/RESULTS" with bit masks. */
static kn_status set_stored(kn_switches *switches, const char *value, size_t length, kn_error *error) {
    char type[16];
    unsigned inputs = ~0u, results = ~0u;
    const size_t word = strcspn(value, "/,");
    const bool given = word < length;
    if (word < sizeof type) snprintf(type, sizeof type, "%.*s", (int)word, value);
    if (word >= sizeof type || !kn_dtype_parse(type, &switches->stored) || !kn_is_half(switches->stored) ||
        (given && sscanf(value + word, "/%u/%u", &inputs, &results) != 2))
        return kn_fail(
            error, KN_ERROR_NOT_FOUND,
            "unknown value '%.*s' of switch stored; expected float16 or bfloat16, or TYPE/INPUTS/RESULTS, "
            "where INPUTS and RESULTS are bit masks (1 for the first, 2 for the second, …)",
            (int)length, value);
    switches->stored_halves = (kn_halves){inputs, results};
    return KN_OK;
}

/* "why=NODE": explain the choice of this node's kernels. */
static kn_status set_why(kn_switches *switches, const char *value, size_t length, kn_error *error) {
    if (!length || length >= sizeof switches->why)
        return kn_fail(error, KN_ERROR_NOT_FOUND, "switch why names a node in 1 to %d bytes; got %zu",
                       (int)sizeof switches->why - 1, length);
    memcpy(switches->why, value, length);
    return KN_OK;
}

static const char *find_variant(const kn_operator *row, const char *name, size_t length) {
    for (int i = 0; i < row->variant_count; i++)
        if (is_word(row->variants[i].name, name, length)) return row->variants[i].name;
    return NULL;
}

static kn_status fail_variant(const kn_operator *row, const char *name, size_t length, kn_error *error) {
    char list[256] = "";
    for (int i = 0, used = 0; i < row->variant_count && used < (int)sizeof list; i++)
        used +=
            snprintf(list + used, sizeof list - (size_t)used, "%s%s", i ? ", " : "", row->variants[i].name);
    return kn_fail(error, KN_ERROR_NOT_FOUND, "%s has no kernel '%.*s'; it has %s", row->name, (int)length,
                   name, list[0] ? list : "none: its kernels are generated");
}

/* "*=NAME" or "OPERATOR=NAME". */
static kn_status force(kn_switches *switches, const char *word, size_t length, const char *value,
                       size_t value_length, kn_error *error) {
    const kn_operator *row = NULL;
    const char *variant = NULL;
    bool any = is_word("*", word, length);
    for (int i = 0; i < kn_operator_table_count && !variant && !row; i++) {
        if (any)
            variant = find_variant(kn_operator_table[i], value, value_length);
        else if (is_word(kn_operator_table[i]->name, word, length))
            row = kn_operator_table[i];
    }
    if (row) variant = find_variant(row, value, value_length);
    if (row && !variant) return fail_variant(row, value, value_length, error);
    if (any && !variant)
        return kn_fail(error, KN_ERROR_NOT_FOUND, "no operator has a kernel '%.*s'", (int)value_length,
                       value);
    if (!variant) return fail_word(word, (size_t)(value - word) + value_length, error);
    if (switches->forced_count == KN_FORCED_VARIANTS)
        return kn_fail(error, KN_ERROR_UNSUPPORTED, "at most %d kernels can be forced", KN_FORCED_VARIANTS);
    switches->forced[switches->forced_count].row = row;
    switches->forced[switches->forced_count++].variant = variant;
    return KN_OK;
}

kn_status kn_switches_parse(const char *text, kn_switches *switches, kn_error *error) {
    *switches = (kn_switches){.forced_count = 0};
    kn_status status = KN_OK;
    while (text && *text && status == KN_OK) {
        size_t all = strcspn(text, ",");
        const char *equals = memchr(text, '=', all);
        if (!equals) return fail_word(text, all, error);
        size_t length = (size_t)(equals - text), value_length = all - length - 1;
        if (is_word("tile", text, length))
            status = set_tile(switches, equals + 1, value_length, error);
        else if (is_word("why", text, length))
            status = set_why(switches, equals + 1, value_length, error);
        else if (is_word("stored", text, length))
            status = set_stored(switches, equals + 1, value_length, error);
        else if (!set_known(switches, text, length, equals + 1, value_length))
            status = force(switches, text, length, equals + 1, value_length, error);
        text += all + (text[all] == ',');
    }
    return status;
}
