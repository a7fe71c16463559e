/* What parameters the kernels of cl/ have; tools/signatures.c writes the table from the kernels' texts. */
#ifndef KN_GRAPH_SIGNATURE_H
#define KN_GRAPH_SIGNATURE_H

/* `parameters` are words in the kernel's order:
 *   p:x            memory of the device; l:x of the work-group
 *   i:x x:x u:x f:x n:x
 *                  an int, a KN_INDEX, a uint, a float, a number of another type
 *   $NAME{…|…}     what the macro NAME may stand for; or, where the host defines it, the arguments that it
 * made with it *NAME{…}       any number of times; # in the names stands for their numbers */
typedef struct kn_signature {
    const char *file, *kernel, *parameters;
} kn_signature;
extern const kn_signature kn_signatures[]; /* the last one has no file; a kernel may have several */

#endif
