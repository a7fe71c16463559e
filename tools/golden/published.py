#!/usr/bin/env python3
"""Trains networks of torchvision, timm and transformers by koine.torch and by PyTorch, and compares the losses of each step.

    published.py [--compile] [--steps N] [--markdown] [NETWORK...]    all without a name; PYTHONPATH and KOINE_LIBRARY as for steps.py

The networks are those of the packages, unchanged: with random weights, small pictures or few layers, and dropout of 0. How
near losses must be, steps.py says. --compile: PyTorch's loop, with the network compiled by the backend koine. What cannot be
trained is named with its reason. Exits with 1 if a loss is too far away or a network that is expected to train does not.
Networks of packages that are not installed are left out.
"""

import argparse
import copy
import logging
import sys
import time
import warnings

import koine
import torch
from steps import against_pytorch
from torch.nn import functional

CLASSES, TOKENS, LENGTH = 10, 60, 12
IMAGE, TEXT, LABELS = "image", "text", "labels"


# ---- networks --------------------------------------------------------------------------------------------------------


def torchvision_model(name, **more):
  def make():
    import torchvision

    return torchvision.models.get_model(name, weights=None, num_classes=CLASSES, **more)

  return make


def torchvision_vit():
  from torchvision.models import VisionTransformer

  return VisionTransformer(32, 8, 2, 4, 48, 96, num_classes=CLASSES)


def torchvision_swin():
  from torchvision.models import SwinTransformer

  return SwinTransformer([4, 4], 24, [2, 2], [2, 4], [4, 4], stochastic_depth_prob=0.0, num_classes=CLASSES)


def torchvision_convnext():
  from torchvision.models.convnext import CNBlockConfig, ConvNeXt

  blocks = [CNBlockConfig(16, 32, 1), CNBlockConfig(32, 64, 1), CNBlockConfig(64, None, 1)]
  return ConvNeXt(blocks, stochastic_depth_prob=0.0, num_classes=CLASSES)


def timm_model(name, **more):
  def make():
    import timm

    return timm.create_model(name, pretrained=False, num_classes=CLASSES, **more)

  return make


MIXER = {"num_classes": CLASSES, "img_size": 32, "patch_size": 8, "num_blocks": 2, "embed_dim": 32}


def timm_mixer():
  from timm.models.mlp_mixer import MlpMixer

  return MlpMixer(**MIXER)


def timm_resmlp():
  from timm.models.mlp_mixer import Affine, MlpMixer, ResBlock

  return MlpMixer(mlp_ratio=4, block_layer=ResBlock, norm_layer=Affine, **MIXER)


def timm_poolformer():
  from timm.models.metaformer import MetaFormer

  return MetaFormer(num_classes=CLASSES, depths=(1, 1, 1, 1), dims=(16, 32, 48, 64))


def transformer(kind, config, **more):
  """A model of transformers of the smallest size, without dropout."""

  def make():
    import transformers

    settings = getattr(transformers, config)(**more)
    for name in vars(settings):
      if "dropout" in name or name.endswith("pdrop"):
        setattr(settings, name, 0.0)
    settings._attn_implementation = "sdpa"
    return getattr(transformers, kind)(settings)

  return make


SMALL = {
  "vocab_size": TOKENS,
  "hidden_size": 24,
  "num_hidden_layers": 2,
  "num_attention_heads": 4,
  "intermediate_size": 48,
  "max_position_embeddings": 32,
}
GPT2 = {"vocab_size": TOKENS, "n_embd": 24, "n_layer": 2, "n_head": 4, "n_positions": 32}
LLAMA = {**SMALL, "num_key_value_heads": 2}
EXPERTS = dict(num_local_experts=4, num_experts=4, num_experts_per_tok=2)
DISTIL = {"vocab_size": TOKENS, "dim": 24, "n_layers": 2, "n_heads": 4, "hidden_dim": 48, "max_position_embeddings": 32}
OPT = {
  "vocab_size": TOKENS,
  "hidden_size": 24,
  "word_embed_proj_dim": 24,
  "num_hidden_layers": 2,
  "num_attention_heads": 4,
  "ffn_dim": 48,
  "max_position_embeddings": 32,
}
VIT = {"image_size": 32, "patch_size": 8, "num_labels": CLASSES}
VIT.update({key: SMALL[key] for key in ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")})

# What makes the network, what it takes, the side of its pictures, and the learning rate of AdamW. Batch norms before rectifiers
# enlarge rounding with each element that changes its side: their rates are small.
NETWORKS = {
  "torchvision resnet18": (torchvision_model("resnet18"), IMAGE, 48, 1e-5),
  "torchvision squeezenet1_1": (torchvision_model("squeezenet1_1", dropout=0.0), IMAGE, 48, 1e-4),
  "torchvision mobilenet_v2": (torchvision_model("mobilenet_v2", dropout=0.0), IMAGE, 48, 1e-5),
  "torchvision mobilenet_v3_small": (torchvision_model("mobilenet_v3_small", dropout=0.0), IMAGE, 48, 1e-5),
  "torchvision shufflenet_v2_x0_5": (torchvision_model("shufflenet_v2_x0_5"), IMAGE, 48, 1e-5),
  "torchvision mnasnet0_5": (torchvision_model("mnasnet0_5", dropout=0.0), IMAGE, 48, 1e-5),
  "torchvision regnet_y_400mf": (torchvision_model("regnet_y_400mf"), IMAGE, 48, 1e-5),
  "torchvision efficientnet_b0": (
    torchvision_model("efficientnet_b0", dropout=0.0, stochastic_depth_prob=0.0),
    IMAGE,
    48,
    1e-5,
  ),
  "torchvision convnext": (torchvision_convnext, IMAGE, 48, 1e-4),
  "torchvision vit": (torchvision_vit, IMAGE, 32, 1e-4),
  "torchvision swin": (torchvision_swin, IMAGE, 32, 1e-4),
  "timm resnet10t": (timm_model("resnet10t"), IMAGE, 48, 1e-5),
  "timm mobilenetv3_small_050": (timm_model("mobilenetv3_small_050"), IMAGE, 48, 1e-5),
  "timm lcnet_050": (timm_model("lcnet_050"), IMAGE, 48, 1e-5),
  "timm regnetx_002": (timm_model("regnetx_002"), IMAGE, 48, 1e-5),
  "timm convnext_atto": (timm_model("convnext_atto", depths=(1, 1, 1, 1)), IMAGE, 48, 1e-4),
  "timm vit_tiny": (timm_model("vit_tiny_patch16_224", img_size=32, patch_size=8, depth=2), IMAGE, 32, 1e-4),
  "timm deit_tiny": (timm_model("deit_tiny_patch16_224", img_size=32, patch_size=8, depth=2), IMAGE, 32, 1e-4),
  "timm mixer": (timm_mixer, IMAGE, 32, 1e-4),
  "timm resmlp": (timm_resmlp, IMAGE, 32, 1e-4),
  "timm poolformer": (timm_poolformer, IMAGE, 64, 1e-4),
  "transformers bert": (transformer("BertForSequenceClassification", "BertConfig", num_labels=CLASSES, **SMALL), LABELS, 0, 1e-3),
  "transformers distilbert": (
    transformer("DistilBertForSequenceClassification", "DistilBertConfig", num_labels=CLASSES, **DISTIL),
    LABELS,
    0,
    1e-3,
  ),
  "transformers roberta": (transformer("RobertaForMaskedLM", "RobertaConfig", **SMALL), TEXT, 0, 1e-3),
  "transformers electra": (transformer("ElectraForMaskedLM", "ElectraConfig", embedding_size=24, **SMALL), TEXT, 0, 1e-3),
  "transformers gpt2": (transformer("GPT2LMHeadModel", "GPT2Config", use_cache=False, **GPT2), TEXT, 0, 1e-3),
  "transformers opt": (transformer("OPTForCausalLM", "OPTConfig", use_cache=False, **OPT), TEXT, 0, 1e-3),
  "transformers gpt_neox": (transformer("GPTNeoXForCausalLM", "GPTNeoXConfig", use_cache=False, **SMALL), TEXT, 0, 1e-3),
  "transformers llama": (transformer("LlamaForCausalLM", "LlamaConfig", use_cache=False, **LLAMA), TEXT, 0, 1e-3),
  "transformers mistral": (transformer("MistralForCausalLM", "MistralConfig", use_cache=False, **LLAMA), TEXT, 0, 1e-3),
  "transformers qwen2": (transformer("Qwen2ForCausalLM", "Qwen2Config", use_cache=False, **LLAMA), TEXT, 0, 1e-3),
  "transformers mixtral": (transformer("MixtralForCausalLM", "MixtralConfig", use_cache=False, **LLAMA, **EXPERTS), TEXT, 0, 1e-3),
  "transformers qwen3_moe": (transformer("Qwen3MoeForCausalLM", "Qwen3MoeConfig", use_cache=False, head_dim=16, moe_intermediate_size=24,
                                         **LLAMA, **EXPERTS), TEXT, 0, 1e-3),
  "transformers vit": (transformer("ViTForImageClassification", "ViTConfig", **VIT), IMAGE, 32, 1e-4),
}
# Networks that are known not to train, and why.
REFUSED = {}


# ---- training --------------------------------------------------------------------------------------------------------


def logits_of(out):
  return out if isinstance(out, torch.Tensor) else out.logits


def loss_of(out, y):
  logits = logits_of(out)
  return functional.cross_entropy(logits.flatten(0, -2), y.flatten())


def batches_of(kind, side, count):
  generator = torch.Generator().manual_seed(2)
  found = []
  for _ in range(count):
    x = torch.randn(4, 3, side, side, generator=generator) if kind == IMAGE else \
        torch.randint(3, TOKENS, (4, LENGTH), generator=generator)
    most, shape = (TOKENS, (4, LENGTH)) if kind == TEXT else (CLASSES, (4,))
    found.append((x, torch.randint(0, most, shape, generator=generator)))
  return found


def by_koine(model, optimizer, batches, compiled):
  if compiled:
    torch._dynamo.reset()
    call, found = torch.compile(model, backend=koine.torch.backend), []
    for x, y in batches:
      optimizer.zero_grad()
      loss = loss_of(call(x), y)
      loss.backward()
      optimizer.step()
      found.append(loss.item())
    return found
  with koine.torch.train_step(model, loss_of, optimizer) as step:
    return [loss.item() for loss in [step(x, y) for x, y in batches]]


def compare(name, steps, compiled):
  """The first and the last loss, how far Koine's and PyTorch's single precision are from double precision, and whether it is right."""
  make, kind, side, rate = NETWORKS[name]
  torch.manual_seed(1)
  start, batches = make().train(), batches_of(kind, side, steps)
  models = [start, copy.deepcopy(start), copy.deepcopy(start).double()]
  if hasattr(start, "set_experts_implementation"):
    models[2].set_experts_implementation("batched_mm")  # PyTorch's grouped products have no double precision
  optimizers = [torch.optim.AdamW(model.parameters(), rate) for model in models]
  ours = by_koine(models[0], optimizers[0], batches, compiled)
  double, *found = against_pytorch(ours, models[1:], loss_of, optimizers[1:], batches)
  return double[0], double[-1], *found


def main():
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--compile", action="store_true")
  parser.add_argument("--markdown", action="store_true")
  parser.add_argument("--steps", type=int, default=20)
  parser.add_argument("networks", nargs="*")
  options = parser.parse_args()
  unknown = [name for name in options.networks if name not in NETWORKS]
  if unknown:
    raise SystemExit(f"no network {', '.join(unknown)}; there are {', '.join(NETWORKS)}")
  warnings.simplefilter("ignore")
  logging.getLogger("koine").setLevel(logging.ERROR)
  torch.set_num_threads(1)
  failed = 0
  for name in options.networks or list(NETWORKS):
    begun, row = time.time(), "| {} | {} |" if options.markdown else "{:32} {}"
    try:
      first, last, ours, single, good = compare(name, options.steps, options.compile)
      words = (f"{first:.4f} to {last:.4f}", f"{ours:.0e}", f"{single:.0e}", "yes" if good else "no: too far")
      said = (" | " if options.markdown else "; ").join(words)
    except ImportError as error:
      print(f"{name} is left out: {error}", file=sys.stderr)
      continue
    except Exception as error:
      good, said = name in REFUSED, f"{type(error).__name__}: {str(error).splitlines()[0][:300]}"
    failed += not good
    print(row.format(name, said), flush=True)
    print(f"{name}: {time.time() - begun:.0f} s", file=sys.stderr, flush=True)
  raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
  main()
