/* Samples on their way from files into a store, a file each: what folders and archives of pictures
 * and sounds have in common. Inside of the data room only. */
#ifndef KN_SAMPLE_FILES_H
#define KN_SAMPLE_FILES_H

#include "data/dataset_private.h"

typedef struct kn_sample_file {
    const char *name; /* for messages, and the path where there are no bytes */
    int class;
    void *bytes; /* the file's, where it was read before; released once they are decoded */
    size_t count;
    char *reason; /* why it was left out; NULL: it was not */
} kn_sample_file;

typedef struct kn_sample_files {
    kn_sample_file *files;
    uint64_t count;
} kn_sample_files;

/* No file with a sample is larger. */
#define KN_SAMPLE_FILE_BYTES ((uint64_t)1 << 28)

typedef struct kn_sample_job kn_sample_job;

/* What is read. Functions are called by several threads at a time, except `measure`. */
typedef struct kn_sample_kind {
    const char *what, *endings; /* "pictures", ".jpg, .jpeg or .png" */
    bool (*is)(const char *name);
    /* Sets the job's sample by a file, the first that can be read, where nothing else says how large it is.
     */
    kn_status (*measure)(const kn_host *host, kn_sample_job *job, const kn_sample_file *file,
                         kn_error *error);
    /* Reads one sample into `out`. */
    kn_status (*read)(const kn_host *host, const kn_sample_job *job, const kn_sample_file *file, void *out,
                      kn_error *error);
    double scale; /* of what is stored */
} kn_sample_kind;

struct kn_sample_job {
    const kn_sample_kind *kind;
    const kn_source_options *options;
    void *own; /* the kind's */
    size_t own_bytes;
    kn_tensor_info sample;
    bool known;    /* the sample is, without looking at a file */
    uint64_t used; /* bytes of decoded samples that are kept so far */
};

/* Whether a name ends so, in whatever case. */
bool kn_name_ends(const char *name, const char *ending);
/* The file's bytes, and in *owned what is to be released of them, or NULL. */
kn_status kn_sample_file_bytes(const kn_host *host, const kn_sample_file *file, const uint8_t **bytes,
                               uint64_t *count, uint8_t **owned, kn_error *error);

/* All of a folder with a folder for each class, or train/ and test/ or val/ with such. Without a target,
 * where the options ask for inputs only, the files of the folder and of those below it; a file is one sample,
 * without a target too. Samples without a target have their files' names. */
kn_status kn_sample_files_open(kn_dataset *dataset, const char *path, kn_sample_job *job);

/* The same in an archive (sample_archives.c); names of samples are those in the archive. A file there is no
 * part by itself. */
kn_status kn_sample_archive_open(kn_dataset *dataset, const char *path, kn_sample_job *job);

/* Room for the samples of a part, as far as the options' cache goes. NULL with the error set. classes NULL:
 * they have no "y". */
kn_sample_store *kn_sample_files_store(const kn_host *host, const kn_sample_files *from, kn_sample_job *job,
                                       const char *const *classes, size_t count, kn_error *error);
/* Decodes `count` files, those at `which` (NULL: from the first on), by several threads. One that cannot be
 * read is an error, the first of them, or is left out where the options say so. */
kn_status kn_sample_files_decode(kn_sample_store *store, kn_sample_files *from, const uint64_t *which,
                                 uint64_t count, const kn_sample_job *job, kn_error *error);
/* Closes the gaps of what was left out, sets the labels, or the samples' names where there are none, and
 * notes where the files are that are not kept decoded. */
kn_status kn_sample_files_finish(kn_sample_store *store, const kn_sample_files *from,
                                 const kn_sample_job *job, kn_error *error);
/* Notes how the store's rows from `kept` on are read when they are wanted: those of the files from `first` on
 * that were not left out (sample_later.c). */
kn_status kn_later_open(kn_sample_store *store, const kn_sample_files *from, uint64_t first,
                        const kn_sample_job *job, kn_error *error);
/* Releases the files and what they hold. */
void kn_sample_files_release(const kn_host *host, kn_sample_files *files);

#endif
