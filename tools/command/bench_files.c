/* Array exchange between koine bench and other programs. */
#include <stdlib.h>
#include <string.h>

#include "bench.h"

/* "int32 (batch,64)" */
static const char *wanted_text(const kn_value *value, char *text, size_t room) {
    char shape[160];
    kn_value_shape_text(value, shape, sizeof shape);
    snprintf(text, room, "%s (%s)", kn_dtype_name(kn_value_dtype(value)), shape);
    return text;
}

static const char *found_text(const kn_tensor_info *info, char *text, size_t room) {
    size_t used = (size_t)snprintf(text, room, "%s (", kn_dtype_name(info->dtype));
    for (int d = 0; d < info->rank && used < room; d++)
        used += (size_t)snprintf(text + used, room - used, "%s%lld", d ? "," : "", (long long)info->shape[d]);
    if (used < room) snprintf(text + used, room - used, ")");
    return text;
}

static bool is_floating_point(kn_dtype dtype) {
    return dtype == KN_FLOAT32 || dtype == KN_FLOAT64 || dtype == KN_FLOAT16 || dtype == KN_BFLOAT16;
}

/* Whether the tensor contains samples of `value` (batch,...). */
static bool fits(const kn_tensor_info *info, const kn_value *value) {
    bool same = info->rank == kn_value_rank(value) && info->rank > 0 && info->shape[0] > 0;
    for (int d = 1; same && d < info->rank; d++)
        same = kn_value_dimension(value, d) < 0 || kn_value_dimension(value, d) == info->shape[d];
    return same && is_floating_point(info->dtype) == is_floating_point(kn_value_dtype(value));
}

void *bench_read_samples(const char *path, const kn_value *value, int64_t *count) {
    kn_tensor_info info;
    uint64_t elements = 0;
    char wanted[200], found[200];
    const char *name = kn_value_name(value);
    const size_t width = kn_dtype_bytes(kn_value_dtype(value));
    void *data = NULL;
    kn_safetensors_file *file = kn_safetensors_file_open(path, NULL);
    wanted_text(value, wanted, sizeof wanted);
    if (kn_safetensors_file_status(file) != KN_OK)
        command_fail("--input: %s", kn_safetensors_file_error(file));
    else if (!kn_safetensors_file_info(file, name, &info))
        command_fail("'%s' has no tensor '%s'; expected %s", path, name, wanted);
    else if (!fits(&info, value))
        command_fail("'%s': tensor '%s' is %s; expected %s", path, name,
                     found_text(&info, found, sizeof found), wanted);
    else if (*count && info.shape[0] != *count)
        command_fail("'%s': tensor '%s' is %s; expected %lld samples, as the inputs have, of %s", path, name,
                     found_text(&info, found, sizeof found), (long long)*count, wanted);
    else if (!kn_tensor_elements(&info, &elements) || elements > SIZE_MAX / 8 ||
             !(data = malloc((size_t)elements * width + 1)) ||
             kn_safetensors_file_copy(file, name, kn_value_dtype(value), data, (size_t)elements * width) !=
                 KN_OK) {
        command_fail("'%s': tensor '%s' could not be converted to %s", path, name,
                     kn_dtype_name(kn_value_dtype(value)));
        free(data);
        data = NULL;
    } else {
        *count = info.shape[0];
    }
    kn_safetensors_file_destroy(&file);
    return data;
}

bool bench_write_tensor(const char *path, const char *name, const kn_tensor_info *info, const void *data) {
    char message[400];
    kn_named_tensor tensor = {name, *info, data};
    if (kn_safetensors_file_save(path, &tensor, 1, message, sizeof message) == KN_OK) return true;
    return command_error("%s", message);
}
