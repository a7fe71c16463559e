/* Where the builder of graphs is: inside which blocks and repeats. */
#ifndef KN_MODELS_SCOPE_PRIVATE_H
#define KN_MODELS_SCOPE_PRIVATE_H

#include "models/models_private.h"

struct kn_scope {
    const kn_scope *outer;
    const kn_line *use; /* the line that uses a block; NULL for repeats and for the whole text */
    const char *path;   /* of names in it: "" or "stage2." */
    int depth;
    kn_variables variables;
    /* Whose parameters are shared by all layers in it: a path that takes the place of the first
     * `share_after` bytes of theirs. NULL: none. */
    const char *share;
    size_t share_after;
    bool freeze; /* all parameters made in it */
};

#endif
