/* Koine trains and runs neural networks on any OpenCL device.
 *
 *     kn_context *context = kn_context_create(NULL);
 *     kn_model *model = kn_model_open("lenet.safetensors", NULL);
 *     kn_value *output = kn_model_output_at(model, 0);
 *     kn_session *session = kn_session_create(context, &output, 1, NULL);
 *     if (kn_model_load(model, NULL, kn_session_states(session), NULL, NULL) != KN_OK)
 *         fprintf(stderr, "%s\n", kn_model_error(model));
 *
 * Tier 1, for most programs: models, data and training by name.
 *   context.h device.h          open a device
 *   model.h data.h              models with names and files, datasets
 *   train.h fit.h               optimizers, training loops
 *   session.h runner.h          inference
 *   text.h                      vocabularies of language models
 *   checkpoint.h events.h       training runs that resume; files for TensorBoard
 * Tier 2, to define networks and operators.
 *   graph.h operators.h         graphs of layers and operators
 *   custom.h                    custom operators
 *   npy.h safetensors.h onnx.h  arrays in files
 * Tier 3, for several workers, other runtimes and new devices.
 *   communicator.h              how workers exchange data
 *   verify.h tune.h             check and tune a device's kernels
 *   debug.h                     switches for tests
 * Included by all:
 *   status.h tensor.h host.h version.h defaults.h export.h
 * Separate: images.h and mpi.h, of libkoine-images and libkoine-mpi; opencl.h, for programs with their own
 * OpenCL context.
 *
 * docs/c-api.md has the rules for names, structs and versions. */
#ifndef KOINE_KOINE_H
#define KOINE_KOINE_H

#include <koine/checkpoint.h>
#include <koine/communicator.h>
#include <koine/context.h>
#include <koine/data.h>
#include <koine/debug.h>
#include <koine/defaults.h>
#include <koine/device.h>
#include <koine/events.h>
#include <koine/export.h>
#include <koine/fit.h>
#include <koine/graph.h>
#include <koine/host.h>
#include <koine/model.h>
#include <koine/npy.h>
#include <koine/onnx.h>
#include <koine/operators.h>
#include <koine/custom.h>
#include <koine/runner.h>
#include <koine/safetensors.h>
#include <koine/session.h>
#include <koine/status.h>
#include <koine/tensor.h>
#include <koine/text.h>
#include <koine/train.h>
#include <koine/tune.h>
#include <koine/verify.h>
#include <koine/version.h>

#endif
