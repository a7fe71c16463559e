/* Selects a device: by index, platform and index, type or name; otherwise the fastest. */
#include <stdio.h>
#include <string.h>

#include "device/device_private.h"

static const char speed_key[] = "matmul_gflops";

static bool same_word(const char *left, const char *right) {
    for (; *left && *right; left++, right++)
        if (kn_lower(*left) != kn_lower(*right)) return false;
    return *left == *right;
}

static bool contains(const char *text, const char *part) {
    for (; *text; text++) {
        size_t i = 0;
        while (part[i] && kn_lower(text[i]) == kn_lower(part[i]))
            i++;
        if (!part[i]) return true;
    }
    return false;
}

static const char *type_name(kn_device_type type) {
    return type == KN_DEVICE_CPU ? "cpu" : type == KN_DEVICE_GPU ? "gpu" : "accelerator";
}

/* "3" is index 3, "1:0" is platform 1 and device 0; -1 for missing parts. */
static bool parse_numbers(const char *wanted, int64_t *platform, int64_t *index) {
    const char *end;
    *platform = -1;
    if (!kn_is_digit(wanted[0]) || !kn_parse_int64(wanted, &end, index)) return false;
    if (*end == ':') {
        *platform = *index;
        if (!kn_is_digit(end[1]) || !kn_parse_int64(end + 1, &end, index)) return false;
    }
    return *end == '\0';
}

static bool matches(const kn_device_info *info, const char *wanted) {
    int64_t platform, index;
    if (!wanted[0]) return true;
    if (parse_numbers(wanted, &platform, &index))
        return platform < 0 ? info->index == index
                            : info->platform_index == platform && info->device_index == index;
    for (int type = KN_DEVICE_CPU; type <= KN_DEVICE_ACCELERATOR; type++)
        if (same_word(wanted, type_name((kn_device_type)type)))
            return (int)info->type == type && (info->index >= 0 || info->name[0]);
    /* Includes the version, where PoCL reports the device's common name. */
    return contains(info->name, wanted) || contains(info->vendor, wanted) ||
           contains(info->platform, wanted) || contains(info->version, wanted);
}

/* A readable name for an entry. */
static const char *shown_name(const kn_device_info *info) {
    return info->name[0] ? info->name : info->platform[0] ? info->platform : "OpenCL";
}

static void fail_none(const kn_device_list *list, const char *wanted, kn_error *error) {
    kn_text text;
    kn_text_init(&text, &list->host);
    const char *separator = "";
    for (int i = 0; i < list->count; i++) {
        const kn_device_info *info = &list->entries[i].info;
        if (wanted[0] && !info->usable) continue;
        if (info->usable)
            kn_text_format(&text, "%s%d: %s (%s, %s)", separator, info->index, info->name,
                           type_name(info->type), info->platform);
        else
            kn_text_format(&text, "%s%s: %s", separator, shown_name(info), info->problem);
        separator = "; ";
    }
    const bool none = kn_text_failed(&text) || !text.data[0];
    const char *others = none ? "nothing" : text.data;
    if (wanted[0])
        kn_fail(error, KN_ERROR_NO_DEVICE,
                "no OpenCL device matches \"%s\"; expected an index, platform:device, a type (cpu, gpu, "
                "accelerator) or a part of a name; usable here: %s%s",
                wanted, others, none ? " (run koine doctor for advice)" : "");
    else
        kn_fail(error, KN_ERROR_NO_DEVICE, "no usable OpenCL device (run koine doctor for advice); found: %s",
                others);
    kn_text_finish(&text);
}

/* Opens the verdicts of an entry without opening the device; the caller closes them. */
static bool open_verdicts(const kn_device_list *list, int position, const kn_context_params *params,
                          kn_verdicts *verdicts) {
    char identity[1024];
    kn_found_identity(&list->entries[position], identity, sizeof identity);
    return kn_verdicts_open(verdicts, &list->host, params->cache_folder, identity);
}

/* GFLOP/s of an entry: from the cache, or measured on a temporary context. */
static double speed_of(const kn_device_list *list, int position, const kn_context_params *params) {
    const kn_found_device *found = &list->entries[position];
    const kn_host *host = &list->host;
    kn_verdicts known;
    double speed = 0;
    if (!open_verdicts(list, position, params, &known)) return 0;
    bool remembered = kn_verdicts_get(&known, speed_key, &speed),
         deadly = kn_verdicts_deadly(&known, speed_key);
    kn_verdicts_close(&known);
    if (deadly)
        kn_log_write(host, KN_LOG_WARNING,
                     "%s counts as the slowest: a program ended, or was killed, while measuring it",
                     found->info.name);
    if (remembered || deadly) return speed;
    kn_context *context = kn_context_prepare(host, params);
    if (context && kn_context_open(context, found, NULL, NULL) == KN_OK) {
        kn_attempt attempt;
        kn_attempt_begin(context, &attempt, speed_key);
        if (kn_context_measure(context, &speed)) kn_verdict_put(context, speed_key, speed);
        kn_attempt_end(context, &attempt);
        kn_log_write(host, KN_LOG_INFO, "%s: about %d GFLOP/s in a short matrix product", found->info.name,
                     (int)(speed + 0.5));
    }
    kn_context_destroy(&context);
    return speed;
}

static bool is_same_gpu(const kn_found_device *left, const kn_found_device *right) {
    return left->platform != right->platform && left->pci[0] && !strcmp(left->pci, right->pci);
}

/* The matrix unit of an entry for 16-bit floats: from the cache, or tried on a temporary context. */
static kn_matrix_unit unit_of(const kn_device_list *list, int position, const kn_context_params *params) {
    kn_matrix_unit unit = KN_MATRIX_UNIT_NONE;
    kn_verdicts verdicts;
    kn_context *context = kn_context_prepare(&list->host, params);
    bool stored = false;
    if (context && open_verdicts(list, position, params, &verdicts)) {
        stored = kn_matrix_unit_stored(context, &verdicts, &unit);
        kn_verdicts_close(&verdicts);
    }
    if (context && !stored && kn_context_open(context, &list->entries[position], NULL, NULL) == KN_OK) {
        unit = kn_context_matrix_unit_for(context, KN_FLOAT16);
        if (!unit) unit = kn_context_matrix_unit_for(context, KN_BFLOAT16);
    }
    kn_context_destroy(&context);
    return unit;
}

/* Of two drivers for one GPU, prefers the one whose compiler has the matrix unit, else the faster one, which
 * is `best`. Returns the other's position or `best`. */
static int prefer_driver(const kn_device_list *list, int best, int other, const kn_context_params *params) {
    const kn_matrix_unit unit = unit_of(list, best, params), others = unit_of(list, other, params);
    const bool better = others && !unit && speed_of(list, other, params) > 0;
    const kn_device_info *used = &list->entries[better ? other : best].info,
                         *left = &list->entries[better ? best : other].info;
    const bool has = better || (unit && !others);
    kn_log_write(&list->host, KN_LOG_INFO, "%s: of its drivers %s and %s, %s is used: %s%s", used->name,
                 used->platform, left->platform, used->platform,
                 has ? "it has the matrix unit " : "it was faster in a matrix product",
                 has ? kn_matrix_unit_name(better ? others : unit) : "");
    return better ? other : best;
}

int kn_device_select(const kn_device_list *list, const char *wanted, const kn_context_params *params,
                     kn_error *error) {
    int usable = 0, only = -1, unusable = -1;
    if (!wanted) wanted = "";
    for (int i = 0; i < list->count; i++) {
        if (!matches(&list->entries[i].info, wanted)) continue;
        if (list->entries[i].info.usable) {
            only = i;
            usable++;
        } else if (unusable < 0) {
            unusable = i;
        }
    }
    if (usable == 1) return only;
    if (usable == 0) {
        if (wanted[0] && unusable >= 0)
            kn_fail(error, KN_ERROR_NO_DEVICE,
                    "\"%s\" selects %s, which cannot be used (run koine doctor for advice): %s", wanted,
                    shown_name(&list->entries[unusable].info), list->entries[unusable].info.problem);
        else
            fail_none(list, wanted, error);
        return -1;
    }
    int best = -1;
    double best_speed = -1;
    for (int i = 0; i < list->count; i++) {
        const kn_device_info *info = &list->entries[i].info;
        if (!info->usable || !matches(info, wanted)) continue;
        double speed = speed_of(list, i, params);
        if (speed > best_speed) {
            best = i;
            best_speed = speed;
        }
    }
    for (int i = 0, fastest = best; i < list->count; i++)
        if (i != fastest && list->entries[i].info.usable && matches(&list->entries[i].info, wanted) &&
            is_same_gpu(&list->entries[fastest], &list->entries[i]))
            best = prefer_driver(list, best, i, params);
    return best;
}
