/* Conversion of array elements to other types. */
#ifndef KN_ARRAY_COPY_H
#define KN_ARRAY_COPY_H

#include "formats/formats.h"

/* Copies all elements as `dtype` to `data`, which has exactly their size: conversions to integers round to
 * nearest and saturate. */
kn_status kn_array_copy(const kn_array *array, kn_dtype dtype, void *data, size_t bytes);

#endif
