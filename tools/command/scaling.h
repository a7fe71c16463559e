/* Predicts the training step time of several workers from measurements of one worker and of the link between
 * them (scaling.c). Contains only arithmetic. */
#ifndef KOINE_COMMAND_SCALING_H
#define KOINE_COMMAND_SCALING_H

/* Times in seconds, sizes in bytes. */
typedef struct scaling_terms {
    double compute;        /* step time of one worker without communication */
    double backward;       /* the backward pass as a fraction of the step, from 0 to 1 */
    double gradient_bytes; /* gradient bytes of all parameters */
    double bucket_bytes;   /* bytes per exchange */
    double latency;        /* seconds per message */
    double message;        /* additional seconds per concurrent message */
    double bandwidth;      /* bytes per second sent by a worker that receives as much */
    double add;            /* seconds per byte to add two buffers on the host; 0: nothing */
    double transfer;       /* seconds per byte from the device and back; 0: nothing */
} scaling_terms;

/* The all-reduce algorithm. */
typedef enum scaling_way {
    SCALING_SLICES, /* Koine: each worker receives one slice from all others, and sends them its sum */
    SCALING_RING,   /* ring: reduce-scatter, then all-gather of the slices */
    SCALING_TREE,   /* binary tree: reduce whole buckets, then broadcast */
    SCALING_WAYS
} scaling_way;
extern const char *const scaling_names[SCALING_WAYS];

/* Seconds to all-reduce this many bytes. */
double scaling_exchange(const scaling_terms *terms, scaling_way way, int ranks, double bytes);
/* Seconds per step: buckets become ready at equal intervals during the backward pass and are exchanged one
 * after the other, the last one after the pass ends. */
double scaling_step(const scaling_terms *terms, scaling_way way, int ranks);

#endif
