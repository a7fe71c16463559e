/* Samples from files, one file per sample: shared by folders and archives of images and sounds. Private to
 * the data module. */
#ifndef KN_SAMPLE_FILES_H
#define KN_SAMPLE_FILES_H

#include "data/dataset_private.h"

typedef struct kn_sample_file {
    const char *name; /* for messages, and the path if bytes is NULL */
    int class;
    void *bytes; /* the file's contents, if already read; released after decoding */
    size_t count;
    char *reason; /* why it was skipped; NULL: it was not */
} kn_sample_file;

typedef struct kn_sample_files {
    kn_sample_file *files;
    uint64_t count;
} kn_sample_files;

/* The largest size of a sample's file. */
#define KN_SAMPLE_FILE_BYTES ((uint64_t)1 << 28)

typedef struct kn_sample_job kn_sample_job;

/* A kind of sample. The functions may be called from several threads at once, except `measure`. */
typedef struct kn_sample_kind {
    const char *what, *endings; /* "images", ".jpg, .jpeg or .png" */
    bool (*is)(const char *name);
    /* Sets the job's sample shape from a file, the first readable one, if nothing else determines it. */
    kn_status (*measure)(const kn_host *host, kn_sample_job *job, const kn_sample_file *file,
                         kn_error *error);
    /* Decodes one sample into `out`. */
    kn_status (*read)(const kn_host *host, const kn_sample_job *job, const kn_sample_file *file, void *out,
                      kn_error *error);
    double scale; /* factor for the stored values */
} kn_sample_kind;

struct kn_sample_job {
    const kn_sample_kind *kind;
    const kn_source_options *options;
    void *own; /* data of the kind */
    size_t own_bytes;
    kn_tensor_info sample;
    bool known;    /* the sample shape is known without reading a file */
    uint64_t used; /* bytes of decoded samples kept so far */
};

/* Whether a name has an ending, ignoring case. */
bool kn_name_ends(const char *name, const char *ending);
/* The file's bytes; *owned is the part to be released, or NULL. */
kn_status kn_sample_file_bytes(const kn_host *host, const kn_sample_file *file, const uint8_t **bytes,
                               uint64_t *count, uint8_t **owned, kn_error *error);

/* Opens a folder with a subfolder per class, or with such folders in train/ and test/ or val/. Without a
 * target (only inputs): the files of the folder and its subfolders; a single file is one sample. Samples
 * without a target are named after their files. */
kn_status kn_sample_files_open(kn_dataset *dataset, const char *path, kn_sample_job *job);

/* Likewise for an archive (sample_archives.c); samples are named after the files in it. A file in it is not a
 * dataset by itself. */
kn_status kn_sample_archive_open(kn_dataset *dataset, const char *path, kn_sample_job *job);

/* Allocates the samples of a part, as far as the cache allows. NULL with the error set. classes NULL: no "y".
 */
kn_sample_store *kn_sample_files_store(const kn_host *host, const kn_sample_files *from, kn_sample_job *job,
                                       const char *const *classes, size_t count, kn_error *error);
/* Decodes `count` files, those at `which` (NULL: the first files), on several threads. The first file that
 * cannot be decoded is an error, or is skipped if the options say so. */
kn_status kn_sample_files_decode(kn_sample_store *store, kn_sample_files *from, const uint64_t *which,
                                 uint64_t count, const kn_sample_job *job, kn_error *error);
/* Closes the gaps of skipped samples, sets the labels or the samples' names, and records the files of samples
 * that are not kept in memory. */
kn_status kn_sample_files_finish(kn_sample_store *store, const kn_sample_files *from,
                                 const kn_sample_job *job, kn_error *error);
/* Records how to decode the store's rows from `kept` on: from the files from `first` on that were not skipped
 * (store.c). */
kn_status kn_later_open(kn_sample_store *store, const kn_sample_files *from, uint64_t first,
                        const kn_sample_job *job, kn_error *error);
/* Releases the files and their contents. */
void kn_sample_files_release(const kn_host *host, kn_sample_files *files);

#endif
