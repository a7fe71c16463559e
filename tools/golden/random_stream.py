"""Koine's counter-based random numbers (src/base/random.c) in numpy.

Philox4x32-10: nothing here has a state, so element i of a stream is the same number
for any caller, in any order, in C or in Python.
"""

import numpy

MASK32 = numpy.uint64(0xFFFFFFFF)
SHIFT32 = numpy.uint64(32)
MULTIPLIER_0 = numpy.uint64(0xD2511F53)
MULTIPLIER_1 = numpy.uint64(0xCD9E8D57)
WEYL_0 = 0x9E3779B9
WEYL_1 = 0xBB67AE85
ROUNDS = 10

HASH_START = 0xCBF29CE484222325
HASH_PRIME = 0x100000001B3
MASK64 = 0xFFFFFFFFFFFFFFFF


def philox_counters(c0, c1, c2, c3, key0, key1):
  """Ten rounds over arrays of counter words (uint64 arrays that hold 32-bit values)."""
  for step in range(ROUNDS):
    k0 = numpy.uint64((key0 + step * WEYL_0) & 0xFFFFFFFF)
    k1 = numpy.uint64((key1 + step * WEYL_1) & 0xFFFFFFFF)
    product0 = MULTIPLIER_0 * c0
    product1 = MULTIPLIER_1 * c2
    c0, c1, c2, c3 = (
      (product1 >> SHIFT32) ^ c1 ^ k0,
      product1 & MASK32,
      (product0 >> SHIFT32) ^ c3 ^ k1,
      product0 & MASK32,
    )
  return c0, c1, c2, c3


def philox(key, blocks):
  """kn_philox: words is (blocks, 4) uint32 for an array of block numbers."""
  blocks = numpy.asarray(blocks, dtype=numpy.uint64)
  zero = numpy.zeros_like(blocks)
  words = philox_counters(blocks & MASK32, blocks >> SHIFT32, zero, zero, key & 0xFFFFFFFF, key >> 32)
  return numpy.stack(words, axis=-1).astype(numpy.uint32)


def words(key, start, count):
  """kn_random_word for the elements start .. start + count - 1 of the stream."""
  first = start // 4
  last = (start + count + 3) // 4
  stream = philox(key, numpy.arange(first, last, dtype=numpy.uint64)).reshape(-1)
  return stream[start - 4 * first : start - 4 * first + count]


def uniform(key, start, count):
  """kn_random_uniform: the top 24 bits times 2^-24, exact in float32."""
  return (words(key, start, count) >> numpy.uint32(8)).astype(numpy.float32) * numpy.float32(2.0**-24)


def below(key, start, count, bound):
  """kn_random_below: integers in [0, bound)."""
  wide = words(key, start, count).astype(numpy.uint64) * numpy.uint64(bound)
  return (wide >> SHIFT32).astype(numpy.int64)


def key(seed, name):
  """kn_random_key: FNV-1a over the eight bytes of the seed (little endian), then the name."""
  value = HASH_START
  for byte in int(seed).to_bytes(8, "little") + name.encode("utf-8"):
    value = ((value ^ byte) * HASH_PRIME) & MASK64
  return value


def self_test():
  """The known answers published with the generator; raises if one differs."""
  cases = [
    ((0, 0, 0, 0), (0, 0), "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ((MASK64 >> 32,) * 4, (MASK64 >> 32,) * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    (
      (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
      (0xA4093822, 0x299F31D0),
      "d16cfe09 94fdcceb 5001e420 24126ea1",
    ),
  ]
  for counter, (key0, key1), expected in cases:
    arrays = [numpy.array([word], dtype=numpy.uint64) for word in counter]
    got = " ".join(f"{int(word[0]):08x}" for word in philox_counters(*arrays, key0, key1))
    if got != expected:
      raise SystemExit(f"random_stream: philox gives {got}, expected {expected}")
  if key(0, "") == 0 or key(1, "a") == key(1, "b"):
    raise SystemExit("random_stream: the keys of streams do not differ")


def golden():
  """Known answers for the C side, as the contents of random.json."""
  streams = []
  for seed, name in (
    (0, "x"),
    (1, "x"),
    (1, "label"),
    (1, "linear1.weight"),
    (2**64 - 1, "stage2.conv1.weight"),
  ):
    stream = key(seed, name)
    # Word 2^34 is in block 2^32, where the high counter word begins to count.
    streams.append(
      {
        "seed": f"0x{seed:016x}",
        "name": name,
        "key": f"0x{stream:016x}",
        "words": [int(word) for word in words(stream, 0, 6)],
        "words_from_2_to_the_34": [int(word) for word in words(stream, 2**34, 4)],
        "uniform": [float(value) for value in uniform(stream, 0, 6)],
        "below_10": [int(value) for value in below(stream, 0, 12, 10)],
      }
    )
  return {"format": 1, "kind": "random", "streams": streams}
