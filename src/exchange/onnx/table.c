/* The table of ONNX operators: one list per family. */
#include "exchange/onnx/import.h"

#define SEARCH(family)                                                                                       \
    for (int i = 0; i < kn_import_##family##_count; i++)                                                     \
        if (is_row(&kn_import_##family[i], domain, type)) return &kn_import_##family[i];

#define SEARCH_OP(family)                                                                                    \
    for (int i = 0; i < kn_import_##family##_count; i++)                                                     \
        if (kn_import_##family[i].op && !strcmp(kn_import_##family[i].op, op)) return &kn_import_##family[i];

static bool is_row(const kn_import_row *row, const char *domain, const char *type) {
    return !strcmp(row->type, type) && !strcmp(row->domain ? row->domain : "", domain);
}

const kn_import_row *kn_import_find(const char *domain, const char *type) {
    KN_IMPORT_FAMILIES(SEARCH)
    return NULL;
}

const kn_import_row *kn_import_find_op(const char *op) {
    KN_IMPORT_FAMILIES(SEARCH_OP)
    return NULL;
}
