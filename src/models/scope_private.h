/* A scope of the graph builder: a block or repeat that encloses the current line. */
#ifndef KN_MODELS_SCOPE_PRIVATE_H
#define KN_MODELS_SCOPE_PRIVATE_H

#include "models/models_private.h"

struct kn_scope {
    const kn_scope *outer;
    const kn_line *use; /* the line that uses a block; NULL for repeats and for the whole text */
    const char *path;   /* prefix of names in the scope: "" or "stage2." */
    int depth;
    kn_variables variables;
    /* The path of the block whose parameters all layers in the scope share: it replaces the first
     * `share_after` bytes of their paths. NULL: none. */
    const char *share;
    size_t share_after;
    bool freeze; /* freezes all parameters created in the scope */
};

#endif
