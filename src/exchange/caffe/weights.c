/* Reads the blobs of a Caffe net as tensors with the names of its text. */
#include <inttypes.h>

#include "exchange/caffe/caffe.h"

typedef struct taking {
    kn_model *model;
    const char *path;
    kn_safetensors *file; /* the result */
    kn_map layers;        /* name -> layer with blobs, in the file with weights */
} taking;

static const kn_caffe_item *blob_at(const kn_caffe_item *layer, int position) {
    const kn_caffe_item *blob = kn_caffe_next(layer, "blobs", NULL);
    for (int i = 0; blob && i < position; i++)
        blob = kn_caffe_next(layer, "blobs", blob);
    return blob;
}

/* The sizes of a blob, or the four sizes of the old format; -1 if there are too many. */
static int read_shape(const kn_caffe_item *blob, int64_t *shape) {
    static const char *const old[] = {"num", "channels", "height", "width"};
    const kn_caffe_item *message = kn_caffe_field(blob, "shape"), *dim = NULL;
    int rank = 0;
    for (; message && (dim = kn_caffe_next(message, "dim", dim)); rank++) {
        double size = dim->kind == KN_CAFFE_NUMBER ? dim->as.number : -1;
        if (rank == KN_MAX_RANK || !(size >= 0 && size < 9e15)) return -1;
        shape[rank] = (int64_t)size;
    }
    for (; !message && rank < 4; rank++) {
        double size = kn_caffe_number(blob, old[rank], 0);
        if (!(size >= 0 && size < 9e15)) return -1;
        shape[rank] = (int64_t)size;
    }
    return rank;
}

/* The first axis that is not 1: old files pad shapes with leading 1s to four axes. */
static int first_axis(int rank, const int64_t *shape) {
    int first = 0;
    while (first < rank && shape[first] == 1)
        first++;
    return first;
}

static bool same_shape(int rank, const int64_t *shape, int wanted_rank, const int64_t *wanted) {
    int first = first_axis(rank, shape), wanted_first = first_axis(wanted_rank, wanted);
    return rank - first == wanted_rank - wanted_first &&
           (rank == first ||
            !memcmp(shape + first, wanted + wanted_first, (size_t)(rank - first) * sizeof *shape));
}

static const kn_array *numbers_of(const kn_caffe_item *blob) {
    const kn_caffe_item *data = kn_caffe_field(blob, "data");
    if (!data || data->kind != KN_CAFFE_ARRAY) data = kn_caffe_field(blob, "double_data");
    return data && data->kind == KN_CAFFE_ARRAY ? data->as.array : NULL;
}

static bool refuse(taking *t, const kn_caffe_weight *weight, const char *found, int rank,
                   const int64_t *shape) {
    kn_array has = {.rank = rank}, wants = {.rank = weight->rank};
    char text[2][160];
    if (rank >= 0) memcpy(has.shape, shape, (size_t)rank * sizeof *shape);
    memcpy(wants.shape, weight->shape, (size_t)weight->rank * sizeof *shape);
    kn_fail(&t->model->error, KN_ERROR_SHAPE,
            "%s: layer '%.80s': blob %d %s%s; expected %s for the model '%s'", t->path, weight->layer,
            weight->blob, found, rank >= 0 ? kn_array_shape_text(&has, text[0], sizeof text[0]) : "",
            kn_array_shape_text(&wants, text[1], sizeof text[1]), t->model->name);
    return false;
}

/* Copies the elements to float32, with the change that the weight requires. */
static bool change(taking *t, const kn_caffe_weight *weight, const kn_array *numbers, double factor,
                   kn_array *array) {
    float *copy = kn_arena_take(&t->file->arena, (size_t)numbers->count, sizeof *copy);
    if (!copy) return kn_model_no_memory(t->model);
    const uint64_t rows = weight->change == KN_CAFFE_TRANSPOSED ? (uint64_t)weight->shape[0] : 1;
    const uint64_t columns = rows ? numbers->count / rows : 0;
    for (uint64_t i = 0; i < numbers->count; i++)
        copy[weight->change == KN_CAFFE_TRANSPOSED ? i % columns * rows + i / columns : i] =
            (float)(kn_array_number(numbers, i) * factor);
    array->type = KN_FLOAT32;
    array->bytes = copy;
    if (weight->change == KN_CAFFE_TRANSPOSED) {
        array->shape[0] = weight->shape[1];
        array->shape[1] = weight->shape[0];
    }
    return true;
}

/* Adds the tensor of a weight, if the file has it. A blob with the wrong shape is an error, unless
 * `incomplete`. */
static bool take_weight(taking *t, const kn_caffe_weight *weight, bool incomplete) {
    const kn_caffe_item *layer = kn_map_get_text(&t->layers, weight->layer);
    const kn_caffe_item *blob = blob_at(layer, weight->blob);
    int64_t shape[KN_MAX_RANK];
    double factor = 1;
    if (!layer) return true;
    if (!blob) return incomplete || refuse(t, weight, "is missing", -1, NULL);
    const kn_array *numbers = numbers_of(blob);
    const int rank = read_shape(blob, shape);
    if (rank < 0 || !same_shape(rank, shape, weight->rank, weight->shape))
        return incomplete || refuse(t, weight, rank < 0 ? "has no shape" : "is ", rank, shape);
    kn_safetensor *tensor = &t->file->tensors[t->file->count];
    tensor->name = weight->tensor;
    tensor->array =
        (kn_array){.type = numbers ? numbers->type : KN_FLOAT32, .rank = weight->rank + weight->ones};
    for (int i = 0; i < tensor->array.rank; i++)
        tensor->array.shape[i] = i < weight->rank ? weight->shape[i] : 1;
    if (!kn_array_measure(&tensor->array) || !numbers || numbers->count != tensor->array.count)
        return incomplete ||
               refuse(t, weight, "has a different number of elements than its shape, ", rank, shape);
    tensor->array.bytes = numbers->bytes;
    if (weight->change == KN_CAFFE_OVER_FACTOR) {
        const kn_caffe_item *sums = blob_at(layer, 2);
        const kn_array *over = sums ? numbers_of(sums) : NULL;
        if (!over || over->count != 1)
            return incomplete ||
                   refuse(t, weight, "has no factor; expected blob 2 with one number", -1, NULL);
        const double by = kn_array_number(over, 0);
        factor = by == 0 ? 0 : 1 / by;
    }
    if (weight->change != KN_CAFFE_AS_IT_IS && !change(t, weight, numbers, factor, &tensor->array))
        return false;
    if (!kn_map_put_text(&t->file->by_name, tensor->name, tensor)) return kn_model_no_memory(t->model);
    t->file->count++;
    return true;
}

bool kn_caffe_take(kn_model *model, const char *path, kn_caffe_net *net, bool incomplete,
                   kn_safetensors *file) {
    const kn_caffe_source *source = kn_caffe_source_of(model);
    const kn_caffe_item *root = net->root;
    taking t = {.model = model, .path = path, .file = file};
    bool good = true;
    *file = (kn_safetensors){.arena = net->arena, .view = net->view};
    *net = (kn_caffe_net){.root = NULL}; /* from here on `file` owns the memory of the net */
    kn_map_init(&file->by_name, &model->host);
    kn_map_init(&t.layers, &model->host);
    file->tensors = kn_arena_take(&file->arena, source->weight_count, sizeof *file->tensors);
    if (!file->tensors) good = kn_model_no_memory(model);
    for (const kn_caffe_item *layer = NULL; good && (layer = kn_caffe_next_layer(root, layer));)
        if (kn_caffe_field(layer, "blobs") &&
            !kn_map_put_text(&t.layers, kn_caffe_text(layer, "name", ""), (void *)(uintptr_t)layer))
            good = kn_model_no_memory(model);
    for (size_t i = 0; good && i < source->weight_count; i++)
        good = take_weight(&t, &source->weights[i], incomplete);
    kn_map_finish(&t.layers);
    if (!good) kn_safetensors_close(&model->host, file);
    return good;
}
