/* Datasets: samples to train on and to judge by, and loaders, which hand them
 * out in batches.
 *
 * A dataset is a number of samples; each sample has fields, by convention "x"
 * (what goes in) and "y" (what should come out). Samples never change.
 *
 *     kn_dataset *all = kn_dataset_open(NULL, "digits");
 *     kn_dataset *test = kn_dataset_test(all);
 *     kn_loader_params how = KN_LOADER_DEFAULTS;
 *     kn_loader *loader = kn_loader_create(all, &how);
 *     kn_batch batch = KN_BATCH_DEFAULTS;
 *     while (kn_loader_next(loader, &batch) == KN_OK && batch.count > 0)
 *         kn_trainer_step(trainer, batch.count, batch.feeds, batch.feed_count, NULL);
 *
 * Ownership: what a function here creates is the caller's to destroy, in any
 * order: handles made from one another share the samples and keep them as long
 * as needed. Functions that create answer NULL only when out of memory;
 * otherwise a handle that may carry an error, and what is made from a failed
 * handle carries its error on. Every function accepts NULL handles. */
#ifndef KOINE_DATA_H
#define KOINE_DATA_H

#include <koine/host.h>
#include <koine/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- datasets ---------------------------------------------------------------
 * Thread-safety: any thread may use a dataset, several at a time, except that
 * nothing may use it while it is destroyed. */

typedef struct kn_dataset kn_dataset;

/* A picture in memory. */
typedef struct kn_image {
    size_t size;
    int64_t width, height;
    int channels;    /* 1: grey, 3: red, green and blue */
    uint8_t *pixels; /* (height,width,channels) */
    int stored;      /* channels of the file, 1 or 3, as far as the reader says; 0: not known */
} kn_image;

/* How files with pictures are read: libkoine-images has one for JPEG and PNG (koine/images.h), a program may
 * bring its own. Called by several threads at a time. `image` comes with the channels that are wanted; `read`
 * sets its width, height, where it knows them the channels of the file, and pixels, which it takes from
 * `allocator` by resizing NULL, or writes into `message` what is wrong with the file and takes nothing. It
 * refuses files of more than `most_pixels` before it takes memory for them. */
typedef struct kn_image_reader {
    void *user;
    kn_status (*read)(void *user, const kn_allocator *allocator, const void *bytes, size_t count,
                      uint64_t most_pixels, kn_image *image, char *message, size_t message_bytes);
} kn_image_reader;

/* How archives of files are read: libkoine-images has one (koine/images.h), for tar, gzipped or not, and zip.
 * `read` goes through the regular files of the archive at `path` in its order and asks the visitor of each,
 * by its name with / between folders, whether it wants the bytes: at most `most_bytes`, taken from
 * `allocator` by resizing NULL, then the visitor's. It stops where `take` answers other than KN_OK, and
 * answers the same; of its own failures it writes into `message` what is wrong with the archive. */
typedef struct kn_archive_visitor {
    void *user;
    bool (*wants)(void *user, const char *name);
    kn_status (*take)(void *user, const char *name, void *bytes, size_t count);
} kn_archive_visitor;
typedef struct kn_archive_reader {
    void *user;
    kn_status (*read)(void *user, const kn_allocator *allocator, const char *path, uint64_t most_bytes,
                      const kn_archive_visitor *visitor, char *message, size_t message_bytes);
} kn_archive_reader;

typedef struct kn_dataset_params {
    size_t size; /* of this struct, as the program knows it */
    kn_allocator allocator;
    kn_logger log;
    uint64_t most_samples; /* take the first so many of each part; 0: all of them */
    bool tokens;           /* of files: integers stay what they are, read as int32 */
    /* One sample of "x" as the caller's model reads it: sources that can fit themselves to it, such as text
     * to a length, and drawn pictures to a larger size, do. Needed during the call only; NULL: they choose.
     */
    const kn_tensor_info *wanted;
    const char *vocabulary; /* of text:FILE: the signs to read it with, as kn_dataset_vocabulary says; NULL:
                               its own */
    kn_image_reader images; /* for images:FOLDER; without one these cannot be opened */
    const char
        *columns;     /* of csv:FILE: how to read its columns, as kn_dataset_columns says; NULL: found out */
    bool inputs_only; /* no "y": of csv:FILE also rows that have no target; of images: and wav: all files of a
                         folder and of those below it, or of an archive */
    bool same;        /* what should come out is what goes in: "y" is "x", whatever the source has */
    kn_archive_reader archives; /* for images:ARCHIVE and wav:ARCHIVE; without one these cannot be opened */
    bool skip_bad; /* leave out pictures and sounds that cannot be read, instead of failing at the first */
    bool labels;   /* of files: whole numbers in "y" are classes, of whatever shape, read as int32 */
    uint64_t
        rate; /* of wav:FOLDER: samples a second, where the word does not say; 0: those of the first file */
    /* Of images: and wav:, how many bytes of decoded samples are kept, those to judge by included; what has
     * no room is decoded anew whenever it is read, so that the files have to stay where they are, and the
     * reader as well. 0: all are kept. */
    uint64_t cache;
    /* Names of classes, a line each, such as those of the model that is to be judged: where the source has
     * names, too, its classes get the numbers of these; a name that is not among them fails
     * (KN_ERROR_NOT_FOUND). Names that are only their numbers do not count where the source has none of them.
     * Needed during the call only; NULL: the source's own order. */
    const char *classes;
} kn_dataset_params;
#define KN_DATASET_DEFAULTS                                                                                  \
    {                                                                                                        \
        sizeof(kn_dataset_params), {0, 0}, {0, KN_LOG_ERROR, 0}, 0, false, 0, 0, {0, 0}, 0, false, false,    \
            {0, 0}, false, false, 0, 0, 0                                                                    \
    }
KN_API void kn_dataset_params_init(kn_dataset_params *params);

/* Opens what one word names (kn_data_source_count and the like list all):
 *   digits, shapes    pictures that the library draws itself, with a part to judge by
 *   figures           the shapes again, with the class of each pixel: figure or ground
 *   wind, text, tones numbers, sentences and sounds that it makes
 *   digits:train      one part alone; also digits:test, and so on
 *   idx:FOLDER        the files train-images-idx3-ubyte, train-labels-idx1-ubyte,
 *                     t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte, each plain
 *                     or with .gz; one of the two parts is enough
 *   npy:X.npy,Y.npy   arrays whose first dimension counts the samples
 *   npz:FILE          the same in one file: the arrays x and y, or x_train, y_train, x_test and
 *                     y_test; npz:FILE?x=NAME&y=NAME
 *   cifar10:FOLDER    the .bin files of CIFAR-10's binary version; cifar100:FOLDER
 *   images:FOLDER     a folder for each class, or train/ and test/ or val/ with a
 *                     folder for each class; images:FOLDER?size=32&grey; also a .tar, .tar.gz
 *                     or .zip with such folders, read in place; or one file, without "y"
 *   wav:FOLDER        sounds in such folders or archives; wav:FOLDER?rate=8000&length=8000; or one file,
 * without "y" csv:FILE          a table: csv:FILE?target=COLUMN; x is float32 (inputs), y a class number or a
 * standardised number (1). Rows without a target are left out text:FILE         sequences of characters and,
 * at each place, the next one; the last tenth is the test part. text:FILE?bytes&length=64; with
 * vocabulary=512 in signs that are learnt, characters and what often stands together Bytes become float32
 * from 0 to 1; other "x" become float32 as they are. "y" is int32 class indices where there is one integer
 * per sample and none negative, otherwise float32. With `tokens` every array of integers becomes int32.
 * params NULL means defaults. */
KN_API kn_dataset *kn_dataset_open(const kn_dataset_params *params, const char *spec);

/* The sources, in the order in which people should read of them: how each is written, and what it is, in
 * lines without an end of line at the end. Static; NULL beyond the last. */
KN_API int kn_data_source_count(void);
KN_API const char *kn_data_source_usage(int position);
KN_API const char *kn_data_source_about(int position);

/* A field of arrays in the caller's memory. */
typedef struct kn_dataset_array {
    const char *name;    /* copied */
    kn_tensor_info info; /* of one sample, as it is stored */
    const void *data;    /* all samples, one after the other */
    size_t bytes;        /* there */
    kn_dtype as;         /* how it is read: KN_FLOAT32 or KN_INT32 */
    double scale;        /* multiplies what is read as float32; 0 means 1 */
} kn_dataset_array;
/* Samples from arrays, which stay the caller's and must outlive every handle made
 * from them. classes > 0 says that "y" holds class indices below that number. */
KN_API kn_dataset *kn_dataset_from_arrays(const kn_dataset_params *params, uint64_t samples,
                                          const kn_dataset_array *arrays, size_t count, int classes);

KN_API void kn_dataset_destroy(kn_dataset **dataset);
/* KN_OK if the dataset can be used. NULL gives KN_ERROR_MEMORY. */
KN_API kn_status kn_dataset_status(const kn_dataset *dataset);
/* What went wrong when it was made; "" if nothing. Valid as long as the dataset. */
KN_API const char *kn_dataset_error(const kn_dataset *dataset);

/* Number of samples; 0 for a failed one. */
KN_API uint64_t kn_dataset_count(const kn_dataset *dataset);
/* Number of classes where "y" holds class indices, for a sample or for each place of it, otherwise 0. */
KN_API int kn_dataset_classes(const kn_dataset *dataset);
/* The name of a class, where the source has names; otherwise NULL. Valid as long as the dataset. */
KN_API const char *kn_dataset_class_name(const kn_dataset *dataset, int class_index);
/* The file that a sample comes from, of pictures and sounds that were opened without "y"; NULL for other
 * data. Valid as long as the dataset. */
KN_API const char *kn_dataset_sample_name(const kn_dataset *dataset, uint64_t index);
/* The share of the variance of "y" that the best of all models could explain; NaN where nobody knows. */
KN_API double kn_dataset_explainable(const kn_dataset *dataset);
/* Of text: the signs by number, in UTF-8 one after the other; with U+001E before each where they are more
 * than characters;
 * "" for bytes; NULL for other data. Valid as long as the dataset. */
KN_API const char *kn_dataset_vocabulary(const kn_dataset *dataset);
/* The numbers of a text's signs by such a vocabulary, into room for as many as the text has bytes; *count of
 * them, for the first *bytes of the text. KN_ERROR_NOT_FOUND where it goes on with a character that is no
 * sign. allocator may be NULL. Thread-safety: any thread at any time. */
KN_API kn_status kn_text_encode(const kn_allocator *allocator, const char *vocabulary, const char *text,
                                int32_t *numbers, size_t *count, size_t *bytes);

/* Of sounds: samples a second; 0 for other data. */
KN_API uint64_t kn_dataset_rate(const kn_dataset *dataset);

/* Of a table: what its columns hold and how they become numbers, as JSON, for `columns` of the parameters
 * that other tables are opened with; NULL for other data. Valid as long as the dataset. */
KN_API const char *kn_dataset_columns(const kn_dataset *dataset);
/* A line for each column of a table, for people; of pictures, how many have become other than they are in
 * their files without being asked to; "" where nothing is to be said. Valid as long as the dataset. */
KN_API const char *kn_dataset_about(const kn_dataset *dataset);

/* How many samples could not be read and were left out (skip_bad), and a line for each that says why, for
 * people; 0 and
 * "" where there are none. The text is valid as long as the dataset. */
KN_API uint64_t kn_dataset_left_out(const kn_dataset *dataset);
KN_API const char *kn_dataset_left_out_text(const kn_dataset *dataset);

/* What is to be learnt of a table. */
typedef struct kn_table_target {
    size_t size;
    const char *name; /* valid as long as the dataset */
    /* "y" was standardised: in its own unit it is y * deviation + mean. deviation 0: classes, which have
     * names */
    double mean, deviation;
} kn_table_target;
/* False, and nothing is written, for other data. */
KN_API bool kn_dataset_target(const kn_dataset *dataset, kn_table_target *target);

typedef struct kn_field {
    const char *name;    /* valid as long as the dataset */
    kn_tensor_info info; /* of one sample, as it is read */
    size_t bytes;        /* of one sample, as it is read */
} kn_field;
KN_API size_t kn_dataset_field_count(const kn_dataset *dataset);
/* False, and nothing is written, when there is no such field. */
KN_API bool kn_dataset_field(const kn_dataset *dataset, size_t index, kn_field *field);
KN_API bool kn_dataset_find_field(const kn_dataset *dataset, const char *name, size_t *index);

/* Gathers one field of the samples at `indices`, one after the other; `bytes` must
 * be count times the field's. indices NULL means the first `count` samples. What
 * is wrong with a failing call goes to the log; nothing is written then. */
KN_API kn_status kn_dataset_read(const kn_dataset *dataset, const uint64_t *indices, uint64_t count,
                                 size_t field, void *destination, size_t bytes);

/* How much the numbers of a field vary: the mean square of their distance from the mean of their place in a
 * sample. Reads all samples twice. */
KN_API kn_status kn_dataset_variance(const kn_dataset *dataset, size_t field, double *variance);

/* Mean and standard deviation of each channel, of which a sample's first dimension tells, for kn_standardize
 * for example; 1 where a channel is the same everywhere. `channels` is that dimension. Reads all samples. */
KN_API kn_status kn_dataset_statistics(const kn_dataset *dataset, size_t field, float *means,
                                       float *deviations, size_t channels);

/* What each class should count so that all together count the same: samples / (classes * samples of the
 * class), for classes without samples 1. `count` is kn_dataset_classes(); KN_ERROR_ARGUMENT where samples
 * have no class each. */
KN_API kn_status kn_dataset_class_weights(const kn_dataset *dataset, float *weights, size_t count);

/* Whether the source came with a test part of its own. */
KN_API bool kn_dataset_has_test(const kn_dataset *dataset);
/* That part; a handle with KN_ERROR_NOT_FOUND if there is none. */
KN_API kn_dataset *kn_dataset_test(const kn_dataset *dataset);
/* Two datasets: about `fraction` (between 0 and 1) of the samples for validation,
 * drawn at random from the seed and from each class alike, and the others. Both
 * are always set; both carry the error, which is also answered, if there is one. */
KN_API kn_status kn_dataset_split(const kn_dataset *dataset, double fraction, uint64_t seed,
                                  kn_dataset **training, kn_dataset **validation);

/* ---- loaders -----------------------------------------------------------------
 * A loader walks over the samples, epoch after epoch, in an order that the seed
 * and the number of the epoch decide. Threads of its own prepare the next batches
 * while the caller works on the present one: the same, however many they are. After the loader is made it
 * allocates nothing, unless samples are decoded anew (kn_dataset_params.cache).
 * Thread-safety: a loader belongs to one thread at a time. */

typedef struct kn_loader kn_loader;

/* What is changed at random in the samples' "x", in this order; 0 and false: nothing. It depends on the seed,
 * the epoch and the sample alone; mixing on who is in its batch, too. Pictures are (channels,height,width).
 */
typedef struct kn_augmentation {
    size_t size;
    uint32_t shift; /* up to so many places along the last dimension, as of sound; zeros come in */
    uint32_t crop; /* of pictures: moved by up to so many pixels each way, as cropping does after padding with
                      zeros */
    bool flip;     /* of pictures: left and right change places, in every second one */
    double rotation;   /* of pictures: up to so many degrees to either side; zeros come in */
    double brightness; /* of pictures: times 1 - b to 1 + b */
    double contrast;   /* of pictures: distance from their mean times 1 - c to 1 + c */
    uint32_t cutout; /* of pictures: a square with so many pixels a side becomes 0, cut off at the borders */
    double noise;    /* deviation of normal noise that is added */
    double scale;    /* of pictures: times 1 - s to 1 + s in size, about the middle; with the rotation */
    double
        shear; /* of pictures: rows slide so that columns lean by up to so many degrees; with the rotation */
    double
        saturation; /* of coloured pictures: distance from grey times 1 - s to 1 + s; behind the contrast */
    double hue;     /* of coloured pictures: colours turn about the greys by up to so many degrees */
    /* Last of all, each sample of a batch is mixed with another one of it, its partner; the data needs a
     * class for each sample. The share of its own that a sample keeps is drawn from Beta(a, a), with a as
     * here. With both, half of the batches are mixed in each way. A loss that goes by both classes:
     * kn_model_add_mixed_loss. */
    double mix_up; /* numbers are weighed by the share */
    double
        cut_mix; /* of pictures: a rectangle comes from the partner; the share is what is left of the area */
} kn_augmentation;
#define KN_AUGMENTATION_DEFAULTS                                                                             \
    { sizeof(kn_augmentation), 0, 0, false, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/* Adds to *augmentation what a text says: "flip,crop=4,cutout=8", or "none". Words: flip, crop=N, shift=N,
 * rotate=DEGREES, scale=S, shear=DEGREES, brightness=B, contrast=C, saturation=S, hue=DEGREES, cutout=N,
 * noise=N, mix-up=A, cut-mix=A. A text that makes no sense is KN_ERROR_ARGUMENT, and `message` (which may be
 * NULL) gets why, cut off at `bytes`. Whether numbers are too large is told where samples are to be changed.
 * Thread-safety: any thread at any time. */
KN_API kn_status kn_augmentation_read(const char *text, kn_augmentation *augmentation, char *message,
                                      size_t bytes);

typedef struct kn_loader_params {
    size_t size;
    uint64_t batch;  /* samples in a batch; more than 0 */
    uint64_t seed;   /* of the order */
    bool no_shuffle; /* take the samples in their own order */
    bool drop_last;  /* leave out the last batch of an epoch if it is not full */
    /* No shuffle: what follows a sample in the dataset stands in its place in the next batch, so that each
     * place goes through a part of the dataset, for layers whose state goes on. What fills no batch is left
     * out. */
    bool in_sequence;
    /* Classes come up alike, however many samples they have: an epoch has as many samples as without, those
     * of small classes several times and not all of large ones. Needs classes, and the shuffle. */
    bool balanced;
    const kn_augmentation *augmentation; /* copied; NULL: samples stay as they are */
    int workers; /* threads that prepare a batch each, of 16 at most; 0: as many as there is work for */
} kn_loader_params;
#define KN_LOADER_DEFAULTS                                                                                   \
    { sizeof(kn_loader_params), 64, 0, false, false, false, false, 0, 0 }
KN_API void kn_loader_params_init(kn_loader_params *params);

/* Starts at batch 0 of epoch 0. Uses the dataset's allocator and log. */
KN_API kn_loader *kn_loader_create(const kn_dataset *dataset, const kn_loader_params *params);
KN_API void kn_loader_destroy(kn_loader **loader);
KN_API kn_status kn_loader_status(const kn_loader *loader);
KN_API const char *kn_loader_error(const kn_loader *loader);
/* Batches in an epoch; 0 for a failed loader. */
KN_API uint64_t kn_loader_batches(const kn_loader *loader);

/* Everything here stays the loader's, and is valid until its next call. */
typedef struct kn_batch {
    size_t size;
    uint64_t count; /* samples in it; 0 at the end of an epoch */
    uint64_t epoch, index;
    const uint64_t *samples; /* their indices in the dataset */
    /* One for each field of the dataset, in its order. Where samples are mixed, two more: "y.other", int32
     * (count), the classes of the partners, and "y.share", float32 (count), how much of a sample is its own.
     */
    const kn_feed *feeds;
    size_t feed_count;
} kn_batch;
#define KN_BATCH_DEFAULTS                                                                                    \
    { sizeof(kn_batch), 0, 0, 0, 0, 0, 0 }

/* The next batch; it waits until one is ready. At the end of an epoch it answers
 * KN_OK with count 0 once; the call after that goes on with the next epoch. A sample
 * that is decoded anew and cannot be read any more fails the loader for good. */
KN_API kn_status kn_loader_next(kn_loader *loader, kn_batch *batch);
/* Goes on from another place, as a continued training does. `batch` may be
 * kn_loader_batches(), the end of the epoch. */
KN_API kn_status kn_loader_seek(kn_loader *loader, uint64_t epoch, uint64_t batch);
/* Seconds that kn_loader_next has waited for batches that were not ready. */
KN_API double kn_loader_waited(const kn_loader *loader);

#ifdef __cplusplus
}
#endif
#endif
