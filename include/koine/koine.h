/* Koine trains and runs neural networks on any OpenCL device.
 *
 * From the lowest level to the most convenient:
 *   status.h host.h version.h   status codes, memory and log
 *   defaults.h                  parameter and result structs
 *   device.h context.h          the devices of this machine, and an opened device
 *   tensor.h graph.h operators.h   what to compute
 *   custom.h                    custom operators
 *   session.h                   running a graph
 *   train.h data.h fit.h model.h   training, datasets, models with names and files
 *   checkpoint.h                training runs that resume after an interruption
 *   communicator.h              how several workers exchange numbers
 *   npy.h safetensors.h onnx.h  arrays in files
 *   events.h                    files for TensorBoard
 *   verify.h tune.h             does this device compute correctly, and which kernels are the fastest?
 * koine/opencl.h, for programs that bring their own OpenCL context, is included separately. */
#ifndef KOINE_KOINE_H
#define KOINE_KOINE_H

#include <koine/checkpoint.h>
#include <koine/communicator.h>
#include <koine/context.h>
#include <koine/data.h>
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
#include <koine/safetensors.h>
#include <koine/session.h>
#include <koine/status.h>
#include <koine/tensor.h>
#include <koine/train.h>
#include <koine/tune.h>
#include <koine/verify.h>
#include <koine/version.h>

#endif
