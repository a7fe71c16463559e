"""ONNX Runtime's side of one row, in a separate process.

usage: onnx_worker.py FOLDER THREADS      FOLDER as torch_worker.py prepare left it
"""

import os
import sys

import numpy
import onnxruntime

import tensors
import worker

DTYPES = {"F32": numpy.float32, "I64": numpy.int64}


def main(folder, threads):
    stream = worker.own_output()
    base = worker.memory("VmRSS")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(
        os.path.join(folder, "network.onnx"), options, providers=["CPUExecutionProvider"]
    )
    kind, shape, data = tensors.read(os.path.join(folder, "samples.safetensors"))["x"]
    feeds = {"x": numpy.frombuffer(data, DTYPES[kind]).reshape(shape)}

    def step():
        return session.run(None, feeds)

    _, _, expected = tensors.read(os.path.join(folder, "expected.safetensors"))["logits"]
    expected, found = numpy.frombuffer(expected, numpy.float32), step()[0].ravel()
    if not numpy.allclose(found, expected, rtol=0, atol=1e-3 * numpy.sqrt(numpy.mean(expected**2))):
        sys.exit("ONNX Runtime and PyTorch compute different logits")
    worker.serve(stream, step, base, worker.warm_up(step))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
