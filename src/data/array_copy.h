/* Elements of arrays as other types. */
#ifndef KN_ARRAY_COPY_H
#define KN_ARRAY_COPY_H

#include "formats/formats.h"

/* Copies all elements as `dtype` to `data`, which has just their room: numbers are rounded to nearest for
 * integers and cut to their range. */
kn_status kn_array_copy(const kn_array *array, kn_dtype dtype, void *data, size_t bytes);

#endif
