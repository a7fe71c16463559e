/* Koine trains and runs neural networks on any OpenCL device.
 *
 * From the smallest to the most convenient:
 *   status.h host.h version.h   codes, memory and messages
 *   device.h context.h          the devices of this machine, and an opened one
 *   tensor.h graph.h operators.h   what to compute
 *   own.h                       operators of your own
 *   session.h                   running it
 *   train.h data.h fit.h model.h   training, data sets, models with names and files
 *   checkpoint.h                trainings that go on whatever ended them
 *   npy.h safetensors.h onnx.h  arrays in files
 *   events.h                    what TensorBoard shows
 *   verify.h                    is this device computing rightly?
 * koine/opencl.h, for programs that bring an OpenCL context of their own, is included apart. */
#ifndef KOINE_KOINE_H
#define KOINE_KOINE_H

#include <koine/checkpoint.h>
#include <koine/context.h>
#include <koine/data.h>
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
#include <koine/verify.h>
#include <koine/version.h>

#endif
