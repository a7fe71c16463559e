/* Datasets: samples for training and validation, and loaders, which deliver them in batches.
 *
 * A dataset is a number of samples; each sample has fields, by convention "x" (the input) and "y" (the
 * target). Samples never change.
 *
 *     kn_dataset *all = kn_dataset_open("digits", NULL);
 *     kn_loader_params params = KN_LOADER_DEFAULTS;
 *     params.batch = 32;
 *     kn_loader *loader = kn_loader_create(all, &params);
 *     kn_batch batch = KN_BATCH_DEFAULTS;
 *     kn_status status = KN_OK;
 *     while (status == KN_OK && (status = kn_loader_next(loader, &batch)) == KN_OK && batch.count > 0)
 *         status = kn_trainer_step(trainer, (int64_t)batch.count, batch.feeds, batch.feed_count, NULL);
 *     kn_loader_destroy(&loader);
 *     kn_dataset_destroy(&all);
 *
 * Ownership: the caller destroys what the functions here create, in any order: handles made from one another
 * hold references to the samples. Functions that create return NULL only when out of memory, otherwise a
 * handle that may carry an error, which every handle made from it carries too. Every function accepts NULL
 * handles. */
#ifndef KOINE_DATA_H
#define KOINE_DATA_H

#include <koine/host.h>
#include <koine/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- datasets ---------------------------------------------------------------
 *
 * Thread-safety: several threads may use a dataset at the same time, except while it is destroyed. */

typedef struct kn_dataset kn_dataset;

/* An image in memory. */
typedef struct kn_image {
    size_t size;
    int64_t width, height;
    int channels;      /* 1: grey, 3: RGB */
    uint8_t *pixels;   /* (height,width,channels) */
    int file_channels; /* channels in the file, 1 or 3; 0: unknown */
} kn_image;
#define KN_IMAGE_DEFAULTS KN_DEFAULTS_ZERO(kn_image)

/* Decodes image files: libkoine-images has a reader for JPEG and PNG (koine/images.h), a program may provide
 * its own. Called from several threads at once. On entry `image` has the requested number of channels; `read`
 * sets its width, height, pixels (allocated from `allocator` by resizing NULL) and, where known, the channels
 * of the file; or it writes the error to `message` and allocates nothing. It refuses files of more than
 * `max_pixels` before allocating memory for them. */
typedef struct kn_image_reader {
    void *user;
    kn_status (*read)(void *user, const kn_allocator *allocator, const void *bytes, size_t count,
                      uint64_t max_pixels, kn_image *image, char *message, size_t size);
} kn_image_reader;

/* Reads archives of files: libkoine-images has a reader (koine/images.h) for tar, gzipped or not, and zip.
 * `read` visits the regular files of the archive at `path` in order and asks the visitor, with the file's
 * name ('/' between folders), whether it wants the contents: at most `max_bytes`, allocated from `allocator`
 * by resizing NULL, then owned by the visitor. It stops when `take` returns other than KN_OK and returns that
 * status; its own errors are written to `message`. */
typedef struct kn_archive_visitor {
    void *user;
    bool (*wants)(void *user, const char *name);
    kn_status (*take)(void *user, const char *name, void *bytes, size_t count);
} kn_archive_visitor;
typedef struct kn_archive_reader {
    void *user;
    kn_status (*read)(void *user, const kn_allocator *allocator, const char *path, uint64_t max_bytes,
                      const kn_archive_visitor *visitor, char *message, size_t size);
} kn_archive_reader;

typedef struct kn_dataset_params {
    size_t size; /* of this struct, in the calling program's version */
    kn_allocator allocator;
    kn_logger log;
    uint64_t max_samples; /* use at most this many samples of each part, the first ones; 0: all */
    bool tokens;          /* of files: integers are tokens, read as int32 */
    /* Shape and type of one sample of "x" that the caller's model expects, to which some sources adapt: text
     * to a length, generated images to a larger size. Needed only during the call; NULL: the source chooses.
     */
    const kn_tensor_info *expected;
    /* of text:FILE: the vocabulary, as kn_dataset_vocabulary returns it; NULL: made from the file */
    const char *vocabulary;
    kn_image_reader images; /* needed for images:FOLDER */
    /* of csv:FILE: how to read its columns, as kn_dataset_columns returns it; NULL: detected */
    const char *columns;
    /* no "y": of csv:FILE, includes rows without a target; of images: and wav:, all files of a folder and its
     * subfolders, or of an archive */
    bool inputs_only;
    bool target_is_input;       /* the target is the input: "y" is "x", whatever the source has */
    kn_archive_reader archives; /* needed for images:ARCHIVE and wav:ARCHIVE */
    bool skip_bad;        /* skip images and sounds that cannot be decoded instead of failing at the first */
    bool labels;          /* of files: integers in "y" are class indices, of any shape, read as int32 */
    uint64_t sample_rate; /* of wav:FOLDER: samples per second, unless the spec sets it; 0: that of the first
                             file */
    /* Of images: and wav:, the number of bytes of decoded samples, test samples included, to keep in memory.
     * Other samples are decoded at each read, so the files must stay in place and the reader valid. 0: keep
     * all. */
    uint64_t cache_bytes;
    /* Class names, one per line, such as those of the model to evaluate. A source with names numbers its
     * classes in this order; a name that is missing here is KN_ERROR_NOT_FOUND. For a source without names,
     * names that are just numbers are ignored. Needed only during the call; NULL: the source's own order. */
    const char *classes;
    /* For text:, chat: and jsonl:, the path of a language model's vocabulary, as for kn_vocabulary_open; the
     * samples are its tokens. NULL: text: reads characters; chat: and jsonl: fail. */
    const char *tokenizer;
    bool all_tokens; /* for chat: and jsonl:, all tokens are targets, not only those of answers */
} kn_dataset_params;
#define KN_DATASET_DEFAULTS KN_DEFAULTS_ZERO(kn_dataset_params)
KN_API void kn_dataset_params_init(kn_dataset_params *params);

/* Opens the dataset that a spec names (kn_data_source_count and the functions after it list all sources):
 *   digits, shapes    images that the library draws, with a test part
 *   figures           the same shapes, with the class of each pixel: figure or ground
 *   wind, text, tones generated numbers, sentences and sounds
 *   digits:train      only one part; also digits:test, and so on
 *   idx:FOLDER        the files train-images-idx3-ubyte, train-labels-idx1-ubyte,
 *                     t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte, each plain
 *                     or with .gz; one of the two parts is enough
 *   npy:X.npy,Y.npy   arrays whose first dimension is the sample
 *   npz:FILE          the same in one file: the arrays x and y, or x_train, y_train, x_test and
 *                     y_test; npz:FILE,x=NAME,y=NAME
 *   cifar10:FOLDER    the .bin files of CIFAR-10's binary version; cifar100:FOLDER
 *   images:FOLDER     a folder for each class, or train/ and test/ or val/ with a
 *                     folder for each class; images:FOLDER,size=32,grey; also a .tar, .tar.gz
 *                     or .zip with such folders, read in place; or one file, without "y"
 *   wav:FOLDER        sounds in such folders or archives; wav:FOLDER,rate=8000,length=8000;
 *                     or one file, without "y"
 *   csv:FILE          a table: csv:FILE,target=COLUMN; x is float32 (inputs), y a class index or a
 *                     standardised number (1). Rows without a target are skipped
 *   text:FILE         sequences of characters with the next character at each position as the
 *                     target; the last tenth is the test part. text:FILE,bytes,length=64; with
 *                     vocabulary=512 as tokens: characters and frequent sequences of them; with
 *                     kn_dataset_params.tokenizer as tokens of its vocabulary
 *   chat:FILE, jsonl:FILE  a conversation or a text per line, as tokens of that vocabulary:
 *                     {"messages": [...]}, {"prompt": ..., "completion": ...} or {"text": ...}. Targets
 *                     that are not part of an answer, and padding, are -100. chat:FILE,pack: several
 *                     texts per sample, and a field "first" for kn_model_pack
 * Bytes become float32 from 0 to 1; other "x" become float32 unscaled. "y" is int32 class indices if there is
 * one integer per sample and none is negative, otherwise float32. With `tokens` every array of integers
 * becomes int32. params NULL means defaults. */
KN_API KN_NODISCARD kn_dataset *kn_dataset_open(const char *spec, const kn_dataset_params *params);

/* The sources, in the order in which help should list them: the syntax of each, and its description, which
 * may have several lines and does not end in a newline. Static; NULL past the last. */
KN_API size_t kn_data_source_count(void);
KN_API const char *kn_data_source_usage_at(size_t position);
KN_API const char *kn_data_source_about_at(size_t position);

/* A field whose samples are an array in the caller's memory. */
typedef struct kn_dataset_array {
    const char *name;    /* copied */
    kn_tensor_info info; /* of one sample, as stored */
    const void *data;    /* all samples, contiguous */
    size_t bytes;        /* size of data */
    kn_dtype as;         /* element type when read: KN_FLOAT32 or KN_INT32 */
    double scale;        /* factor applied when read as float32; 0 means 1 */
} kn_dataset_array;
/* A dataset over arrays that the caller owns and that must outlive every handle made from them. classes > 0
 * says that "y" holds class indices below that number. */
KN_API KN_NODISCARD kn_dataset *kn_dataset_create_from_arrays(uint64_t samples,
                                                              const kn_dataset_array *arrays, size_t count,
                                                              int classes, const kn_dataset_params *params);

KN_API void kn_dataset_destroy(kn_dataset **dataset);
/* KN_OK if the dataset can be used. NULL gives KN_ERROR_MEMORY. */
KN_API kn_status kn_dataset_status(const kn_dataset *dataset);
/* Why the dataset could not be created; "" if nothing failed. Valid as long as the dataset. */
KN_API const char *kn_dataset_error(const kn_dataset *dataset);

/* Number of samples; 0 for a failed dataset. */
KN_API uint64_t kn_dataset_count(const kn_dataset *dataset);
/* Number of classes if "y" holds class indices, one per sample or one per position, otherwise 0. */
KN_API int kn_dataset_classes(const kn_dataset *dataset);
/* The name of a class if the source has names, otherwise NULL. Valid as long as the dataset. */
KN_API const char *kn_dataset_class_name(const kn_dataset *dataset, int class_index);
/* The file of a sample, for images and sounds opened without "y"; NULL for other data. Valid as long as the
 * dataset. */
KN_API const char *kn_dataset_sample_name(const kn_dataset *dataset, uint64_t index);
/* The R2 of a perfect model: the fraction of the variance of "y" that is not noise; NaN if unknown. */
KN_API double kn_dataset_max_r2(const kn_dataset *dataset);
/* The vocabulary of text data: the tokens in the order of their ids, in UTF-8, concatenated; each preceded by
 * U+001E if tokens may be longer than one character; "" for bytes; NULL for other data. Valid as long as the
 * dataset. */
KN_API const char *kn_dataset_vocabulary(const kn_dataset *dataset);
/* Encodes a text as token ids with such a vocabulary. `numbers` has room for one id per byte of the text;
 * *count is set to the number of ids and *bytes to the length of the text that they encode.
 * KN_ERROR_NOT_FOUND if the next character is not a token. allocator may be NULL. Thread-safe. */
KN_API kn_status kn_text_encode(const kn_allocator *allocator, const char *vocabulary, const char *text,
                                int32_t *numbers, size_t *count, size_t *bytes);

/* The samples per second of sounds; 0 for other data. */
KN_API uint64_t kn_dataset_sample_rate(const kn_dataset *dataset);

/* What the columns of a table hold and how they are converted to numbers, as JSON, for
 * kn_dataset_params.columns of other tables; NULL for other data. Valid as long as the dataset. */
KN_API const char *kn_dataset_columns(const kn_dataset *dataset);
/* A description for people: a line per column of a table; how many images were converted from another format;
 * "" if there is nothing to report. Valid as long as the dataset. */
KN_API const char *kn_dataset_about(const kn_dataset *dataset);

/* The number of samples that were skipped because they could not be decoded (skip_bad), and a line for each
 * with the reason; 0 and "" if there are none. The string is valid as long as the dataset. */
KN_API uint64_t kn_dataset_skipped(const kn_dataset *dataset);
KN_API const char *kn_dataset_skipped_text(const kn_dataset *dataset);

/* The target column of a table. */
typedef struct kn_table_target {
    size_t size;
    const char *name; /* valid as long as the dataset */
    /* "y" was standardised: in its original unit it is y * deviation + mean. deviation 0: classes, which have
     * names */
    double mean, deviation;
} kn_table_target;
#define KN_TABLE_TARGET_DEFAULTS KN_DEFAULTS_ZERO(kn_table_target)
/* False, and *target is unchanged, for other data. */
KN_API bool kn_dataset_target(const kn_dataset *dataset, kn_table_target *target);

typedef struct kn_dataset_field {
    size_t size;
    const char *name;    /* valid as long as the dataset */
    kn_tensor_info info; /* of one sample, as read */
    size_t bytes;        /* of one sample, as read */
    /* Not 0: the samples are stored as uint8 and read as float32, each element as (float)scale times its
     * byte; loaders can deliver the bytes (kn_loader_params). */
    double scale;
} kn_dataset_field;
#define KN_DATASET_FIELD_DEFAULTS KN_DEFAULTS_ZERO(kn_dataset_field)
KN_API size_t kn_dataset_field_count(const kn_dataset *dataset);
/* False, and nothing is written, when there is no such field. */
KN_API bool kn_dataset_field_at(const kn_dataset *dataset, size_t index, kn_dataset_field *field);
KN_API bool kn_dataset_find_field(const kn_dataset *dataset, const char *name, size_t *index);

/* Gathers one field of the samples at `indices` into a contiguous array; `bytes` must be count times the
 * field's bytes. indices NULL means the first `count` samples. A failing call leaves the destination
 * unchanged and writes the reason to `message`, truncated to `size` bytes; message NULL: not wanted. */
KN_API KN_NODISCARD kn_status kn_dataset_read(const kn_dataset *dataset, const uint64_t *indices,
                                              uint64_t count, size_t field, void *destination, size_t bytes,
                                              char *message, size_t size);

/* The variance of a field: the mean squared distance of its elements from the mean of the same element over
 * all samples. Reads all samples twice. */
KN_API kn_status kn_dataset_variance(const kn_dataset *dataset, size_t field, double *variance);

/* Mean and standard deviation of each channel (the first dimension of a sample), for example for
 * kn_standardize; the deviation is 1 where a channel is constant. `channels` is that dimension. Reads all
 * samples. */
KN_API kn_status kn_dataset_statistics(const kn_dataset *dataset, size_t field, float *means,
                                       float *deviations, size_t channels);

/* Class weights that give all classes the same total weight: samples / (classes * samples of the class); 1
 * for classes without samples. `count` is kn_dataset_classes(); KN_ERROR_ARGUMENT if samples do not have one
 * class each. */
KN_API kn_status kn_dataset_class_weights(const kn_dataset *dataset, float *weights, size_t count);

/* Whether the source has a test part. */
KN_API bool kn_dataset_has_test(const kn_dataset *dataset);
/* The test part; a handle with KN_ERROR_NOT_FOUND if there is none. */
KN_API KN_NODISCARD kn_dataset *kn_dataset_test(const kn_dataset *dataset);
/* Splits a dataset: about `fraction` (between 0 and 1) of the samples go to validation, drawn at random by
 * seed and stratified by class; the other samples go to training. Both handles are always set; on failure
 * both carry the error that is returned. */
KN_API kn_status kn_dataset_split(const kn_dataset *dataset, double fraction, uint64_t seed,
                                  kn_dataset **training, kn_dataset **validation);

/* ---- loaders -----------------------------------------------------------------
 *
 * A loader iterates over the samples, epoch after epoch, in an order determined by the seed and the epoch.
 * Worker threads prepare the next batches while the caller works on the current one; the batches are the same
 * whatever the number of threads. A loader allocates nothing after its creation, unless samples are decoded
 * at each read (kn_dataset_params.cache_bytes).
 *
 * Thread-safety: a loader belongs to one thread at a time. */

typedef struct kn_loader kn_loader;

/* Random changes of the samples' "x", applied in this order; 0 and false: none. They depend only on the seed,
 * the epoch and the sample; mixing also depends on the other samples of the batch. Images are
 * (channels,height,width). */
typedef struct kn_augmentation {
    size_t size;
    /* up to this many positions along the last dimension, such as time; zeros are shifted in */
    uint32_t shift;
    /* of images: moved by up to this many pixels in each direction, as by zero padding and cropping */
    uint32_t crop;
    bool flip;         /* of images: mirrored left to right with probability 1/2 */
    double rotation;   /* of images: by up to this many degrees in either direction; zeros are rotated in */
    double brightness; /* of images: multiplied by 1 - b to 1 + b */
    double contrast;   /* of images: distance from their mean multiplied by 1 - c to 1 + c */
    uint32_t cutout; /* of images: a square of this side in pixels becomes 0; it may extend past the border */
    double noise;    /* standard deviation of added normal noise */
    /* of images: resized by a factor from 1 - s to 1 + s about the centre, together with the rotation */
    double scale;
    /* of images: rows shift so that columns lean by up to this many degrees, together with the rotation */
    double shear;
    /* of RGB images: distance from grey multiplied by 1 - s to 1 + s, after the contrast */
    double saturation;
    double hue; /* of RGB images: colours are rotated about the grey axis by up to this many degrees */
    /* Last, each sample of a batch is mixed with another sample of the batch, its partner; this needs one
     * class per sample. The fraction that a sample keeps of itself is drawn from Beta(a, a), with a as set
     * here. If both are set, half of the batches are mixed in each way. kn_model_add_mixed_loss is a loss
     * that uses both classes. */
    double mix_up;  /* elements are averaged with weights fraction and 1 - fraction */
    double cut_mix; /* of images: a rectangle comes from the partner; the fraction is the remaining area */
} kn_augmentation;
#define KN_AUGMENTATION_DEFAULTS KN_DEFAULTS_ZERO(kn_augmentation)

/* Parses a text such as "flip,crop=4,cutout=8" or "none" into *augmentation. Words: flip, crop=N, shift=N,
 * rotate=DEGREES, scale=S, shear=DEGREES, brightness=B, contrast=C, saturation=S, hue=DEGREES, cutout=N,
 * noise=N, mix-up=A, cut-mix=A. Returns KN_ERROR_ARGUMENT for a malformed text, with the reason in `message`
 * (may be NULL), truncated to `size` bytes. Whether a number is too large for the samples is checked when
 * they are loaded. Thread-safe. */
KN_API kn_status kn_augmentation_read(const char *text, kn_augmentation *augmentation, char *message,
                                      size_t size);

/* Whether elements are only moved or set to 0 (shift, crop, flip, cutout), which bytes can be as well. NULL:
 * true. Thread-safe. */
KN_API bool kn_augmentation_keeps_bytes(const kn_augmentation *augmentation);

typedef struct kn_loader_params {
    size_t size;
    uint64_t batch;  /* samples per batch; above 0 */
    uint64_t seed;   /* of the order */
    bool no_shuffle; /* keep the dataset's order */
    bool drop_last;  /* drop the last batch of an epoch if it is incomplete */
    /* Without shuffling: the sample at one position of a batch is followed by its successor at the same
     * position of the next batch, so that each position traverses one range of the dataset; for layers that
     * keep their state between batches. Samples that do not fill a batch are dropped. */
    bool in_sequence;
    /* Classes occur equally often whatever their size: an epoch has as many samples as otherwise, repeating
     * those of small classes and omitting some of large ones. Needs classes and shuffling. */
    bool balanced;
    const kn_augmentation *augmentation; /* copied; NULL: samples are unchanged */
    int workers; /* threads that prepare one batch each, at most 16; 0: as many as are useful */
    /* Fields with a kn_dataset_field.scale other than 0 are delivered as the stored bytes, with that scale in
     * their kn_feed, and converted by the device: a quarter of the upload. "x" stays float32 if augmentation
     * computes its elements (kn_augmentation_keeps_bytes). */
    bool bytes;
    /* Deliver only own_shards shards from first_shard on, of the `shards` into which each batch is cut
     * (kn_trainer_params). shards 0: whole batches. */
    int shards, first_shard, own_shards;
} kn_loader_params;
#define KN_LOADER_DEFAULTS KN_DEFAULTS(kn_loader_params, KN_FIELD(batch, 64))
KN_API void kn_loader_params_init(kn_loader_params *params);

/* Starts at batch 0 of epoch 0. Uses the dataset's allocator and log. */
KN_API KN_NODISCARD kn_loader *kn_loader_create(const kn_dataset *dataset, const kn_loader_params *params);
KN_API void kn_loader_destroy(kn_loader **loader);
KN_API kn_status kn_loader_status(const kn_loader *loader);
KN_API const char *kn_loader_error(const kn_loader *loader);
/* Batches in an epoch; 0 for a failed loader. */
KN_API uint64_t kn_loader_batches(const kn_loader *loader);

/* Everything here belongs to the loader and is valid until the next call on it. */
typedef struct kn_batch {
    size_t size;
    uint64_t count; /* samples in the whole batch, delivered or not; 0 at the end of an epoch */
    uint64_t epoch, index;
    const uint64_t *samples; /* indices in the dataset of the delivered samples */
    /* One per field of the dataset, in order. If samples are mixed there are two more: "y.other", int32
     * (count), the partners' classes, and "y.share", float32 (count), the fraction that each sample keeps of
     * itself. */
    const kn_feed *feeds;
    size_t feed_count;
} kn_batch;
#define KN_BATCH_DEFAULTS KN_DEFAULTS_ZERO(kn_batch)

/* Returns the next batch and blocks until it is ready. At the end of an epoch it returns KN_OK with count 0
 * once; the call after that continues with the next epoch. A sample that can no longer be decoded fails the
 * loader permanently. The first sample of a source whose numbers are not all finite is reported to the
 * dataset's log, as a warning. */
KN_API KN_NODISCARD kn_status kn_loader_next(kn_loader *loader, kn_batch *batch);
/* Continues from another position, as a resumed training run does. `batch` may be kn_loader_batches(), the
 * end of the epoch. */
KN_API kn_status kn_loader_seek(kn_loader *loader, uint64_t epoch, uint64_t batch);
/* Total time in seconds for which kn_loader_next has blocked. */
KN_API double kn_loader_wait_seconds(const kn_loader *loader);

#ifdef __cplusplus
}
#endif
#endif
