/* Quantized weights in blocks, as ggml defines them (blocks.c). Included by base.h.
 *
 * A row of a tensor is a sequence of blocks. In device memory the blocks of a state are *arranged*: their
 * first fields one after another, then their second fields, and so on, so that kernels (cl/common/blocks.cl)
 * read aligned vectors of codes. The arrangement is a permutation of the bytes. */
#ifndef KN_BASE_BLOCKS_H
#define KN_BASE_BLOCKS_H

#include <stdint.h>

/* Bytes [at, at + bytes) of each block. */
typedef struct kn_block_field {
    int at, bytes;
} kn_block_field;

enum { KN_BLOCK_FIELDS = 4, KN_BLOCK_MOST_BYTES = 256, KN_BLOCK_MOST_WEIGHTS = 256 };
typedef struct kn_block_type {
    int number;       /* in GGUF files */
    const char *name; /* "Q4_K" */
    int weights, bytes;
    /* Dequantizes one block, which may be unaligned, to float32: the bits of ggml's reference. */
    void (*widen)(const uint8_t *block, float *weights);
    /* In the order of arranged blocks; unused ones have 0 bytes. F32, F16 and BF16, which are blocks of one
     * element, have none: they are element types. */
    kn_block_field fields[KN_BLOCK_FIELDS];
} kn_block_type;

/* Blocks in a file; type NULL: none. */
typedef struct kn_file_blocks {
    const kn_block_type *type;
    const uint8_t *bytes;
    struct kn_shared_file *file;
} kn_file_blocks;

/* NULL if Koine does not support the type. */
const kn_block_type *kn_block_type_find(int number);
/* The same by name. */
const kn_block_type *kn_block_type_named(const char *name);
/* All of them, for lists and tests. */
const kn_block_type *kn_block_types(size_t *count);
/* Whether states can be stored in these blocks. */
static inline bool kn_block_type_has_fields(const kn_block_type *type) {
    return type->fields[0].bytes > 0;
}
/* Dequantizes `count` blocks. weights is (count * type->weights). */
void kn_blocks_widen(const kn_block_type *type, const uint8_t *blocks, uint64_t count, float *weights);
/* Quantizes `count` blocks to the bytes of ggml's reference. weights is (count * type->weights), finite
 * unless blocks have one element. False, with nothing written, if Koine does not quantize to this type;
 * `count` 0 only asks. */
bool kn_blocks_narrow(const kn_block_type *type, const float *weights, uint64_t count, uint8_t *blocks);
/* Writes bytes [first, first + bytes) of the arrangement of `count` blocks. */
void kn_blocks_arrange(const kn_block_type *type, const uint8_t *blocks, uint64_t count, uint64_t first,
                       uint64_t bytes, uint8_t *to);
/* Block `index` of `count` arranged blocks, in the order of the file. */
void kn_blocks_take(const kn_block_type *type, const uint8_t *arranged, uint64_t count, uint64_t index,
                    uint8_t *block);
/* Dequantizes blocks [first, first + wanted) of `count` arranged blocks. */
void kn_blocks_widen_arranged(const kn_block_type *type, const uint8_t *arranged, uint64_t count,
                              uint64_t first, uint64_t wanted, float *weights);

#endif
