/* Shared by the files that read and write adapters (models/adapt.c): PEFT folders, GGUF files, and files that
 * kn_model_save writes. */
#ifndef KN_EXCHANGE_ADAPTER_H
#define KN_EXCHANGE_ADAPTER_H

#include "exchange/exchange.h"

/* What an adapter has of a layer. */
typedef enum kn_adapter_part { KN_ADAPTER_A, KN_ADAPTER_B, KN_ADAPTER_MAGNITUDES } kn_adapter_part;

/* The matrices of one layer; both are floating-point, with an axis for each dimension. */
typedef struct kn_adapter_pair {
    const char *layer; /* of the model's graph: "blk0.attn_q" */
    const char *name;  /* in the file, for messages */
    kn_array a, b;     /* bytes NULL: missing so far */
    kn_array
        magnitudes; /* (units), the lengths of the rows of the merged weight; only if the file has them */
} kn_adapter_pair;

/* An adapter in a file. The arrays point into it. */
typedef struct kn_adapter_file {
    kn_arena arena;
    const char *path;
    kn_adapter_params params; /* without targets; rank 0: that of the matrices */
    double scale;             /* if not 0: instead of params.alpha */
    bool magnitudes;          /* DoRA: rows of merged weights have given lengths */
    kn_adapter_pair *pairs;
    size_t count, capacity;
    kn_map by_layer;
    bool alternates; /* rows of q and k alternate between the halves of a head, as GGUF files of llama have
                        them */
    kn_safetensors tensors;
    kn_gguf gguf;
    bool has_tensors, has_gguf;
} kn_adapter_file;

/* ---- adapter.c: false with the model's error set ------------------------------------------------- */

/* Opens a file or folder of any kind and checks its matrices. Closed even after a failure. */
bool kn_adapter_open_file(kn_model *model, const char *path, kn_adapter_file *file);
void kn_adapter_close_file(kn_model *model, kn_adapter_file *file);
/* The checks that all functions begin with; `call` is the function. */
kn_status kn_adapter_begin(kn_model *model, const char *path, const char *call);

/* The elements of a part, finite, with the rows in the order of the model. Released by the caller; NULL with
 * the model's error set. */
float *kn_adapter_numbers(kn_model *model, const kn_adapter_file *file, const kn_adapter_pair *pair,
                          kn_adapter_part part);
/* The array of a part (pairs.c). */
const kn_array *kn_adapter_part_of(const kn_adapter_pair *pair, kn_adapter_part part);
/* Adds a part of a layer (pairs.c). */
bool kn_adapter_add(kn_model *model, kn_adapter_file *file, const char *layer, const char *name,
                    kn_adapter_part part, const kn_array *array);

/* ---- kinds of files: each sets the model's error and returns false on failure -------------------- */

bool kn_adapter_open_peft(kn_model *model, kn_adapter_file *file);  /* peft.c */
bool kn_adapter_open_gguf(kn_model *model, kn_adapter_file *file);  /* gguf.c */
bool kn_adapter_open_saved(kn_model *model, kn_adapter_file *file); /* saved.c */
/* Writes the model's adapter; `path` is a folder for the first. */
kn_status kn_adapter_save_peft(kn_model *model, const char *path, kn_states *states);
kn_status kn_adapter_save_gguf(kn_model *model, const char *path, kn_states *states);

/* ---- layers of language models (layers.c) -------------------------------------------------------- */

/* Whether the model's rows of q and k alternate (kn_model_row_order). */
bool kn_adapter_alternates(const kn_model *model);
/* The heads of q or k, whose rows are moved if only one of the model and the file alternates; 0 for other
 * layers, -1 with the model's error set. */
int64_t kn_adapter_heads(kn_model *model, const char *layer, int64_t units, bool file_alternates);
/* Moves each row of `from`, (units,columns), to its place in the other order. to_halves: `from` alternates.
 */
void kn_adapter_reorder(const float *from, float *to, int64_t units, int64_t columns, int64_t heads,
                        bool to_halves);
/* The matrices of an adapted layer from the states, float32; b in the order of the file. Released by the
 * caller. NULL with the model's error set. */
float *kn_adapter_matrix(kn_model *model, const kn_adapted *layer, bool b, bool alternates,
                         kn_states *states);

#endif
