/* Datasets: inside of the data room only.
 *
 * A store holds the samples of one part of a source; it is shared by all handles
 * that show some of them and goes with the last. A handle adds which rows. */
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
    kn_tensor_info read; /* one sample as it is read */
    size_t read_bytes;
    uint64_t elements; /* of one sample as it is stored */
    kn_dtype stored;
    size_t stored_bytes;  /* one sample */
    size_t step_bytes;    /* from one sample to the next: less, where samples overlap */
    const uint8_t *bytes; /* all samples */
    float scale;
    bool is_label;
    bool enlarged;      /* read as a larger picture, or as one with other channels, than was stored */
    int64_t picture[3]; /* then: channels, height and width as stored */
} kn_sample_field;

struct kn_sample_store {
    kn_host host;
    kn_mutex *mutex; /* guards references and the making of samples */
    int references;
    uint64_t count;
    int classes;
    double explainable; /* share of the variance of "y" that can be explained; 0: not known */
    char *vocabulary;   /* of text: the signs by number, in UTF-8, "" for bytes; NULL: no text */
    char *columns;      /* of a table: what its columns hold, as JSON; NULL: no table */
    char *about,
        *target; /* for people, of tables and pictures; of a table, the name of what is to be learnt */
    double unit_mean, unit_deviation; /* of a target that was standardised; deviation 0: it was not */
    uint64_t rate;                    /* of sounds: samples a second; 0: not known, or no sounds */
    uint64_t left_out;                /* samples that could not be read */
    char *left_out_text;              /* why, a line each; NULL: none */
    char **class_names;               /* one block with the texts behind the pointers; NULL: none */
    char **sample_names;              /* the same: where each sample comes from */
    size_t field_count;
    kn_sample_field fields[KN_FIELDS_MAX];
    /* Field 0 of samples that are made when they are first read: states has one byte per
     * sample, 1 once its bytes stand. NULL if all stand. */
    const kn_made_kind *made;
    bool made_test; /* which part */
    atomic_uchar *states;
    /* Rows of field 0 from `kept` on that are decoded when they are read; NULL: all stand in memory. */
    struct kn_later *later;
    uint64_t kept;
    /* What the fields' bytes lie in. */
    void *blocks[KN_SAMPLE_STORE_FILES];
    kn_array_file files[KN_SAMPLE_STORE_FILES];
};

/* One reference, which the caller holds. NULL when out of memory. */
kn_sample_store *kn_sample_store_create(const kn_host *host, kn_error *error);
kn_sample_store *kn_sample_store_keep(kn_sample_store *store); /* accepts NULL */
void kn_sample_store_leave(kn_sample_store *store);
/* Adds a field of `stored` samples: fills in everything but bytes. */
kn_status kn_sample_store_add(kn_sample_store *store, const char *name, const kn_tensor_info *stored,
                              kn_dtype as, double scale, kn_sample_field **field, kn_error *error);
/* In one block, pointers and the texts behind them, for the caller to release; NULL with the error set. */
char **kn_copy_names(const kn_host *host, const char *const *names, size_t count, kn_error *error);
/* Copies the names of the classes, and sets how many there are. */
kn_status kn_sample_store_name_classes(kn_sample_store *store, const char *const *names, size_t count,
                                       kn_error *error);
/* Gives the classes the numbers that their names have in `lines`, a line each, and these names; a store
 * without names stays as it is, and so does one that has none of them where they are only numbers. Fails at a
 * name that is not there. data: what messages call it. store may be NULL. (classes.c) */
kn_status kn_sample_store_match_classes(kn_sample_store *store, const char *data, const char *lines,
                                        kn_error *error);
/* Copies where the first `count` samples come from. */
kn_status kn_sample_store_name_samples(kn_sample_store *store, const char *const *names, size_t count,
                                       kn_error *error);
/* Whether what is read as int32 fits, and class indices are below the number of classes. */
kn_status kn_sample_store_check(const kn_sample_store *store, kn_error *error);
/* The bytes of one sample, made first if they are not there yet. Those that are not in memory go into *room,
 * which is taken where it is NULL and the caller's to release. NULL with the error set. */
const uint8_t *kn_sample_store_bytes(const kn_sample_store *store, const kn_sample_field *field, uint64_t row,
                                     uint8_t **room, kn_error *error);

/* ---- samples that are decoded when they are read (sample_later.c) ---- */

/* Reads one row of the store, from `kept` on, into `out`. */
kn_status kn_later_read(const kn_sample_store *store, uint64_t row, void *out, kn_error *error);
void kn_later_close(const kn_host *host, struct kn_later *later);

struct kn_dataset {
    kn_host host;
    kn_error error;
    kn_sample_store *store; /* NULL for a failed one */
    uint32_t *rows;         /* of the store, in order; NULL for all of them */
    uint64_t count;
    kn_sample_store *test; /* the source's own test part, or NULL */
};

/* A handle without samples; NULL when out of memory. */
kn_dataset *kn_dataset_new(const kn_host *host);
/* Another handle of the same samples, or of some: `rows` (NULL for the same) becomes
 * the new handle's. Carries the error of a failed one on. */
kn_dataset *kn_dataset_view(const kn_dataset *dataset, uint32_t *rows, uint64_t count);

static inline uint64_t kn_dataset_row(const kn_dataset *dataset, uint64_t index) {
    return dataset->rows ? dataset->rows[index] : index;
}

/* `count` samples of one field as they are read; all indices must be valid. indices
 * NULL means from the first on. Fails only where samples are decoded when they are read. */
kn_status kn_dataset_gather(const kn_dataset *dataset, size_t field, const uint64_t *indices, uint64_t count,
                            void *destination, kn_error *error);
/* The class of a sample, from the field of the classes. */
int32_t kn_dataset_label(const kn_dataset *dataset, size_t field, uint64_t index);

/* ---- classes that come up alike (balance.c) ------------------------------------------------ */

typedef struct kn_balance {
    uint32_t *samples; /* class by class, and room for the largest class behind them; NULL: not balanced */
    uint64_t *begin;   /* of each class; classes + 1 of them */
    size_t classes;    /* those that have samples */
} kn_balance;
kn_status kn_balance_open(kn_balance *balance, const kn_dataset *dataset, kn_error *error);
/* Fills order[0..count) with samples of all classes alike, as many of each as there are places for. Each
 * class is gone through completely, in an order of its own, before a sample of it comes up again. */
void kn_balance_draw(kn_balance *balance, uint64_t key, uint32_t *order, size_t count);
void kn_balance_close(const kn_host *host, kn_balance *balance);

/* ---- sources (source_*.c): fill in dataset->store and perhaps dataset->test ---- */

typedef struct kn_source_options {
    uint64_t most_samples;        /* UINT64_MAX for all */
    bool tokens;                  /* integers are read as int32 */
    const kn_tensor_info *wanted; /* what the caller would like as "x", or NULL */
    const char *vocabulary;       /* that text is to be read with, or NULL */
    const char *columns;          /* that tables are to be read with, or NULL */
    uint64_t rate;                /* that sounds are to be read at, or 0 */
    bool inputs_only;             /* no target, even where there is one */
    kn_image_reader images;
    kn_archive_reader archives;
    bool skip_bad;       /* leave samples out that cannot be read */
    uint64_t cache;      /* bytes of decoded samples that are kept; 0: all */
    const char *classes; /* names that samples' classes are numbered by, or NULL (dataset.c) */
    bool same;           /* "y" is "x" (dataset.c) */
    bool labels;         /* integers in "y" are read as int32 */
} kn_source_options;

/* Opens what the word `spec` names (sources.c). */
kn_status kn_source_open(kn_dataset *dataset, const char *spec, const kn_source_options *options);
kn_status kn_source_made(kn_dataset *dataset, const kn_made_kind *kind, const char *part,
                         const kn_source_options *options);
/* rest: what stands behind "text", such as ":FILE?length=32". */
kn_status kn_source_sequences(kn_dataset *dataset, const char *rest, const kn_source_options *options);
kn_status kn_source_idx(kn_dataset *dataset, const char *folder, const kn_source_options *options);
kn_status kn_source_npy(kn_dataset *dataset, const char *paths, const kn_source_options *options);
/* rest: ":FILE?x=NAME&y=NAME" */
kn_status kn_source_npz(kn_dataset *dataset, const char *rest, const kn_source_options *options);
kn_status kn_source_cifar10(kn_dataset *dataset, const char *folder, const kn_source_options *options);
kn_status kn_source_cifar100(kn_dataset *dataset, const char *folder, const kn_source_options *options);
/* The two arrays in store->files become "x" and "y" (source_files.c). */
kn_status kn_sample_store_add_pair(kn_sample_store *store, const char *x_path, const char *y_path,
                                   const kn_source_options *options, kn_error *error);
/* Both parts must agree in what a sample is; a class may be missing in one of them. */
kn_status kn_sample_store_match_parts(const char *folder, kn_sample_store *train, kn_sample_store *test,
                                      kn_error *error);
/* Gives the dataset its parts, one of which may be missing; after a failure, which `status` tells, lets go of
 * them. Answers `status`. */
kn_status kn_dataset_take_parts(kn_dataset *dataset, kn_sample_store *train, kn_sample_store *test,
                                kn_status status);

/* rest: ":FILE?target=COLUMN" */
kn_status kn_source_csv(kn_dataset *dataset, const char *rest, const kn_source_options *options);
/* rest: ":FOLDER?rate=8000&length=8000", or an archive, or a file */
kn_status kn_source_wave(kn_dataset *dataset, const char *rest, const kn_source_options *options);
/* rest: ":FOLDER?size=32&grey", or an archive, or a file */
kn_status kn_source_images(kn_dataset *dataset, const char *rest, const kn_source_options *options);

/* ---- pictures (resample.c) ---------------------------------------------------------------- */

/* The middle of a picture, as large as its sides allow, scaled to (channels,height,width) in `out`. */
kn_status kn_image_fit(const kn_host *host, const kn_image *image, int64_t width, int64_t height,
                       uint8_t *out, kn_error *error);

/* ---- what stands behind a source's word (spec.c): ":PATH?KEY=VALUE&KEY" --------------- */

typedef enum kn_spec_kind { KN_SPEC_FLAG, KN_SPEC_COUNT, KN_SPEC_SIZE, KN_SPEC_TEXT } kn_spec_kind;
typedef struct kn_spec_option {
    const char *key;
    kn_spec_kind kind;
    void *target; /* bool; uint64_t, which is then above 0; uint64_t[2], width and height, from "32" or
                     "64x48"; char *, for the caller to release also when reading fails */
} kn_spec_option;
/* Reads it: *path is NULL where there is none, otherwise released by the caller. A path that exists as it
 * stands is taken so, whatever question marks it has. */
kn_status kn_spec_read(const kn_host *host, const char *word, const char *rest, char **path,
                       const kn_spec_option *options, size_t count, kn_error *error);

#endif
