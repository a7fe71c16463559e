/* The table of sources: what can be opened by name, with the help for each. */
#include "data/dataset_private.h"

#include <stdio.h>
#include <string.h>

typedef struct source_row {
    const char *name, *usage, *text;
    const kn_made_kind *made; /* generated data, or */
    kn_status (*open)(kn_dataset *dataset, const char *rest,
                      const kn_source_options *options); /* what opens it */
    bool alone;                                          /* may stand without a path */
} source_row;

/* Readers of files get what follows the colon. */
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
     .text = "drawn digits: ten classes of 28x28 grey pixels, 50,000 for training and 10,000 for testing",
     .made = &kn_made_digits},
    {.name = "shapes",
     .usage = "shapes",
     .text = "five outlines in two textures: ten classes of 32x32 pixels in colour, 20,000 and 4,000",
     .made = &kn_made_shapes},
    {.name = "figures",
     .usage = "figures",
     .text = "the same images; the target is figure or ground for each pixel: 4,000 and 1,000",
     .made = &kn_made_figures},
    {.name = "wind",
     .usage = "wind",
     .text = "the speed of the wind (m/s) from pressure, altitude, temperature and day of the year, "
             "standardised,\neach with a flag for missing values: 8 inputs, 1 output, 20,000 and 5,000",
     .made = &kn_made_wind},
    {.name = "text",
     .usage = "text[?length=N&stride=N]",
     .text = "sentences of a small grammar in 30 characters, a million for training and 100,000 for testing: "
             "sequences of\nN characters (as the model expects, else 64), one every `stride` characters (N); "
             "the target is the next\ncharacter at each position",
     .open = kn_source_sequences,
     .alone = true},
    {.name = "tones",
     .usage = "tones",
     .text = "eight spoken commands, a second of sound at 8 kHz each, 8,000 and 2,000",
     .made = &kn_made_tones},
    {.name = "text",
     .usage = "text:FILE[?length=N&stride=N&vocabulary=N&bytes]",
     .text = "a text in UTF-8, as characters, as N byte-pair tokens trained on it, or any file as bytes; its "
             "last tenth\nis the test part",
     .open = kn_source_sequences},
    {.name = "csv",
     .usage = "csv:FILE?target=COLUMN[&without=COLUMN,COLUMN&classes|number]",
     .text = "a table whose first line names the columns: numbers and dates are standardised, categories and "
             "missing\nvalues are one-hot; the target is a number, or classes if it is text or counts from 0 "
             "or 1",
     .open = kn_source_csv},
    {.name = "images",
     .usage = "images:PATH[?size=WIDTHxHEIGHT&grey]",
     .text = "JPEG and PNG: a folder for each class, or train/ and test/ or val/ with a folder for each "
             "class;\nthe centre of each image, scaled to the size (as the model expects, else that of the "
             "first);\na .tar, "
             ".tar.gz or .zip with such folders is read in place",
     .open = kn_source_images},
    {.name = "wav",
     .usage = "wav:PATH[?rate=N&length=N]",
     .text = "sounds in WAV files, a folder for each class, or train/ and test/ or val/ with a folder for "
             "each class; the mean of\ntheir channels, resampled to one rate (that of the first) and cut or "
             "padded to N samples (as the model\nexpects, else as many as the first has); a .tar, .tar.gz or "
             ".zip with such folders is read in "
             "place",
     .open = kn_source_wave},
    {.name = "idx",
     .usage = "idx:FOLDER",
     .text = "the four files of MNIST and similar datasets, each plain or with .gz; one of the two parts is "
             "enough",
     .open = open_idx},
    {.name = "cifar10",
     .usage = "cifar10:FOLDER",
     .text = "the six .bin files of CIFAR-10's binary version; its classes have names if batches.meta.txt is "
             "there",
     .open = open_cifar10},
    {.name = "cifar100",
     .usage = "cifar100:FOLDER",
     .text = "train.bin and test.bin of CIFAR-100's binary version; classes are the hundred of "
             "fine_label_names.txt",
     .open = open_cifar100},
    {.name = "npy",
     .usage = "npy:X.npy,Y.npy",
     .text = "inputs and targets, as numpy.save writes them; for models that read tokens, such as gpt, "
             "integers\n(samples,length) in both",
     .open = open_npy},
    {.name = "npz",
     .usage = "npz:FILE[?x=NAME&y=NAME]",
     .text = "the same two arrays in one file, as numpy.savez and savez_compressed write them: those named x "
             "and y,\nor x_train and y_train, with x_test and y_test for testing; or two given names",
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
