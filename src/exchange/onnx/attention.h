/* Helpers for attention operators. */
#ifndef KN_EXCHANGE_ONNX_ATTENTION_H
#define KN_EXCHANGE_ONNX_ATTENTION_H

#include "exchange/onnx/import.h"

/* (N,length,heads*size) to (N,heads,length,size), and back. */
kn_value *kn_split_heads(kn_import *import, kn_value *x, int64_t heads);
kn_value *kn_merge_heads(kn_import *import, kn_value *x);
/* A size as an int32 scalar; the size may be dynamic. */
kn_value *kn_import_size(kn_import *import, kn_dim dim);
/* x is (N,length,heads,size), cosine and sine are (N,length,1,part/2). Rotates pairs of the first `part`
 * elements of each head: adjacent elements if interleaved, otherwise halves. */
kn_value *kn_import_rotate(kn_import *import, kn_value *x, kn_value *cosine, kn_value *sine, int64_t part,
                           bool interleaved);

#endif
