"""Networks of Caffe's time with made-up weights, for compare.py: the real structures, with fewer channels where more would
only cost time."""
import numpy

from files import Word, layer

MAX, AVE = Word("MAX"), Word("AVE")


class Net:
  """A chain of layers; each method returns the name of its top. Input shapes are given where weights need them."""

  def __init__(self, name, shape, seed=1):
    self.random = numpy.random.default_rng(seed)
    self.shape = shape
    self.message = [("name", name), layer("Input", "data", "", input_param=[("shape", [("dim", size) for size in shape])])]
    self.channels = {"data": shape[1]}
    self.places = {}

  def add(self, kind, name, bottoms, channels=None, top=None, blobs=(), more=(), **params):
    made = [(list(one.shape), one.astype(numpy.float32).ravel().tolist()) for one in blobs]
    self.message.append(layer(kind, name, bottoms, top, made, more, **params))
    top = (top or name).split()[0]
    self.channels[top] = channels or self.channels[bottoms.split()[0]]
    return top

  def normal(self, *shape):
    return self.random.normal(0, (2 / max(1, numpy.prod(shape[1:]))) ** 0.5, shape)

  def conv(self, name, bottom, channels, size, bias=True, group=1, **more):
    shape = (channels, self.channels[bottom] // group, size, size)
    return self.add("Convolution", name, bottom, channels,
                    blobs=[self.normal(*shape)] + ([self.random.normal(0, 0.1, channels)] if bias else []),
                    convolution_param=[("num_output", channels), ("kernel_size", size), *more.items(),
                                       *([("group", group)] if group > 1 else []), *([] if bias else [("bias_term", Word("false"))])])

  def deconv(self, name, bottom, channels, size, group=1, bias=True, **more):
    return self.add("Deconvolution", name, bottom, channels,
                    blobs=[self.normal(self.channels[bottom], channels // group, size, size)] +
                    ([self.random.normal(0, 0.1, channels)] if bias else []),
                    convolution_param=[("num_output", channels), ("kernel_size", size), *more.items(),
                                       *([("group", group)] if group > 1 else []), *([] if bias else [("bias_term", Word("false"))])])

  def relu(self, name, blob):
    return self.add("ReLU", name, blob, top=blob)

  def pool(self, name, bottom, pool, size, stride, pad=0):
    return self.add("Pooling", name, bottom, pooling_param=[("pool", pool), ("kernel_size", size), ("stride", stride)] +
                    ([("pad", pad)] if pad else []))

  def lrn(self, name, bottom):
    return self.add("LRN", name, bottom, lrn_param=[("local_size", 5), ("alpha", 0.5), ("beta", 0.75)])

  def product(self, name, bottom, inputs, units):
    return self.add("InnerProduct", name, bottom, units, blobs=[self.normal(units, inputs), self.random.normal(0, 0.1, units)],
                    inner_product_param=[("num_output", units)])

  def norm(self, name, blob, factor=3.0):
    """BatchNorm, whose sums are `factor` times the statistics, and the Scale after it, both in place."""
    channels = self.channels[blob]
    self.add("BatchNorm", "bn_" + name, blob, top=blob,
             blobs=[self.random.normal(0, 0.3, channels) * factor, self.random.uniform(0.5, 1.5, channels) * factor,
                    numpy.array([factor])],
             batch_norm_param=[("use_global_stats", Word("true"))])
    return self.add("Scale", "scale_" + name, blob, top=blob,
                    blobs=[self.random.uniform(0.5, 1.5, channels), self.random.normal(0, 0.2, channels)],
                    scale_param=[("bias_term", Word("true"))])

  def concat(self, name, *bottoms):
    return self.add("Concat", name, " ".join(bottoms), sum(self.channels[bottom] for bottom in bottoms))


def lenet():
  net = Net("LeNet", (4, 1, 28, 28))
  x = net.pool("pool1", net.conv("conv1", "data", 20, 5), MAX, 2, 2)
  x = net.pool("pool2", net.conv("conv2", x, 50, 5), MAX, 2, 2)
  x = net.relu("relu1", net.product("ip1", x, 800, 500))
  net.add("Softmax", "prob", net.product("ip2", x, 500, 10))
  return net


def alexnet():
  net = Net("CaffeNet", (2, 3, 227, 227))
  x = net.relu("relu1", net.conv("conv1", "data", 24, 11, stride=4))
  x = net.lrn("norm1", net.pool("pool1", x, MAX, 3, 2))
  x = net.relu("relu2", net.conv("conv2", x, 64, 5, pad=2, group=2))
  x = net.lrn("norm2", net.pool("pool2", x, MAX, 3, 2))
  x = net.relu("relu3", net.conv("conv3", x, 96, 3, pad=1))
  x = net.relu("relu4", net.conv("conv4", x, 96, 3, pad=1, group=2))
  x = net.relu("relu5", net.conv("conv5", x, 64, 3, pad=1, group=2))
  x = net.pool("pool5", x, MAX, 3, 2)
  x = net.relu("relu6", net.product("fc6", x, 64 * 36, 256))
  x = net.add("Dropout", "drop6", x, top=x, dropout_param=[("dropout_ratio", 0.5)])
  net.add("Softmax", "prob", net.product("fc8", x, 256, 100))
  return net


def squeezenet():
  net = Net("SqueezeNet v1.1", (2, 3, 227, 227))
  x = net.relu("relu_conv1", net.conv("conv1", "data", 64, 3, stride=2))
  x = net.pool("pool1", x, MAX, 3, 2)
  for number, (squeeze, expand) in enumerate(((16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256)), 2):
    if number in (4, 6):
      x = net.pool(f"pool{number - 1}", x, MAX, 3, 2)
    fire = f"fire{number}/"
    x = net.relu(fire + "relu_squeeze1x1", net.conv(fire + "squeeze1x1", x, squeeze, 1))
    x = net.concat(fire + "concat", net.relu(fire + "relu_expand1x1", net.conv(fire + "expand1x1", x, expand, 1)),
                   net.relu(fire + "relu_expand3x3", net.conv(fire + "expand3x3", x, expand, 3, pad=1)))
  x = net.add("Dropout", "drop9", x, top=x)
  x = net.relu("relu_conv10", net.conv("conv10", x, 100, 1))
  x = net.add("Pooling", "pool10", x, pooling_param=[("pool", AVE), ("global_pooling", Word("true"))])
  net.add("Softmax", "prob", x)
  return net


def googlenet():
  net = Net("GoogLeNet", (2, 3, 64, 64))
  x = net.relu("conv1/relu", net.conv("conv1/7x7_s2", "data", 32, 7, pad=3, stride=2))
  x = net.lrn("pool1/norm1", net.pool("pool1/3x3_s2", x, MAX, 3, 2))
  for name in ("inception_3a", "inception_3b"):
    one = net.relu(name + "/relu_1x1", net.conv(name + "/1x1", x, 16, 1))
    three = net.relu(name + "/relu_3x3_reduce", net.conv(name + "/3x3_reduce", x, 24, 1))
    three = net.relu(name + "/relu_3x3", net.conv(name + "/3x3", three, 32, 3, pad=1))
    five = net.relu(name + "/relu_5x5_reduce", net.conv(name + "/5x5_reduce", x, 4, 1))
    five = net.relu(name + "/relu_5x5", net.conv(name + "/5x5", five, 8, 5, pad=2))
    pooled = net.pool(name + "/pool", x, MAX, 3, 1, pad=1)
    pooled = net.relu(name + "/relu_pool_proj", net.conv(name + "/pool_proj", pooled, 8, 1))
    x = net.concat(name + "/output", one, three, five, pooled)
  x = net.pool("pool5/7x7_s1", x, AVE, 7, 1)
  x = net.add("Dropout", "pool5/drop", x, top=x, dropout_param=[("dropout_ratio", 0.4)])
  net.add("Softmax", "prob", net.product("loss3/classifier", x, 64 * 100, 20))
  return net


def resnet():
  """Both kinds of blocks, with BatchNorm and Scale after each convolution."""
  net = Net("ResNet", (2, 3, 64, 64))
  x = net.relu("conv1_relu", net.norm("conv1", net.conv("conv1", "data", 16, 7, False, pad=3, stride=2)))
  x = net.pool("pool1", x, MAX, 3, 2)
  for number, (channels, stride) in enumerate(((32, 1), (32, 1), (64, 2)), 1):
    name = f"res{number}"
    y = net.relu(name + "a_relu", net.norm(name + "a", net.conv(name + "_branch2a", x, channels // 4, 1, False, stride=stride)))
    y = net.relu(name + "b_relu", net.norm(name + "b", net.conv(name + "_branch2b", y, channels // 4, 3, False, pad=1)))
    y = net.norm(name + "c", net.conv(name + "_branch2c", y, channels, 1, False))
    if net.channels[x] != channels:
      x = net.norm(name + "1", net.conv(name + "_branch1", x, channels, 1, False, stride=stride))
    x = net.relu(name + "_relu", net.add("Eltwise", name, x + " " + y))
  x = net.pool("pool5", x, AVE, 8, 1)
  net.add("Softmax", "prob", net.product("fc", x, 64, 20))
  return net


def fcn():
  """Deconvolutions, cropped to what they are added to."""
  net = Net("FCN", (2, 3, 40, 48))
  x = net.relu("relu1", net.conv("conv1", "data", 16, 3, pad=1))
  skipped = net.pool("pool1", x, MAX, 2, 2)
  x = net.relu("relu2", net.conv("conv2", skipped, 24, 3, pad=1))
  x = net.conv("score", net.pool("pool2", x, MAX, 2, 2), 6, 1)
  x = net.deconv("upscore2", x, 6, 4, bias=False, stride=2)
  skipped = net.conv("score_pool1", skipped, 6, 1)
  x = net.add("Crop", "crop1", f"{x} {skipped}", crop_param=[("axis", 2), ("offset", 1)])
  x = net.add("Eltwise", "fuse", f"{x} {skipped}", eltwise_param=[("operation", Word("SUM"))])
  x = net.deconv("upscore4", x, 6, 4, group=6, stride=2, pad=1)
  net.add("Softmax", "prob", x)
  return net


def mobilenet():
  net = Net("MobileNet", (2, 3, 64, 64))
  x = net.relu("relu1", net.norm("conv1", net.conv("conv1", "data", 16, 3, False, pad=1, stride=2)))
  for number, (channels, stride) in enumerate(((32, 1), (64, 2), (64, 1)), 2):
    inner = net.channels[x]
    x = net.conv(f"conv{number}/dw", x, inner, 3, False, inner, pad=1, stride=stride)
    x = net.relu(f"relu{number}/dw", net.norm(f"conv{number}/dw", x))
    x = net.relu(f"relu{number}/sep", net.norm(f"conv{number}/sep", net.conv(f"conv{number}/sep", x, channels, 1, False)))
  x = net.add("Pooling", "pool6", x, pooling_param=[("pool", AVE), ("global_pooling", Word("true"))])
  net.add("Softmax", "prob", net.conv("fc7", x, 20, 1))
  return net


def odd():
  """What else there is: sizes that no window divides, slopes, powers, pieces and other shapes."""
  net = Net("odd", (2, 4, 23, 30))
  x = net.pool("average", net.conv("conv", "data", 8, 3, pad=2, stride=2), AVE, 3, 2, pad=1)
  x = net.add("PReLU", "slopes", x, blobs=[net.random.uniform(0.1, 0.5, 8)])
  x = net.pool("largest", x, MAX, 3, 2, pad=1)
  one, two = "piece_a", "piece_b"
  net.add("Slice", "pieces", x, 3, top=f"{one} {two}", slice_param=[("slice_point", 3), ("axis", 1)])
  net.channels[two] = 5
  one = net.add("ELU", "elu", one, elu_param=[("alpha", 0.7)])
  one = net.add("Power", "power", one, power_param=[("power", 2.0), ("scale", 0.5), ("shift", 1.5)])
  two = net.add("TanH", "tanh", two)
  two = net.add("AbsVal", "absolute", two)
  x = net.concat("joined", one, two)
  x = net.add("LRN", "local", x, lrn_param=[("local_size", 3), ("alpha", 0.3), ("norm_region", Word("WITHIN_CHANNEL"))])
  x = net.add("Eltwise", "sum", f"{x} {net.add('Sigmoid', 'gate', x)}", eltwise_param=[("operation", Word("SUM")), ("coeff", 0.5), ("coeff", -2.0)])
  x = net.add("Permute", "turned", x, permute_param=[("order", i) for i in (0, 2, 3, 1)])
  x = net.add("Reshape", "rows", x, reshape_param=[("shape", [("dim", 0), ("dim", -1), ("dim", 8)])])
  net.add("Flatten", "flat", x, flatten_param=[("axis", 1)])
  return net


NETWORKS = {made.__name__: made for made in (lenet, alexnet, squeezenet, googlenet, resnet, fcn, mobilenet, odd)}
