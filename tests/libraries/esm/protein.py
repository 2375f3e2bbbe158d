"""ESM-2 and the MSA transformer of fair-esm, of small size, with contacts."""

import torch
from esm import Alphabet
from esm.model.esm2 import ESM2
from esm.model.msa_transformer import MSATransformer

from showing import gradients, show

torch.manual_seed(0)
alphabet = Alphabet.from_architecture("ESM-1b")
model = ESM2(num_layers=2, embed_dim=32, attention_heads=4, alphabet=alphabet, token_dropout=True)
convert = alphabet.get_batch_converter()
_, _, tokens = convert([("a", "MKTVRQERLK"), ("b", "KALTA<mask>ISQ")])
out = model(tokens, repr_layers=[0, 2], return_contacts=True)
out["logits"].log_softmax(-1)[..., 4].sum().backward()
show(
    logits=out["logits"],
    contacts=out["contacts"],
    inside=out["representations"][2],
    gradients=gradients(model),
)
