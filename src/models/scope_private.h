/* The scope of the graph builder: the blocks and repeats around the current line. */
#ifndef KN_MODELS_SCOPE_PRIVATE_H
#define KN_MODELS_SCOPE_PRIVATE_H

#include "models/models_private.h"

struct kn_scope {
    const kn_scope *outer;
    const kn_line *use; /* the line that uses a block; NULL for repeats and for the whole text */
    const char *path;   /* of names in it: "" or "stage2." */
    int depth;
    kn_variables variables;
    /* The path of the block whose parameters all layers in this scope use: it replaces the first
     * `share_after` bytes of their paths. NULL: none. */
    const char *share;
    size_t share_after;
    bool freeze; /* freezes all parameters made in it */
};

#endif
