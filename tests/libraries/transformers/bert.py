"""BERT: masked words and classes of sentences, with a padding mask."""

import torch
from showing import gradients, show
from transformers import BertConfig, BertForMaskedLM, BertForSequenceClassification

torch.manual_seed(0)
config = BertConfig(
    vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
    intermediate_size=64, max_position_embeddings=40, num_labels=3,
)  # fmt: skip
tokens = torch.randint(0, 99, (3, 10))
mask = torch.ones(3, 10, dtype=torch.long)
mask[1, 7:] = 0

words = BertForMaskedLM(config)
out = words(tokens, attention_mask=mask, labels=tokens)
out.loss.backward()
show(loss=out.loss, logits=out.logits, gradients=gradients(words))

classes = BertForSequenceClassification(config).eval()
classes.set_attn_implementation("eager")
out = classes(tokens, attention_mask=mask, labels=torch.tensor([0, 2, 1]), output_attentions=True)
show(loss=out.loss, logits=out.logits, attention=out.attentions[1])
