/* Datasets. Private to the data module.
 *
 * A store holds the samples of one part of a source. All handles that select from its samples share it, and
 * it is freed with the last handle; a handle adds the selection of rows. */
#ifndef KN_DATASET_PRIVATE_H
#define KN_DATASET_PRIVATE_H

#include <stdatomic.h>

#include "data/data.h"
#include "data/made_private.h"
#include "formats/formats.h"

enum { KN_FIELDS_MAX = 4, KN_FIELD_NAME = 32, KN_SAMPLE_STORE_FILES = 4, KN_CLASSES_MAX = 1 << 20 };

typedef struct kn_sample_store kn_sample_store;

typedef struct kn_sample_field {
    char name[KN_FIELD_NAME];
    kn_tensor_info read; /* type and shape of one sample as read */
    size_t read_bytes;
    uint64_t elements; /* per sample, as stored */
    kn_dtype stored;
    size_t stored_bytes;  /* per sample */
    size_t step_bytes;    /* distance between samples: less than stored_bytes if samples overlap */
    const uint8_t *bytes; /* all samples */
    float scale;
    bool is_label;
    bool enlarged;      /* read as a larger image, or with different channels, than stored */
    int64_t picture[3]; /* if enlarged: channels, height and width as stored */
} kn_sample_field;

struct kn_sample_store {
    kn_host host;
    kn_mutex *mutex; /* guards references and the generation of samples */
    int references;
    uint64_t count;
    int classes;
    double explainable; /* fraction of the variance of "y" that can be explained; 0: unknown */
    char *vocabulary;   /* of text: the tokens by id, in UTF-8, "" for bytes; NULL: not text */
    char *columns;      /* of a table: what its columns hold, as JSON; NULL: not a table */
    char *about,
        *target; /* about: human-readable, for tables and images; target: name of a table's target column */
    double unit_mean, unit_deviation; /* for a standardised target; deviation 0: not standardised */
    uint64_t rate;                    /* of sounds: samples per second; 0: unknown, or not sounds */
    atomic_uchar reported;            /* a non-finite sample was reported */
    uint64_t left_out;                /* samples that could not be decoded */
    char *left_out_text;              /* the reasons, one line each; NULL: none */
    char **class_names;               /* one block: pointers, then strings; NULL: none */
    char **sample_names;              /* likewise: the file of each sample */
    size_t field_count;
    kn_sample_field fields[KN_FIELDS_MAX];
    /* Field 0 of samples that are generated when first read: states has one byte per sample, 1 once it is
     * generated. NULL if all samples are present. */
    const kn_made_kind *made;
    bool made_test; /* whether it is the test part */
    atomic_uchar *states;
    /* Decodes rows of field 0 from `kept` on, at each read; NULL: all rows are in memory. */
    struct kn_later *later;
    uint64_t kept;
    /* Memory of the fields. */
    void *blocks[KN_SAMPLE_STORE_FILES];
    kn_array_file files[KN_SAMPLE_STORE_FILES];
};

/* Creates a store with one reference, owned by the caller. NULL when out of memory. */
kn_sample_store *kn_sample_store_create(const kn_host *host, kn_error *error);
kn_sample_store *kn_sample_store_keep(kn_sample_store *store); /* adds a reference; accepts NULL */
void kn_sample_store_leave(kn_sample_store *store);
/* Adds a field of `stored` samples: sets everything except bytes. */
kn_status kn_sample_store_add(kn_sample_store *store, const char *name, const kn_tensor_info *stored,
                              kn_dtype as, double scale, kn_sample_field **field, kn_error *error);
/* Copies names to one block, pointers then strings, which the caller releases; NULL with the error set. */
char **kn_copy_names(const kn_host *host, const char *const *names, size_t count, kn_error *error);
/* Copies the names of the classes and sets their number. */
kn_status kn_sample_store_name_classes(kn_sample_store *store, const char *const *names, size_t count,
                                       kn_error *error);
/* Renumbers the classes by their names in `lines`, one per line, and adopts these names. A store without
 * names stays unchanged, as does one without common names if `lines` has only numbers. Fails if a class is
 * missing in `lines`. data: its name in messages. store may be NULL. (classes.c) */
kn_status kn_sample_store_match_classes(kn_sample_store *store, const char *data, const char *lines,
                                        kn_error *error);
/* Copies the files that the first `count` samples come from. */
kn_status kn_sample_store_name_samples(kn_sample_store *store, const char *const *names, size_t count,
                                       kn_error *error);
/* Checks that values read as int32 fit, and that class indices are below the number of classes. */
kn_status kn_sample_store_check(const kn_sample_store *store, kn_error *error);
/* The bytes of one sample, generated first if needed. A sample that is not in memory is decoded into *room,
 * which is allocated if NULL and released by the caller. NULL with the error set. */
const uint8_t *kn_sample_store_bytes(const kn_sample_store *store, const kn_sample_field *field, uint64_t row,
                                     uint8_t **room, kn_error *error);

struct kn_dataset {
    kn_host host;
    kn_error error;
    kn_sample_store *store; /* NULL for a failed dataset */
    uint32_t *rows;         /* rows of the store, in order; NULL for all */
    uint64_t count;
    kn_sample_store *test; /* the source's test part, or NULL */
};

/* A handle without samples; NULL when out of memory. */
kn_dataset *kn_dataset_new(const kn_host *host);
/* A new handle on the same samples, or on a selection: it takes ownership of `rows` (NULL: all). Copies the
 * error of a failed dataset. */
kn_dataset *kn_dataset_view(const kn_dataset *dataset, uint32_t *rows, uint64_t count);

static inline uint64_t kn_dataset_row(const kn_dataset *dataset, uint64_t index) {
    return dataset->rows ? dataset->rows[index] : index;
}

/* Reads `count` samples of one field; all indices must be valid. indices NULL: the first samples. as_bytes:
 * unscaled bytes of a field whose kn_field_scale is not 0. Fails only if samples are decoded at each read. */
kn_status kn_dataset_gather(const kn_dataset *dataset, size_t field, const uint64_t *indices, uint64_t count,
                            bool as_bytes, void *destination, kn_error *error);
/* Logs a warning if numbers of a field that kn_dataset_gather read as float32 are not finite: only for the
 * first such sample of the store. */
void kn_dataset_watch(const kn_dataset *dataset, size_t field, const uint64_t *indices, uint64_t count,
                      const float *numbers);
/* The scale in kn_dataset_field. */
double kn_field_scale(const kn_sample_field *field);
/* The size of one sample as kn_dataset_gather reads it. */
size_t kn_field_bytes(const kn_sample_field *field, bool as_bytes);
/* The class of a sample, from the label field. */
int32_t kn_dataset_label(const kn_dataset *dataset, size_t field, uint64_t index);

/* ---- equal class frequencies (balance.c) --------------------------------------------------- */

typedef struct kn_balance {
    uint32_t *samples; /* class by class, followed by scratch for the largest class; NULL: not balanced */
    uint64_t *begin;   /* of each class; classes + 1 entries */
    size_t classes;    /* number of classes that have samples */
} kn_balance;
kn_status kn_balance_open(kn_balance *balance, const kn_dataset *dataset, kn_error *error);
/* Fills order[0..count) with an equal number of samples per class. All samples of a class are used, in random
 * order, before one repeats. */
void kn_balance_draw(kn_balance *balance, uint64_t key, uint32_t *order, size_t count);
void kn_balance_close(const kn_host *host, kn_balance *balance);

/* ---- sources (source_*.c): set dataset->store and possibly dataset->test ---- */

/* The caller's parameters, with max_samples UINT64_MAX for all; `same` and `classes` are applied by
 * dataset.c. */
typedef kn_dataset_params kn_source_options;

/* A source. Its file defines `const kn_source_row kn_data_source_NAME`, and sources.c lists NAME. */
typedef struct kn_source_row {
    const char *name, *usage, *text;
    const kn_made_kind *made; /* generated data, otherwise: */
    /* opens it; rest: the text after the name, such as ":FILE,length=32" */
    kn_status (*open)(kn_dataset *dataset, const char *rest, const kn_source_options *options);
    bool path_optional;
} kn_source_row;

/* Opens the source that `spec` names (sources.c). */
kn_status kn_source_open(kn_dataset *dataset, const char *spec, const kn_source_options *options);
kn_status kn_source_made(kn_dataset *dataset, const kn_made_kind *kind, const char *part,
                         const kn_source_options *options);
/* Makes the arrays in store->files the fields "x" and "y" (source_files.c). */
kn_status kn_sample_store_add_pair(kn_sample_store *store, const char *x_path, const char *y_path,
                                   const kn_source_options *options, kn_error *error);
/* Checks that both parts have the same sample shapes; a class may be missing in one part. */
kn_status kn_sample_store_match_parts(const char *folder, kn_sample_store *train, kn_sample_store *test,
                                      kn_error *error);
/* Moves the parts, one of which may be missing, to the dataset; releases them if `status` is a failure.
 * Returns `status`. */
kn_status kn_dataset_take_parts(kn_dataset *dataset, kn_sample_store *train, kn_sample_store *test,
                                kn_status status);

/* ---- images (resample.c) ------------------------------------------------------------------ */

/* Scales the largest centred crop of an image with the right aspect ratio to (channels,height,width) in
 * `out`. */
kn_status kn_image_fit(const kn_host *host, const kn_image *image, int64_t width, int64_t height,
                       uint8_t *out, kn_error *error);

/* ---- the text after a source's name (spec.c): ":PATH,KEY=VALUE,KEY" ------------------------------------ */

typedef enum kn_spec_kind {
    KN_SPEC_FLAG,
    KN_SPEC_COUNT,
    KN_SPEC_SIZE,
    KN_SPEC_TEXT,
    KN_SPEC_LIST
} kn_spec_kind;
typedef struct kn_spec_option {
    const char *key;
    kn_spec_kind kind;
    /* bool; uint64_t, above 0; uint64_t[2], width and height, from "32" or "64x48"; char *, released by the
     * caller even if reading fails */
    void *target;
} kn_spec_option;
/* Copies the first name of a comma-separated list to `name`, which has room for the whole list; a name with a
 * comma is in quotes, as in CSV files. Returns the bytes of the name in the list. */
size_t kn_spec_name(char *name, const char *list);
/* Parses the text: *path is NULL if there is none, otherwise released by the caller. Of the paths that end at
 * a comma, the longest existing one is taken. */
kn_status kn_spec_read(const kn_host *host, const char *word, const char *rest, char **path,
                       const kn_spec_option *options, size_t count, kn_error *error);

#endif
