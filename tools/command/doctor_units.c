/* Matrix unit data types of a device, for koine doctor. */
#include <stdio.h>

#include <koine/context.h>

#include "doctor.h"

void doctor_units(kn_context *context, char text[DOCTOR_UNITS]) {
    static const struct {
        kn_dtype type;
        const char *name;
    } asked[] = {{KN_FLOAT16, "float16"},
                 {KN_BFLOAT16, "bfloat16"},
                 {KN_FLOAT32, "tf32"},
                 {KN_INT8, "8-bit integers"}};
    enum { TYPES = sizeof asked / sizeof *asked };
    const char *names[TYPES];
    kn_matrix_unit unit = KN_MATRIX_UNIT_NONE;
    int count = 0;
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < TYPES; i++) {
        const kn_matrix_unit found = kn_context_matrix_unit_for(context, asked[i].type);
        if (found) names[count++] = asked[i].name;
        if (!unit) unit = found;
    }
    for (int i = 0; i < count && used < DOCTOR_UNITS; i++)
        used += (size_t)snprintf(text + used, DOCTOR_UNITS - used, "%s%s",
                                 i == 0          ? ", and multiplies "
                                 : i + 1 < count ? ", "
                                                 : " and ",
                                 names[i]);
    if (count && used < DOCTOR_UNITS)
        snprintf(text + used, DOCTOR_UNITS - used, " by the matrix unit %s", kn_matrix_unit_name(unit));
}
