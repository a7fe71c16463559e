/* Random changes of samples. Private to the data module. */
#ifndef KN_AUGMENT_H
#define KN_AUGMENT_H

#include "data/dataset_private.h"

/* ---- per sample (augment.c) ------------------------------------------------------------------- */

/* Whether anything would be changed. */
bool kn_augments(const kn_augmentation *how);
/* Checks that samples of this kind can be changed this way; y NULL: there is no target. */
kn_status kn_augment_check(const kn_augmentation *how, const kn_tensor_info *x, const kn_tensor_info *y,
                           kn_error *error);
/* Changes one sample, of float32 or of bytes (kn_augmentation_keeps_bytes), as its key determines; scratch
 * has the size of the sample. */
void kn_augment(const kn_augmentation *how, const kn_tensor_info *info, uint64_t key, bool as_bytes,
                void *sample, void *scratch);

/* ---- between samples of a batch (mix.c) --------------------------------------------------------- */

/* Whether samples would be mixed. */
bool kn_mixes(const kn_augmentation *how);
/* Checks that samples of this kind can be mixed; classes: each sample has one. */
kn_status kn_mix_check(const kn_augmentation *how, const kn_tensor_info *x, bool classes, kn_error *error);

/* A batch of samples and the fields that mixing adds. */
typedef struct kn_mixture {
    float *x;           /* (count, sample shape) */
    const int32_t *y;   /* (count) */
    int32_t *other;     /* (count): the partners' classes */
    float *fraction;    /* (count): the fraction that each sample keeps of itself */
    float *plain;       /* as large as x, for the unmixed samples */
    uint32_t *partners; /* (count) */
} kn_mixture;
/* Mixes a batch as its key determines, changing x. A sample whose partner is itself stays unchanged. */
void kn_mix(const kn_augmentation *how, const kn_tensor_info *info, uint64_t key, uint64_t count,
            kn_mixture *batch);
/* From 0 to 1, distributed as Beta(a, a), with a above 0. */
double kn_random_beta(uint64_t key, double a);

#endif
