/* The parameters of the kernels in cl/; tools/signatures.c generates the table from the kernel sources. */
#ifndef KN_GRAPH_SIGNATURE_H
#define KN_GRAPH_SIGNATURE_H

/* `parameters` are words in the kernel's order:
 *   p:x c:x l:x    global memory, constant global memory (`global const`), local memory
 *   i:x x:x u:x f:x n:x
 *                  an int, a KN_INDEX, a uint, a float, a number of another type
 *   $NAME{…|…}     the definitions of macro NAME; or, if the host defines it, the arguments of
 *   kn_step_generate
 *   *NAME{…}       any number of repetitions; # in the names stands for their numbers */
typedef struct kn_signature {
    const char *file, *kernel, *parameters;
} kn_signature;
/* the last entry has file NULL; a kernel may have several entries */
extern const kn_signature kn_signatures[];

#endif
