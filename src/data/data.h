/* The door of the data room: what rooms above see of datasets beyond <koine/data.h>. */
#ifndef KN_DATA_H
#define KN_DATA_H

#include <koine/data.h>

#include "base/base.h"

/* The field that holds class indices, "y" by convention; false if there is none. */
bool kn_dataset_label_field(const kn_dataset *dataset, size_t *field);

/* Whether kn_loader_next would answer without waiting. */
bool kn_loader_ready(kn_loader *loader);

#endif
