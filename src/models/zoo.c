/* The zoo: named models, as texts in the library. To add a model, add a file in zoo/. */
#include <string.h>

#include "models/models_private.h"

size_t kn_zoo_count(void) {
    return kn_zoo_file_count;
}

const char *kn_zoo_name_at(size_t position) {
    return position < kn_zoo_count() ? kn_zoo_files[position].name : NULL;
}

const char *kn_zoo_text_at(size_t position) {
    return position < kn_zoo_count() ? (const char *)kn_zoo_files[position].bytes : NULL;
}

int kn_zoo_find(const char *name) {
    size_t length = strcspn(name, ",");
    for (size_t i = 0; i < kn_zoo_count(); i++)
        if (strlen(kn_zoo_files[i].name) == length && !memcmp(kn_zoo_files[i].name, name, length)) return i;
    return -1;
}
