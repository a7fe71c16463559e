/* Finds attributes of a row by name. */
#include "ops/row.h"

#include <stdio.h>
#include <string.h>

const char *kn_row_no_attribute(const kn_operator *row, const char *name, char *text, size_t room) {
    int used = snprintf(text, room, "no attribute '%s'; it has %s", name, row->attribute_count ? "" : "none");
    for (int i = 0; i < row->attribute_count && used >= 0 && (size_t)used < room; i++)
        used += snprintf(text + used, room - (size_t)used, "%s'%s'", i ? ", " : "", row->attributes[i].name);
    return text;
}

kn_attribute_value *kn_row_attribute(const kn_operator *row, kn_attribute_value *values, const char *name) {
    for (int i = 0; i < row->attribute_count && i < KN_MAX_ATTRIBUTES; i++)
        if (!strcmp(row->attributes[i].name, name)) return &values[i];
    return NULL;
}
