/* Small ONNX models in memory, for tests of libkoine-onnxruntime. */
#ifndef KN_TESTS_ORT_MODELS_H
#define KN_TESTS_ORT_MODELS_H

#include "../formats/onnx_bytes.h"

/* y (batch,3) = x (batch,3) + w, with w = 0,1,2, and z = -x; with metadata. */
void model_sum(made *model);
/* y (batch,3) = x (batch,3) + w, whose 12 bytes are in the file weights.bin, from its byte 4. */
void model_external(made *model);
/* y = x (n,2) + x for rate (a scalar, int64) 16000, otherwise -x. */
void model_branches(made *model);
/* y = x + x if the sum of x (n,3) is positive, otherwise -x; "where": the positions of its positive elements.
 */
void model_computed(made *model);
/* While the sum of v, which is x (n,3) at first, is below `limit` (a scalar), v += x * x; y = v, and `sums`
 * (k) are the sums after each iteration. */
void model_loop(made *model);
/* y (n,3): 1 or 0 at random, where x (n,3) is the probability of 1; "where": the positions of its ones. */
void model_random(made *model);
/* y = x (n,3) in the shape `shape` (2) if the sum of x is positive, otherwise -x. */
void model_reshaped(made *model);
/* y = Unheard(x) and z = Unseen(x), which no runtime has. */
void model_unknown(made *model);
/* y = -x, both (1,a,b) with open sizes whose names differ only after 190 characters. */
void model_long_names(made *model);
/* y (n) = strings a (n) and then b (1); "same" (n): whether a is b. */
void model_strings(made *model);
/* all (a sequence) = list (a sequence of float32) and -x (n,2), joined: its elements along the first axis,
 * and their number, count. */
void model_sequence(made *model);
/* has: whether the optional x of float32 has a value; same = x. */
void model_optional(made *model);
/* parts (n,k), counts (n) = StringSplit(x (n)) with maxsplit `most`. */
void model_split(made *model, const char *delimiter, int most);
/* y (2,2), int64, = Cast(x), float32, and "again", the same. */
void model_cast(made *model);

#endif
