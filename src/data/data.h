/* Public to other modules, in addition to <koine/data.h>. */
#ifndef KN_DATA_H
#define KN_DATA_H

#include <koine/data.h>

#include "base/base.h"

/* The field that holds class indices, "y" by convention; false if there is none. */
bool kn_dataset_label_field(const kn_dataset *dataset, size_t *field);

/* Whether kn_loader_next would return without blocking. */
bool kn_loader_ready(kn_loader *loader);

#endif
