/* Checkpoints: a folder with files of a training on its way, so that whatever ends it, it goes on from the
 * last.
 *
 *     step-000000000120.safetensors   what kn_model_save writes with `training`, after so many steps
 *     best.safetensors                the same, of the best judgement so far
 *
 * Files are written whole or not at all and carry a checksum. One program at a time writes into such a
 * folder.
 *
 * Ownership: the caller destroys what it opened. Functions that create answer NULL only when out of memory,
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
    uint64_t keep; /* 3: the newest so many stay, beside the best; 0: all stay */
} kn_checkpoints_params;
#define KN_CHECKPOINTS_DEFAULTS                                                                              \
    { sizeof(kn_checkpoints_params), {0, 0}, {0, KN_LOG_ERROR, 0}, 3 }
KN_API void kn_checkpoints_params_init(kn_checkpoints_params *params);

/* Opens a folder, which is made if there is none, and removes what killed programs left half written in it. A
 * folder in which nothing can be written is an error. */
KN_API kn_checkpoints *kn_checkpoints_open(const char *folder, const kn_checkpoints_params *params);
KN_API void kn_checkpoints_destroy(kn_checkpoints **checkpoints);
/* KN_OK if the folder can be used. NULL gives KN_ERROR_MEMORY. */
KN_API kn_status kn_checkpoints_status(const kn_checkpoints *checkpoints);
/* What went wrong last; "" if nothing. Valid until the next call on this handle. */
KN_API const char *kn_checkpoints_error(const kn_checkpoints *checkpoints);
/* How many there are, the best not counted. */
KN_API size_t kn_checkpoints_count(const kn_checkpoints *checkpoints);

/* The path of the newest that is whole, for kn_model_load; NULL if there is none. One that is damaged is told
 * to the log as a warning and gets ".damaged" behind its name; the one before it is tried, and in the end the
 * best. The text lives until the next call on this handle. */
KN_API const char *kn_checkpoints_newest(kn_checkpoints *checkpoints);
/* The path of the best, if it is there and whole, or NULL; lives as that above. */
KN_API const char *kn_checkpoints_best(kn_checkpoints *checkpoints);

/* Writes the states after `step` steps, with `pairs` as metadata, and then removes the oldest beyond `keep`.
 * Where that fails, those that were there still are. Waits for the device. */
KN_API kn_status kn_checkpoints_save(kn_checkpoints *checkpoints, kn_model *model, kn_states *states,
                                     uint64_t step, const kn_model_pair *pairs, size_t pair_count);
/* Writes them in the place of the best. */
KN_API kn_status kn_checkpoints_save_best(kn_checkpoints *checkpoints, kn_model *model, kn_states *states,
                                          const kn_model_pair *pairs, size_t pair_count);

#ifdef __cplusplus
}
#endif
#endif
