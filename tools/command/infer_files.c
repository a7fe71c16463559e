/* Sounds and pictures as they lie in files, for koine infer. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "infer_files.h"
#include "training.h"

#include <koine/images.h>

static bool ends(const char *path, const char *const endings[]) {
    const char *last = strrchr(path, '.');
    for (int i = 0; last && endings[i]; i++)
        if (!strcasecmp(last, endings[i])) return true;
    return false;
}

static const char *const sounds[] = {".wav", ".wave", NULL}, *const pictures[] = {".jpg", ".jpeg", ".png",
                                                                                  NULL};

static bool is_folder(const char *path) {
    DIR *folder = opendir(path);
    if (folder) closedir(folder);
    return folder != NULL;
}

bool sample_files_are(const char *path) {
    return ends(path, sounds) || ends(path, pictures) || is_folder(path);
}

bool sample_files_open(const char *path, const kn_model *model, kn_tensor_info *info, char **data) {
    kn_dataset_params params;
    kn_tensor_info sample;
    kn_field field = {.name = NULL};
    char spec[4200];
    kn_dataset_params_init(&params);
    params.wanted = model_sample(model, &sample) ? &sample : NULL;
    params.images = kn_images_reader();
    params.inputs_only = true;
    params.rate = model_rate(model);
    /* Of a folder the model tells what is in it. */
    bool sound = ends(path, sounds) || (!ends(path, pictures) && kn_value_rank(kn_model_input(model, 0)) < 4);
    snprintf(spec, sizeof spec, "%s:%s", sound ? "wav" : "images", path);
    kn_dataset *dataset = kn_dataset_open(&params, spec);
    bool fine = kn_dataset_status(dataset) == KN_OK;
    if (!fine) command_fail("%s", dataset ? kn_dataset_error(dataset) : "out of memory");
    const uint64_t count = kn_dataset_count(dataset);
    if (fine && kn_dataset_field(dataset, 0, &field) && field.info.rank < KN_MAX_RANK) {
        *info = field.info;
        info->rank = field.info.rank + 1;
        info->shape[0] = (int64_t)count;
        memcpy(info->shape + 1, field.info.shape, (size_t)field.info.rank * sizeof *info->shape);
        *data = malloc((size_t)count * field.bytes + 1);
        fine = *data && kn_dataset_read(dataset, NULL, count, 0, *data, (size_t)count * field.bytes) == KN_OK;
        if (!fine) command_fail("out of memory for %llu samples", (unsigned long long)count);
    }
    kn_dataset_destroy(&dataset);
    if (!fine) {
        free(*data);
        *data = NULL;
    }
    return fine;
}
