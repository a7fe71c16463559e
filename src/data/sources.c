/* The sources: what may be opened by one word, and what people are told about each. */
#include "data/dataset_private.h"

#include <stdio.h>
#include <string.h>

typedef struct source_row {
    const char *name, *usage, *text;
    const kn_made_kind *made; /* what the library makes, or */
    kn_status (*open)(kn_dataset *dataset, const char *rest,
                      const kn_source_options *options); /* what it reads */
    bool alone;                                          /* may stand without anything behind it */
} source_row;

/* The readers of files want what stands behind the colon. */
static kn_status open_idx(kn_dataset *dataset, const char *rest, const kn_source_options *options) {
    return kn_source_idx(dataset, rest + 1, options);
}

static kn_status open_npy(kn_dataset *dataset, const char *rest, const kn_source_options *options) {
    return kn_source_npy(dataset, rest + 1, options);
}

static kn_status open_cifar10(kn_dataset *dataset, const char *rest, const kn_source_options *options) {
    return kn_source_cifar10(dataset, rest + 1, options);
}

static kn_status open_cifar100(kn_dataset *dataset, const char *rest, const kn_source_options *options) {
    return kn_source_cifar100(dataset, rest + 1, options);
}

static const source_row sources[] = {
    {.name = "digits",
     .usage = "digits",
     .text = "drawn digits: ten classes of 28x28 grey pixels, 50,000 to train on and 10,000 to judge by",
     .made = &kn_made_digits},
    {.name = "shapes",
     .usage = "shapes",
     .text = "five outlines in two textures: ten classes of 32x32 pixels in colour, 20,000 and 4,000",
     .made = &kn_made_shapes},
    {.name = "figures",
     .usage = "figures",
     .text = "the same pictures, each pixel being figure or ground: 4,000 and 1,000",
     .made = &kn_made_figures},
    {.name = "wind",
     .usage = "wind",
     .text = "the speed of the wind (m/s) from pressure, altitude, temperature and day of the year, "
             "standardised, each\n"
             "with a 1 beside it where it is missing: 8 numbers in, 1 out, 20,000 and 5,000",
     .made = &kn_made_wind},
    {.name = "text",
     .usage = "text[?length=N&stride=N]",
     .text = "sentences of a small grammar in 30 signs, a million to train on and 100,000 to judge by: "
             "sequences of N signs\n"
             "(what the model reads, else 64), one beginning every `stride` signs (N), and at each place the "
             "next sign",
     .open = kn_source_sequences,
     .alone = true},
    {.name = "tones",
     .usage = "tones",
     .text = "eight spoken commands, a second of sound at 8 kHz each, 8,000 and 2,000",
     .made = &kn_made_tones},
    {.name = "text",
     .usage = "text:FILE[?length=N&stride=N&vocabulary=N&bytes]",
     .text = "a text in UTF-8, character by character, in N signs that are learnt from it, characters and "
             "what often stands\n"
             "together, or any file byte by byte; its last tenth is held out to judge by",
     .open = kn_source_sequences},
    {.name = "csv",
     .usage = "csv:FILE?target=COLUMN[&without=COLUMN,COLUMN&classes|number]",
     .text =
         "a table whose first line names the columns: numbers and dates are standardised, categories and "
         "what is missing\n"
         "get places of their own; the target is a number, or classes where it is text or counts from 0 or 1",
     .open = kn_source_csv},
    {.name = "images",
     .usage = "images:PATH[?size=WIDTHxHEIGHT&grey]",
     .text = "JPEG and PNG: a folder for each class, or train/ and test/ or val/ with a folder for each "
             "class;\nthe middle "
             "of each picture, scaled to the size (what the model reads, else that of the first);\na .tar, "
             ".tar.gz or .zip with such folders is read in place",
     .open = kn_source_images},
    {.name = "wav",
     .usage = "wav:PATH[?rate=N&length=N]",
     .text = "sounds in WAV files, a folder for each class, or train/ and test/ or val/ with a folder for "
             "each class; the mean of\n"
             "their channels, at a rate (that of the first), the begin of each, N numbers (what the model "
             "reads, else as many as\n"
             "the first has), or all of it and silence; a .tar, .tar.gz or .zip with such folders is read in "
             "place",
     .open = kn_source_wave},
    {.name = "idx",
     .usage = "idx:FOLDER",
     .text = "the four files of MNIST and its kin, each plain or with .gz; one of the two parts is enough",
     .open = open_idx},
    {.name = "cifar10",
     .usage = "cifar10:FOLDER",
     .text = "the six .bin files of CIFAR-10's binary version; its classes have names where batches.meta.txt "
             "is there",
     .open = open_cifar10},
    {.name = "cifar100",
     .usage = "cifar100:FOLDER",
     .text = "train.bin and test.bin of CIFAR-100's binary version; classes are the hundred of "
             "fine_label_names.txt",
     .open = open_cifar100},
    {.name = "npy",
     .usage = "npy:X.npy,Y.npy",
     .text = "what goes in and what should come out, as numpy.save writes them; for models that read tokens, "
             "such as gpt,\n"
             "whole numbers (samples,length) in both",
     .open = open_npy},
    {.name = "npz",
     .usage = "npz:FILE[?x=NAME&y=NAME]",
     .text = "the same two arrays in one file, as numpy.savez and savez_compressed write them: those called "
             "x and y, or\n"
             "x_train and y_train, to judge by x_test and y_test; or two that are named",
     .open = kn_source_npz},
};

int kn_data_source_count(void) {
    return (int)KN_COUNT_OF(sources);
}

const char *kn_data_source_usage(int position) {
    return position >= 0 && position < kn_data_source_count() ? sources[position].usage : NULL;
}

const char *kn_data_source_about(int position) {
    return position >= 0 && position < kn_data_source_count() ? sources[position].text : NULL;
}

static kn_status fail_unknown(kn_error *error, const char *spec, size_t length) {
    const char *names[KN_COUNT_OF(sources)];
    char word[32] = "", list[500] = "";
    if (length < sizeof word) memcpy(word, spec, length);
    for (size_t i = 0; i < KN_COUNT_OF(sources); i++) {
        names[i] = sources[i].name;
        size_t used = strlen(list), usage = strcspn(sources[i].usage, "[");
        snprintf(list + used, sizeof list - used, "%s%.*s",
                 i == 0                          ? ""
                 : i + 1 == KN_COUNT_OF(sources) ? " or "
                                                 : ", ",
                 (int)usage, sources[i].usage);
    }
    const char *near = kn_nearest_word(word, names, KN_COUNT_OF(names));
    return kn_fail(error, KN_ERROR_ARGUMENT, "data \"%s\": expected %s%s%s%s", spec, list,
                   near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
}

kn_status kn_source_open(kn_dataset *dataset, const char *spec, const kn_source_options *options) {
    size_t length = strcspn(spec, ":?");
    const char *rest = spec + length;
    for (size_t i = 0; i < KN_COUNT_OF(sources); i++) {
        const source_row *row = &sources[i];
        if (strlen(row->name) != length || memcmp(row->name, spec, length) != 0) continue;
        if (row->made && rest[0] != '?')
            return kn_source_made(dataset, row->made, rest[0] ? rest + 1 : NULL, options);
        if (row->open && (row->alone || rest[0] == ':')) return row->open(dataset, rest, options);
    }
    return fail_unknown(&dataset->error, spec, length);
}
