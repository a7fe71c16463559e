/* Shared by the files that read Caffe nets: a net is translated, layer by layer, to a text model, and its
 * blobs to the tensors that the text's layers expect, so a Caffe net can do everything a text model can.
 *
 * net.c walks the layers and records the name and shape of each blob (Caffe's term for a value) in the text;
 * a row of the table (table.c) says how to write a layer of one type. weights.c reads tensors from a file. */
#ifndef KN_EXCHANGE_CAFFE_H
#define KN_EXCHANGE_CAFFE_H

#include <string.h>

#include "exchange/exchange.h"

/* Limits, since files may be hostile. */
enum {
    KN_CAFFE_LAYERS = 5000,
    KN_CAFFE_TOPS = 64,      /* top blobs of a layer */
    KN_CAFFE_SIZE = 1 << 30, /* an axis, or any integer */
};

typedef struct kn_caffe kn_caffe;
typedef struct kn_caffe_layer kn_caffe_layer;

/* A value (a blob, in Caffe's terms). */
typedef struct kn_caffe_blob {
    const char *name;  /* in the file */
    const char *value; /* in the text */
    int rank;
    int64_t dims[KN_MAX_RANK];     /* dims[0] is the batch size in the file */
    bool used;                     /* a layer reads it, so it is not an output */
    const kn_caffe_layer *unknown; /* the layer that makes it, if that reads files, so that the shape is
                                    * unknown; otherwise NULL */
} kn_caffe_blob;

/* How a tensor of the text is computed from a blob in a file with weights. */
typedef enum kn_caffe_change {
    KN_CAFFE_AS_IT_IS,
    KN_CAFFE_OVER_FACTOR, /* divided by the number in blob 2 of the same layer; 0 where that is 0 */
    KN_CAFFE_TRANSPOSED,  /* a matrix with its axes swapped */
} kn_caffe_change;
typedef struct kn_caffe_weight {
    const char *tensor; /* "conv1.weight" */
    const char *layer;  /* in the file */
    int blob;
    int rank;
    int64_t shape[KN_MAX_RANK]; /* in the file */
    int ones;                   /* trailing axes of size 1 that the tensor has in addition */
    kn_caffe_change change;
} kn_caffe_weight;

/* The origin_data of a model read from a net. */
typedef struct kn_caffe_source {
    const kn_caffe_weight *weights; /* which blobs of a file with weights become the text's tensors */
    size_t weight_count;
    kn_safetensors tensors; /* of the file that the model was opened from, if it has weights */
} kn_caffe_source;
static inline kn_caffe_source *kn_caffe_source_of(const kn_model *model) {
    return model->origin_data;
}

typedef struct kn_caffe_row {
    const char *type;  /* "Convolution" */
    const char *first; /* "CONVOLUTION", the type's name in the first format (V1); NULL: none */
    const char *param; /* "convolution_param"; NULL: none */
    int least_bottoms, most_bottoms;
    bool (*write)(kn_caffe *net, kn_caffe_layer *layer); /* NULL unless `effect` is KN_CAFFE_MAKES */
    enum { KN_CAFFE_MAKES, KN_CAFFE_READS, KN_CAFFE_LOSES, KN_CAFFE_SILENT } effect;
    const char *loss; /* for KN_CAFFE_LOSES: the lines to write, "" for the default */
} kn_caffe_row;
extern const kn_caffe_row kn_caffe_table[];
extern const int kn_caffe_table_count;

struct kn_caffe_layer {
    const kn_caffe_item *item;
    const kn_caffe_item *param; /* parameters of the type; NULL: all defaults */
    const kn_caffe_row *row;
    const char *name; /* in the file */
    const char *line; /* its unique name in the text */
    int bottom_count, top_count;
    kn_caffe_blob **bottoms;
    const char **tops;
    bool done; /* written together with the layer before it */
};

struct kn_caffe {
    kn_model *model;
    const kn_caffe_item *root;
    bool binary;            /* positions in the file are bytes, not lines */
    kn_caffe_layer *layers; /* layers used outside training */
    size_t layer_count;
    kn_caffe_blob **blobs; /* all blobs, in creation order */
    size_t blob_count, blob_capacity;
    kn_map by_name;   /* the latest blob with a name */
    kn_map names;     /* line names in use, each with the last number appended to it */
    kn_map shared;    /* parameter name -> the layer that has it */
    kn_text lines;    /* lines written for the layers */
    const char *loss; /* lines for the loss */
    kn_caffe_weight *weights;
    size_t weight_count, weight_capacity;
};

/* ---- for the functions of the table (lines.c) ---------------------------------------------------------- */

/* Records "net.prototxt: layer 'conv1' (Convolution, line 12): ..." and returns false. */
bool kn_caffe_refuse(kn_caffe *net, const kn_caffe_layer *layer, const char *format, ...) KN_PRINTF(3, 4);
/* Begins a line of the text that makes the layer's first top; kn_caffe_more appends to it. `part` NULL: the
 * line is named after the layer; otherwise it is an intermediate step, named after both. Returns the name;
 * NULL when out of memory. */
const char *kn_caffe_line(kn_caffe *net, const kn_caffe_layer *layer, const char *part, const char *format,
                          ...) KN_PRINTF(4, 5);
void kn_caffe_more(kn_caffe *net, const char *format, ...) KN_PRINTF(2, 3);
/* Appends " name=number". */
void kn_caffe_more_number(kn_caffe *net, const char *name, double number);
/* Records the value and shape of top `position` of the layer; dims may belong to another blob. False when out
 * of memory, or if the size is refused. */
bool kn_caffe_make(kn_caffe *net, const kn_caffe_layer *layer, int position, const char *value, int rank,
                   const int64_t *dims);
/* Like kn_caffe_make for the first top, with the shape of the first bottom. */
bool kn_caffe_like(kn_caffe *net, const kn_caffe_layer *layer, const char *value);
/* Records which blob of the file becomes tensor PART of a line, or with "" the line itself. */
bool kn_caffe_add_weight(kn_caffe *net, const kn_caffe_layer *layer, int blob, const char *line,
                         const char *part, int rank, const int64_t *shape, int ones, kn_caffe_change change);

/* Makes a text name from Caffe names: letters, digits and _, starting with a letter. Returns its length,
 * which leaves room to append a number. */
size_t kn_caffe_clean_name(const char *layer, const char *part, char name[KN_MODEL_NAME_BYTES + 1]);
/* Like kn_caffe_clean_name, but unique in the text. NULL when out of memory. */
const char *kn_caffe_free_name(kn_caffe *net, const char *layer, const char *part);
/* NULL when out of memory. */
kn_caffe_blob *kn_caffe_add_blob(kn_caffe *net, const char *name, const char *value);
/* The text or word of an item; "" for other kinds. */
const char *kn_caffe_text_of(const kn_caffe_item *item);
/* Reads an integer of at least `least` from the layer's parameters; false after a refusal. */
bool kn_caffe_whole(kn_caffe *net, const kn_caffe_layer *layer, const char *name, int64_t usual,
                    int64_t least, int64_t *number);
/* Reads an axis of the first bottom; negative axes count from the end. */
bool kn_caffe_axis(kn_caffe *net, const kn_caffe_layer *layer, const char *name, int64_t usual, int *axis);
/* Height and width: NAME_h and NAME_w, or NAME once or twice. */
bool kn_caffe_pair(kn_caffe *net, const kn_caffe_layer *layer, const char *name, const char *height,
                   const char *width, int64_t usual, int64_t least, int64_t pair[2]);
/* Appends " name=HxW", unless both equal `usual`. */
void kn_caffe_more_pair(kn_caffe *net, const char *name, const int64_t pair[2], int64_t usual);
/* The product of dims; false after a refusal if it is too large. */
bool kn_caffe_product(kn_caffe *net, const kn_caffe_layer *layer, const int64_t *dims, int count,
                      int64_t *product);

/* ---- families of the table ----------------------------------------------------------------------------- */

/* Layers with weights (layers_weights.c). */
bool kn_caffe_convolution(kn_caffe *net, kn_caffe_layer *layer);
bool kn_caffe_deconvolution(kn_caffe *net, kn_caffe_layer *layer);
bool kn_caffe_inner_product(kn_caffe *net, kn_caffe_layer *layer);
bool kn_caffe_batch_norm(kn_caffe *net, kn_caffe_layer *layer);
bool kn_caffe_scale(kn_caffe *net, kn_caffe_layer *layer);
bool kn_caffe_bias(kn_caffe *net, kn_caffe_layer *layer);
bool kn_caffe_prelu(kn_caffe *net, kn_caffe_layer *layer);

/* Element by element (layers_pointwise.c). */
bool kn_caffe_plain(kn_caffe *net, kn_caffe_layer *layer);
bool kn_caffe_relu(kn_caffe *net, kn_caffe_layer *layer);
bool kn_caffe_elu(kn_caffe *net, kn_caffe_layer *layer);
bool kn_caffe_clip(kn_caffe *net, kn_caffe_layer *layer);
bool kn_caffe_swish(kn_caffe *net, kn_caffe_layer *layer);
bool kn_caffe_dropout(kn_caffe *net, kn_caffe_layer *layer);
bool kn_caffe_power(kn_caffe *net, kn_caffe_layer *layer);
bool kn_caffe_exp(kn_caffe *net, kn_caffe_layer *layer);
bool kn_caffe_log(kn_caffe *net, kn_caffe_layer *layer);
bool kn_caffe_threshold(kn_caffe *net, kn_caffe_layer *layer);
bool kn_caffe_eltwise(kn_caffe *net, kn_caffe_layer *layer);

/* Pooling, local normalization, and layers along an axis (layers_window.c). */
bool kn_caffe_pooling(kn_caffe *net, kn_caffe_layer *layer);
bool kn_caffe_lrn(kn_caffe *net, kn_caffe_layer *layer);
bool kn_caffe_softmax(kn_caffe *net, kn_caffe_layer *layer);
bool kn_caffe_argmax(kn_caffe *net, kn_caffe_layer *layer);
bool kn_caffe_reduction(kn_caffe *net, kn_caffe_layer *layer);

/* Shapes (layers_shape.c). */
bool kn_caffe_concat(kn_caffe *net, kn_caffe_layer *layer);
bool kn_caffe_slice(kn_caffe *net, kn_caffe_layer *layer);
bool kn_caffe_split(kn_caffe *net, kn_caffe_layer *layer);
bool kn_caffe_flatten(kn_caffe *net, kn_caffe_layer *layer);
bool kn_caffe_reshape(kn_caffe *net, kn_caffe_layer *layer);
bool kn_caffe_permute(kn_caffe *net, kn_caffe_layer *layer);
bool kn_caffe_crop(kn_caffe *net, kn_caffe_layer *layer);
bool kn_caffe_tile(kn_caffe *net, kn_caffe_layer *layer);
void kn_caffe_write_shape(kn_text *text, int rank, const int64_t *dims);
/* Begins a line "reshape @value 3x4x5", without the batch; returns its name. */
const char *kn_caffe_reshaped(kn_caffe *net, const kn_caffe_layer *layer, const char *part, const char *value,
                              int rank, const int64_t *dims);

/* ---- entry points (net.c, weights.c) ------------------------------------------------------------------- */

/* Writes the text of a net, and the list of weights in kn_caffe_source. False: the model's error is set. */
bool kn_caffe_translate(kn_model *model, const kn_caffe_net *file, kn_text *text);
/* Reads the tensors of the model's text from a net, which `file` then owns; `net` is left empty. Layers that
 * the net lacks have no tensors; a blob with the wrong shape is an error, or skipped if `incomplete`. False:
 * the model's error is set, and there is nothing to close. */
bool kn_caffe_take(kn_model *model, const char *path, kn_caffe_net *net, bool incomplete,
                   kn_safetensors *file);
/* The next layer in file order, of either format; NULL: the first. */
const kn_caffe_item *kn_caffe_next_layer(const kn_caffe_item *root, const kn_caffe_item *after);

#endif
