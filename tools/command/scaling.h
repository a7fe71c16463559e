/* The time of a training step by several workers, from what was measured of one and of the link between them
 * (scaling.c). It is arithmetic alone. */
#ifndef KOINE_COMMAND_SCALING_H
#define KOINE_COMMAND_SCALING_H

/* Seconds, and bytes per second. */
typedef struct scaling_terms {
    double compute;        /* a step of one worker, without the others */
    double backward;       /* the part of it that is the backward pass, from 0 to 1 */
    double gradient_bytes; /* of all parameters */
    double bucket_bytes;   /* what is exchanged at once */
    double latency;        /* of a message */
    double message;        /* what each further message at the same time adds */
    double bandwidth;      /* of what a worker sends, while it receives as much */
    double add;            /* a byte of a sum of two on the host; 0: nothing */
    double transfer;       /* a byte from the device and back; 0: nothing */
} scaling_terms;

/* How the sums of all workers come to be. */
typedef enum scaling_way {
    SCALING_SLICES, /* Koine: each worker owns a slice, gets it from all others, and gives the sum to all */
    SCALING_RING,   /* slices go round, first to be added, then as sums */
    SCALING_TREE,   /* whole buckets go up a binary tree and down again */
    SCALING_WAYS
} scaling_way;
extern const char *const scaling_names[SCALING_WAYS];

/* Seconds to exchange this many bytes. */
double scaling_exchange(const scaling_terms *terms, scaling_way way, int ranks, double bytes);
/* The seconds of a step: buckets are ready in equal distances during the backward pass, and go one after the
 * other, the last one after its end. */
double scaling_step(const scaling_terms *terms, scaling_way way, int ranks);

#endif
