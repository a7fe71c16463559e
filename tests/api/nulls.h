/* What the calls of test_nulls.c, which nulls.py writes, get besides NULL, and check. */
#ifndef KN_TESTS_NULLS_H
#define KN_TESTS_NULLS_H

#include <koine/images.h>
#include <koine/koine.h>
#include <koine/opencl.h>

#include <string.h>

#include "support.h"

/* An object of each kind; graph and value, "2,3", are new in each call. The context describes a device. */
typedef struct fixture {
    kn_graph *graph;
    kn_value *value, *values[1];
    kn_context *context;
    kn_model *model;
    kn_dataset *dataset;
    kn_loader *loader;
    kn_trainer *trainer;
    kn_session *session;
    kn_runner *runner;
    kn_states *states;
    kn_tuner *tuner;
    kn_device_list *device_list;
    kn_events *events;
    kn_vocabulary *vocabulary;
    kn_checkpoints *checkpoints;
    kn_npy_file *npy_file;
    kn_onnx_file *onnx_file;
    kn_onnx_tensor_file *onnx_tensor_file;
    kn_safetensors_file *safetensors_file;
    kn_group *group;
    const kn_communicator *communicator;
    kn_operator *operator;
    kn_feed feed;
    kn_fetch fetch;
    kn_tensor_info tensor_info;
    kn_named_tensor named_tensor;
    kn_dataset_array dataset_array;
    char *folder, path[4096];
    size_t used;
    _Alignas(max_align_t) char memory[1 << 16];
} fixture;

typedef struct null_call {
    const char *name; /* "kn_input, graph" */
    void (*call)(fixture *on);
} null_call;
extern const null_call null_calls[];
extern const size_t null_call_count;

/* Zeros for an output, or a struct whose first field is its size. */
void *some(fixture *on, size_t bytes, bool sized);
/* `inside`: and the fixture's graph has the error. */
void value_failed(const fixture *on, const kn_value *value, bool inside);

#endif
