/* Shared by the files of attention. */
#ifndef KN_ATTENTION_PRIVATE_H
#define KN_ATTENTION_PRIVATE_H

#include "ops/row.h"

/* The sizes and strides of an attention, forward or gradient: q, k and v are separate arrays, (B,T,heads*D)
 * and (B,S,key_heads*D) twice, or packed in one, (B,T,(heads+2*key_heads)*D). Row t of head h of sample b
 * begins at first + (b * length + t) * row + h * head; `group` heads of q share a head of k and v. */
typedef struct kn_attention_form {
    bool packed, causal, last;
    int64_t batches, heads, key_heads, group, head, queries, keys;
    int64_t q_first, k_first, v_first, q_row, k_row, y_row;
    double scale, softcap; /* softcap: of scores; 0: none */
    int64_t window;        /* positions that a query sees before and after its own, and its own; 0: all */
    int lengths_at, first_at, mask_at; /* indices of inputs; -1: none */
    int64_t lengths_row, first_row;    /* strides between samples; 0: the same for all */
    int64_t mask_batch, mask_head;     /* strides in elements; 0: the same for all */
    int step_at;                       /* index of the step counter, for dropout; -1: no dropout */
    double rate;                       /* fraction of weights to drop */
} kn_attention_form;
/* `first` is the index of input q, or of the packed input. */
void kn_attention_describe(const kn_node *node, int first, kn_attention_form *form);

extern const kn_operator kn_row_attention, kn_row_attention_gradient, kn_row_attention_packed_gradient;
extern const kn_operator kn_row_attention_dropout, kn_row_attention_dropout_gradient,
    kn_row_attention_dropout_packed_gradient;

/* Inputs of the gradient rows before q. */
enum { KN_ATTENTION_DY, KN_ATTENTION_Y, KN_ATTENTION_LOG_SUM, KN_ATTENTION_Q };

/* At known sizes: attention on slices of a packed value becomes attention on that value (packed.c). */
kn_status kn_attention_of_parts(kn_graph *bound, const kn_node *node, kn_value *const *inputs,
                                kn_value **results);

/* ---- lowering (lowering.c) ------------------------------------------------------------------------- */

/* The index of input q, or of the packed input. */
int kn_attention_first(const kn_node *node);
/* Without queries or keys there is nothing to add, and kernels would divide by zero: results are zeros. */
bool kn_attention_is_empty(const kn_attention_form *form);
kn_status kn_attention_fill_zero(kn_lowering *lowering);
/* Defines KN_LENGTHS, KN_MASK, KN_DROPOUT, KN_WINDOW, KN_SOFTCAP and KN_FIRST if the attention has them. */
void kn_attention_define_limits(kn_step *step, const kn_attention_form *form);
/* q, k or v (part 0, 1, 2) in `values`, or the packed value. Results of the gradient rows are stored in the
 * same way. */
kn_value *kn_attention_part(kn_value *const *values, const kn_attention_form *form, int part);
extern const char *const kn_attention_gradient_names[]; /* names of the kernels' arguments, by part */
void kn_attention_read_parts(kn_step *step, const kn_node *node, const kn_attention_form *form, int first);
/* Adds the arguments after the arrays. */
void kn_attention_add_numbers(kn_step *step, const kn_node *node, const kn_attention_form *form);

/* The tiled kernels of cl/attention/tiled.cl, and of fragment.cl with the same arguments. */
typedef enum kn_attention_pass {
    KN_ATTENTION_FORWARD,
    KN_ATTENTION_QUERIES, /* the gradient of q */
    KN_ATTENTION_KEYS,    /* the gradients of k and v, computed after it */
} kn_attention_pass;
typedef struct kn_attention_tile {
    const char *file;
    int rows, depth; /* of a work-group, and of the other side at a time */
    size_t items;
    kn_matrix_unit unit;      /* used for products; KN_MATRIX_UNIT_NONE: work-items */
    int registers;            /* per work-item, requested from the compiler; 0: its default */
    uint32_t tiles_too_large; /* for kn_step */
} kn_attention_tile;
typedef struct kn_attention_tiling {
    /* false: none fits on the device */
    bool (*choose)(const kn_target *target, const kn_node *node, const kn_attention_form *form,
                   kn_attention_pass pass, kn_attention_tile *tile);
    void (*define)(kn_step *step, const kn_lowering *lowering, const kn_attention_form *form,
                   const kn_attention_tile *tile);
} kn_attention_tiling;
/* Whether each kernel of the node has a tile that fits. */
bool kn_attention_tiles_fit(const kn_target *target, const kn_node *node, const kn_attention_tiling *tiling);
/* Emits the steps of the node with such kernels (tiled.c). */
kn_status kn_attention_lower_tiles(kn_lowering *lowering, const kn_attention_tiling *tiling);

bool kn_attention_wide_accepts(const kn_target *target, const kn_node *node);
bool kn_attention_matrix_accepts(const kn_target *target, const kn_node *node);
bool kn_attention_tiled_accepts(const kn_target *target, const kn_node *node);
kn_status kn_attention_wide_lower(kn_lowering *lowering);
kn_status kn_attention_matrix_lower(kn_lowering *lowering);
kn_status kn_attention_tiled_lower(kn_lowering *lowering);
kn_status kn_attention_plain_lower(kn_lowering *lowering);

#endif
