/* Shared by the files that open folders saved by Hugging Face libraries: config.json, safetensors files, and
 * modules.json for text embeddings. The model becomes a text. No setting is guessed, and none is ignored
 * unless it cannot change results. */
#ifndef KN_EXCHANGE_HUGGINGFACE_H
#define KN_EXCHANGE_HUGGINGFACE_H

#include "exchange/language/language.h"

/* ---- members of JSON objects (fields.c) -------------------------------------------------------------- */

/* An object, and which of its members were read: a member that was not read might change the results.
 * Functions that return false have set the model's error. */
typedef struct kn_fields {
    kn_model *model;
    const char *file;   /* "FOLDER/config.json", for messages */
    const char *prefix; /* "rope_parameters." for the members of a member; otherwise "" */
    const kn_json *object;
    bool *read; /* by member */
} kn_fields;

/* Reads a JSON file of a folder into the model's arena; its value must be of the kind. `must` false: *root is
 * NULL if there is no such file. */
bool kn_folder_json(kn_model *model, const char *folder, const char *name, kn_json_kind kind, bool must,
                    const kn_json **root, const char **path);
bool kn_fields_begin(kn_fields *fields, kn_model *model, const char *file, const char *prefix,
                     const kn_json *object);
/* The members of a member that is an object; false without an error: absent or null. */
bool kn_fields_enter(kn_fields *fields, const char *name, kn_fields *inner);
/* The member, which is marked as read; NULL: absent or null. */
const kn_json *kn_fields_find(kn_fields *fields, const char *name);
/* Whether the member is present, even as null. */
bool kn_fields_has(const kn_fields *fields, const char *name);
/* The functions below leave *value unchanged if the member is absent or null. */
bool kn_fields_whole(kn_fields *fields, const char *name, int64_t least, int64_t most, int64_t *value);
/* The same for a member that must be present. */
bool kn_fields_need(kn_fields *fields, const char *name, int64_t least, int64_t most, int64_t *value);
bool kn_fields_real(kn_fields *fields, const char *name, double least, double most, double *value);
bool kn_fields_flag(kn_fields *fields, const char *name, bool *value);
bool kn_fields_word(kn_fields *fields, const char *name, const char **value);
/* Fails unless the member is absent, null or has this value. */
bool kn_fields_must_be(kn_fields *fields, const char *name, bool value);
/* An activation as an operator: "gelu_tanh" for "gelu_new". */
bool kn_fields_activation(kn_fields *fields, const char *name, const char **operator);
/* Fails and names the member: "found 3, expected a word". Returns false. */
bool kn_fields_fail(const kn_fields *fields, const char *name, const char *expected);
/* Fails if a member was not read and is neither null nor in this list, which ends with NULL. */
bool kn_fields_end(const kn_fields *fields, const char *const *harmless);

/* ---- names of weights -------------------------------------------------------------------------------- */

/* How a weight is computed from a tensor of the file. */
typedef enum kn_folder_change {
    KN_FOLDER_SAME,
    KN_FOLDER_PLUS_ONE,
    KN_FOLDER_ROWS,       /* some rows of it, after those of the weights before it in the list */
    KN_FOLDER_TRANSPOSED, /* a matrix (columns,rows); with a vector, as KN_FOLDER_ROWS */
    KN_FOLDER_TURNED,     /* the rows of each head in the order that rotations need */
    /* rows of q, k and v by head, for the first, second and third; q and k are turned as well */
    KN_FOLDER_BY_HEAD,
} kn_folder_change;

typedef struct kn_folder_name {
    const char *own;    /* "attn_q" in the text */
    const char *theirs; /* "self_attn.q_proj" */
    kn_folder_change change;
} kn_folder_name;

/* The names of an architecture's tensors; lists end with a row without names, or with NULL. */
typedef struct kn_folder_names {
    const kn_folder_name *layers; /* of a layer, after "blkN." and `layer`N. */
    const kn_folder_name *others;
    const char *layer;           /* "layers." */
    const char *const *prefixes; /* before all names; the first with which a tensor of others exists */
    /* endings of tensors that change no result, also after a prefix; with a dot at the end: beginnings */
    const char *const *ignored;
} kn_folder_names;

/* ---- weights (weights.c) ----------------------------------------------------------------------------- */

/* The origin_data of a model. */
typedef struct kn_folder {
    kn_arena arena;
    kn_safetensors *parts; /* the files */
    size_t part_count;
    kn_map by_name;                   /* tensors of all parts */
    const kn_folder_names *names;     /* of the architecture */
    kn_safetensors tensors;           /* the model's weights by the names of the text */
    struct kn_folder_source *sources; /* by the index of a weight */
    int64_t head, rotated;            /* columns of a head, and how many of them are rotated; 0: all */
    double factor;                    /* of rotated elements of q and k, if only some are rotated */
    float *divisors;                  /* rope_freqs, which is in no file, (divisor_count) */
    int64_t divisor_count;
    const kn_language *language; /* of a decoder with gates; otherwise NULL */
    const char *pooling;         /* "1_Pooling/config.json"; NULL: there is no modules.json */
} kn_folder;

/* Opens model.safetensors, or the parts in its index. */
bool kn_folder_open_parts(kn_model *model, kn_folder *folder, const char *path);
/* Finds a tensor for each weight of the model's graph, and a weight for each tensor. */
bool kn_folder_list_weights(kn_model *model, kn_folder *folder, const kn_folder_names *names);
/* The name in files, without a prefix, of a weight of the text: "layers.3.self_attn.q_proj.weight" for
 * "blk3.attn_q.weight", and its row in the lists. NULL with the model's error set. */
const char *kn_folder_name_there(kn_model *model, kn_arena *arena, const kn_folder_names *names,
                                 const char *own, const kn_folder_name **found);
/* Whether the folder that a model was opened from calls a part of its layers, or another part, `theirs`, and
 * the part is all of that tensor: "attn_q" is self_attn.q_proj in Llama but not in Phi 3. */
bool kn_folder_calls(const kn_model *model, bool in_layer, const char *own, const char *theirs);
/* The type in the files of a weight's tensor; float32 for one that is computed. */
kn_dtype kn_folder_type(const kn_model *model, const char *name);
/* The tensor in the files of weight `index` of folder->tensors; NULL for one that is computed. */
const kn_array *kn_folder_source(const kn_folder *folder, size_t index);
/* A row of a weight: element i is computed from element first + i * step of that tensor, as
 * more + factor * element. */
typedef struct kn_folder_row {
    uint64_t first, step;
    double factor, more;
} kn_folder_row;
/* The number of rows of the weight; sets their length. */
int64_t kn_folder_rows(const kn_folder *folder, size_t index, int64_t *columns);
kn_folder_row kn_folder_row_at(const kn_folder *folder, size_t index, int64_t row, int64_t columns);
/* Writes a folder like the one that the model was opened from, or for a model from a GGUF file (save.c). */
kn_status kn_folder_save(kn_model *model, const char *path, kn_states *states,
                         const kn_model_save_params *params);
/* Writes the files of a model from a GGUF file (write.c). weights: KN_FLOAT16 or KN_BFLOAT16 for matrices of
 * that type; KN_FLOAT32: those in blocks become float32, others keep their type. */
kn_status kn_folder_write_gguf(kn_model *model, kn_arena *arena, const char *path, kn_states *states,
                               kn_dtype weights);
kn_status kn_folder_load(kn_model *model, const char *path, kn_states *states,
                         const kn_model_load_params *params, int *loaded);

/* ---- architectures ----------------------------------------------------------------------------------- */

typedef struct kn_folder_family kn_folder_family;
struct kn_folder_family {
    const char *type;  /* model_type */
    const char *class; /* the only one of `architectures` that is supported: "LlamaForCausalLM" */
    const kn_folder_names *names;
    /* Writes the text; `path` is the folder. */
    bool (*write)(kn_fields *config, const kn_folder_family *family, kn_folder *folder, const char *path,
                  kn_text *text);
    const void *about; /* private to write */
    bool pools;        /* with modules.json, the class does not matter: only vectors of tokens are used */
};
extern const kn_folder_family kn_folder_decoders[], kn_folder_plain_decoders[], kn_folder_encoders[],
    kn_folder_modern_encoders[];
extern const int kn_folder_decoder_count, kn_folder_plain_decoder_count, kn_folder_encoder_count,
    kn_folder_modern_encoder_count;

/* Appends the members of config.json, without braces, for a decoder from a GGUF file (describe.c). divisors:
 * of the angles of pairs, (head/2), or NULL. False with the model's error set, if the architecture's class
 * cannot express the decoder. */
bool kn_folder_describe(kn_model *model, const kn_language *language, const float *divisors,
                        const kn_folder_family **family, kn_text *text);

/* Marks the layers with sliding_attention in layer_types, which has a word for each layer. */
bool kn_folder_read_layer_types(kn_fields *config, const kn_json *types, int64_t layers, uint8_t *kinds);

/* Reads modules.json: sets pooling and normalized, and lowers the window. */
bool kn_folder_read_pooling(kn_model *model, const char *folder, kn_encoder *encoder);

/* The members of config.json that change no result, for kn_fields_end. */
extern const char *const kn_folder_harmless[];

/* ---- rotations (rope.c) ------------------------------------------------------------------------------ */

/* The rotations in config.json. */
typedef struct kn_folder_rope {
    int64_t head;    /* elements of a head */
    int64_t context; /* positions of the model; lowered where longer texts are not supported */
    /* positions of the training before the context was extended; set before the call, 0: context */
    int64_t original;
    bool partial; /* whether the architecture may rotate a part of a head; set before the call */
    double share; /* of a head that is rotated; set before the call, 0: 1 */
    kn_language_rotation rotation;
    double factor; /* of sines and cosines */
    int64_t
        rotated; /* elements of a head that are rotated, the first of which are paired (KN_FOLDER_TURNED) */
    float *divisors; /* of the angles of pairs, (head/2), in the arena; NULL: none */
} kn_folder_rope;

/* Reads rope_parameters, or rope_scaling, rope_theta and partial_rotary_factor. `usual` is the base if none
 * is given. `layers`: the member of rope_parameters for these layers, such as "full_attention"; NULL:
 * rope_parameters itself. */
bool kn_folder_read_rope(kn_fields *config, kn_arena *arena, const char *layers, double usual,
                         kn_folder_rope *rope);
/* The same for layers with separate rotations: only the member of rope_parameters for these layers. */
bool kn_folder_read_local_rope(kn_fields *config, kn_arena *arena, const char *layers, double usual,
                               kn_folder_rope *rope);

/* Gives the rotations of all layers, or of those without a window, to a decoder and to its weights. */
void kn_folder_take_rope(const kn_folder_rope *rope, kn_folder *folder, kn_language *language);

#endif
