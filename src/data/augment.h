/* Samples changed at random: inside of the data room only. */
#ifndef KN_AUGMENT_H
#define KN_AUGMENT_H

#include "data/dataset_private.h"

/* Whether anything is to be changed. */
bool kn_augments(const kn_augmentation *how);
/* Whether samples of that kind can be; y NULL: there is none. */
kn_status kn_augment_check(const kn_augmentation *how, const kn_tensor_info *x, const kn_tensor_info *y,
                           kn_error *error);
/* Changes one sample as its key says; scratch is as large as the sample. */
void kn_augment(const kn_augmentation *how, const kn_tensor_info *info, uint64_t key, float *x, float *scratch);

#endif
