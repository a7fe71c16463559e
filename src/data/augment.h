/* Samples changed at random: inside of the data room only. */
#ifndef KN_AUGMENT_H
#define KN_AUGMENT_H

#include "data/dataset_private.h"

/* ---- each by itself (augment.c) --------------------------------------------------------------- */

/* Whether anything is to be changed. */
bool kn_augments(const kn_augmentation *how);
/* Whether samples of that kind can be; y NULL: there is none. */
kn_status kn_augment_check(const kn_augmentation *how, const kn_tensor_info *x, const kn_tensor_info *y,
                           kn_error *error);
/* Changes one sample as its key says; scratch is as large as the sample. */
void kn_augment(const kn_augmentation *how, const kn_tensor_info *info, uint64_t key, float *x,
                float *scratch);

/* ---- with another one of the batch (mix.c) ---------------------------------------------------- */

/* Whether samples are to be mixed. */
bool kn_mixes(const kn_augmentation *how);
/* Whether samples of that kind can be; classes: each has one. */
kn_status kn_mix_check(const kn_augmentation *how, const kn_tensor_info *x, bool classes, kn_error *error);

/* A batch of samples, and what mixing adds to it. */
typedef struct kn_mixture {
    float *x;           /* (count, the shape of a sample) */
    const int32_t *y;   /* (count) */
    int32_t *other;     /* (count): the classes of the partners */
    float *share;       /* (count): of a sample that is its own */
    float *plain;       /* as large as x, for the samples as they were */
    uint32_t *partners; /* (count) */
} kn_mixture;
/* Mixes a batch as its key says; x is changed. A sample whose partner it is itself stays as it is. */
void kn_mix(const kn_augmentation *how, const kn_tensor_info *info, uint64_t key, uint64_t count,
            kn_mixture *batch);
/* From 0 to 1, distributed as Beta(a, a), a above 0. */
double kn_random_beta(uint64_t key, double a);

#endif
