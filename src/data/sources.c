/* The table of sources that can be opened by name. The row of each source, with its help, is in its file. */
#include "data/dataset_private.h"

#include <stdio.h>
#include <string.h>

/* In the order of the help. Several sources may have one name: the first that accepts the text after the name
 * is used. */
/* clang-format off */
#define SOURCES(X)                                                                                           \
    X(digits) X(shapes) X(figures) X(wind) X(sentences) X(tones) X(text) X(chat) X(jsonl) X(csv) X(images)   \
    X(wav) X(idx) X(cifar10) X(cifar100) X(npy) X(npz)
/* clang-format on */

#define DECLARE(source) extern const kn_source_row kn_data_source_##source;
SOURCES(DECLARE)

#define POINTER(source) &kn_data_source_##source,
static const kn_source_row *const sources[] = {SOURCES(POINTER)};

size_t kn_data_source_count(void) {
    return KN_COUNT_OF(sources);
}

const char *kn_data_source_usage_at(size_t position) {
    return position < kn_data_source_count() ? sources[position]->usage : NULL;
}

const char *kn_data_source_about_at(size_t position) {
    return position < kn_data_source_count() ? sources[position]->text : NULL;
}

static kn_status fail_unknown(kn_error *error, const char *spec, size_t length) {
    const char *names[KN_COUNT_OF(sources)];
    char word[32] = "", list[500] = "";
    if (length < sizeof word) memcpy(word, spec, length);
    for (size_t i = 0; i < KN_COUNT_OF(sources); i++) {
        names[i] = sources[i]->name;
        size_t used = strlen(list), usage = strcspn(sources[i]->usage, "[");
        snprintf(list + used, sizeof list - used, "%s%.*s",
                 i == 0                          ? ""
                 : i + 1 == KN_COUNT_OF(sources) ? " or "
                                                 : ", ",
                 (int)usage, sources[i]->usage);
    }
    const char *near = kn_nearest_word(word, names, KN_COUNT_OF(names));
    return kn_fail(error, KN_ERROR_ARGUMENT, "data \"%s\": expected %s%s%s%s", spec, list,
                   near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
}

kn_status kn_source_open(kn_dataset *dataset, const char *spec, const kn_source_options *options) {
    size_t length = strcspn(spec, ":,");
    const char *rest = spec + length;
    for (size_t i = 0; i < KN_COUNT_OF(sources); i++) {
        const kn_source_row *row = sources[i];
        if (strlen(row->name) != length || memcmp(row->name, spec, length) != 0) continue;
        if (row->made && rest[0] != ',')
            return kn_source_made(dataset, row->made, rest[0] ? rest + 1 : NULL, options);
        if (row->open && (row->path_optional || rest[0] == ':')) return row->open(dataset, rest, options);
    }
    return fail_unknown(&dataset->error, spec, length);
}
