/* Checkpoints: a folder of training states, from which an interrupted training run resumes.
 *
 *   step-000000000120.safetensors   what kn_model_save writes with `training`, after that many steps
 *   best.safetensors                the same, with the best validation result so far
 *
 *     kn_checkpoints *checkpoints = kn_checkpoints_open("runs/one", NULL);
 *     const char *newest = kn_checkpoints_newest(checkpoints);
 *     kn_model_load_params all = KN_MODEL_LOAD_DEFAULTS;
 *     all.training = true;
 *     if (newest && kn_model_load(model, newest, states, &all, NULL) != KN_OK)
 *         fprintf(stderr, "%s\n", kn_model_error(model));
 *     kn_checkpoints_destroy(&checkpoints);
 *
 * Files are written atomically and carry a checksum. Only one program at a time may write to such a folder.
 *
 * Ownership: the caller destroys what it opened. Functions that create return NULL only when out of memory,
 * otherwise a handle that may carry an error. Every function accepts NULL. Thread-safety: a folder belongs to
 * one thread at a time. */
#ifndef KOINE_CHECKPOINT_H
#define KOINE_CHECKPOINT_H

#include <koine/model.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kn_checkpoints kn_checkpoints;

typedef struct kn_checkpoints_params {
    size_t size;
    kn_allocator allocator;
    kn_logger log;
    uint64_t keep; /* 3: how many of the newest to keep, besides the best; 0: all */
} kn_checkpoints_params;
#define KN_CHECKPOINTS_DEFAULTS KN_DEFAULTS(kn_checkpoints_params, KN_FIELD(keep, 3))
KN_API void kn_checkpoints_params_init(kn_checkpoints_params *params);

/* Opens a folder, which is created if missing, and removes partial files that killed programs left. A folder
 * that cannot be written is an error. */
KN_API KN_NODISCARD kn_checkpoints *kn_checkpoints_open(const char *folder,
                                                        const kn_checkpoints_params *params);
KN_API void kn_checkpoints_destroy(kn_checkpoints **checkpoints);
/* KN_OK if the folder can be used. NULL gives KN_ERROR_MEMORY. */
KN_API kn_status kn_checkpoints_status(const kn_checkpoints *checkpoints);
/* The last error message; "" if none. Valid until the next call on this handle. */
KN_API const char *kn_checkpoints_error(const kn_checkpoints *checkpoints);
/* Number of checkpoints, not counting the best. */
KN_API size_t kn_checkpoints_count(const kn_checkpoints *checkpoints);

/* The path of the newest intact checkpoint, for kn_model_load; NULL if there is none. A damaged one is
 * reported as a warning and renamed with the suffix ".damaged"; then the one before it is tried, and finally
 * the best. The string lives until the next call on this handle. */
KN_API const char *kn_checkpoints_newest(kn_checkpoints *checkpoints);
/* The path of the best checkpoint, if it exists and is intact, or NULL; same lifetime. */
KN_API const char *kn_checkpoints_best(kn_checkpoints *checkpoints);

/* Writes the states after `step` steps, with `pairs` as metadata, then removes the oldest beyond `keep`. If
 * it fails, the earlier checkpoints are still there. Waits for the device. */
KN_API KN_NODISCARD kn_status kn_checkpoints_save(kn_checkpoints *checkpoints, kn_model *model,
                                                  kn_states *states, uint64_t step,
                                                  const kn_model_pair *pairs, size_t pair_count);
/* Writes the states as the best checkpoint. */
KN_API KN_NODISCARD kn_status kn_checkpoints_save_best(kn_checkpoints *checkpoints, kn_model *model,
                                                       kn_states *states, const kn_model_pair *pairs,
                                                       size_t pair_count);

#ifdef __cplusplus
}
#endif
#endif
