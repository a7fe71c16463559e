/* Arrays in one file, as written by numpy.savez and numpy.savez_compressed: npy files in a zip file. */
#include "data/dataset_private.h"

#include <string.h>

/* Default names of the arrays: as in savez(x=…, y=…), and a common convention that includes test arrays. */
static const char *const usual[][2] = {{"x", "y"}, {"x_train", "y_train"}, {"X", "Y"}, {"X", "y"}};
static const char *const test_names[] = {"x_test", "y_test"};

static const kn_zip_member *find(kn_arena *arena, const kn_zip *zip, const char *name) {
    const kn_zip_member *member = kn_zip_find(zip, name);
    const char *longer = kn_arena_format(arena, "%s.npy", name);
    return member || !longer ? member : kn_zip_find(zip, longer);
}

/* Reads one array, which points into the file if possible. */
static kn_status read_member(const kn_host *host, const kn_zip *zip, const kn_zip_member *member,
                             kn_array *array, kn_error *error) {
    const uint8_t *bytes;
    void *owned;
    kn_status status = kn_zip_member_read(host, zip, member, (uint64_t)PTRDIFF_MAX, &bytes, &owned, error);
    if (status != KN_OK) return status;
    status = kn_npy_read(host, member->name, bytes, member->size, array, error);
    if (status != KN_OK || array->owned)
        kn_release(host, owned);
    else
        array->owned = owned;
    return status == KN_OK ? KN_OK : kn_fail_in(error, "%s", zip->name);
}

static kn_status fail_names(kn_arena *arena, const kn_zip *zip, const char *x, const char *y,
                            kn_error *error) {
    const char *list = "";
    for (size_t i = 0; i < zip->count && i < 12 && list; i++)
        list = kn_arena_format(arena, "%s%s%s", list, i > 0 ? ", " : "", zip->members[i].name);
    return kn_fail(
        error, KN_ERROR_NOT_FOUND,
        "%s has no arrays \"%s\" and \"%s\"; it has %.200s%s; select them with npz:FILE,x=NAME,y=NAME",
        zip->name, x, y, list && list[0] ? list : "none", zip->count > 12 ? " and others" : "");
}

/* Opens one part, with a separate view of the file. If `optional`, *store stays NULL if the arrays are
 * missing. */
static kn_status open_part(kn_arena *arena, const char *path, const char *x, const char *y, bool optional,
                           const kn_source_options *options, kn_sample_store **store, kn_error *error) {
    const kn_host *host = arena->host;
    kn_sample_store *made = kn_sample_store_create(host, error);
    kn_zip zip;
    if (!made) return error->status;
    kn_file_view *view = &made->files[0].view;
    kn_status status = kn_file_open_view(host, path, view, error);
    if (status == KN_OK) status = kn_zip_read(arena, path, view->bytes, view->count, &zip, error);
    for (size_t i = 0; i < KN_COUNT_OF(usual) && status == KN_OK && (!x || !y); i++)
        if (find(arena, &zip, x ? x : usual[i][0]) && find(arena, &zip, y ? y : usual[i][1])) {
            x = x ? x : usual[i][0];
            y = y ? y : usual[i][1];
        }
    if (status == KN_OK) {
        const kn_zip_member *in = x ? find(arena, &zip, x) : NULL, *out = y ? find(arena, &zip, y) : NULL;
        if (in && out) {
            status = read_member(host, &zip, in, &made->files[0].array, error);
            if (status == KN_OK) status = read_member(host, &zip, out, &made->files[1].array, error);
            if (status == KN_OK) status = kn_sample_store_add_pair(made, in->name, out->name, options, error);
            if (status != KN_OK && !strstr(error->text, path)) kn_fail_in(error, "%s", path);
            *store = made;
        } else if (!optional) {
            status = fail_names(arena, &zip, x ? x : usual[0][0], y ? y : usual[0][1], error);
        }
    }
    if (status == KN_OK && *store) return KN_OK;
    *store = NULL;
    kn_sample_store_leave(made);
    return status;
}

static kn_status open_npz(kn_dataset *dataset, const char *rest, const kn_source_options *options) {
    const kn_host *host = &dataset->host;
    kn_error *error = &dataset->error;
    char *path, *x = NULL, *y = NULL;
    const kn_spec_option known[] = {{"x", KN_SPEC_TEXT, &x}, {"y", KN_SPEC_TEXT, &y}};
    kn_sample_store *train = NULL, *test = NULL;
    kn_arena arena;
    kn_arena_init(&arena, host);
    kn_status status = kn_spec_read(host, "npz", rest, &path, known, KN_COUNT_OF(known), error);
    if (status == KN_OK && !path)
        status = kn_fail(error, KN_ERROR_ARGUMENT, "data \"npz%s\": expected a file", rest);
    if (status == KN_OK) status = open_part(&arena, path, x, y, false, options, &train, error);
    if (status == KN_OK && !x && !y)
        status = open_part(&arena, path, test_names[0], test_names[1], true, options, &test, error);
    if (status == KN_OK && test) status = kn_sample_store_match_parts(path, train, test, error);
    kn_arena_finish(&arena);
    kn_release(host, path);
    kn_release(host, x);
    kn_release(host, y);
    return kn_dataset_take_parts(dataset, train, test, status);
}

const kn_source_row kn_data_source_npz = {
    .name = "npz",
    .usage = "npz:FILE[,x=NAME][,y=NAME]",
    .text = "two arrays in one file written by numpy.savez or savez_compressed: named\n"
            "x and y, or x_train and y_train, with x_test and y_test for testing; or as given",
    .open = open_npz};
