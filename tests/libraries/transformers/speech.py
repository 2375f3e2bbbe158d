"""Speech: wav2vec 2 with its CTC loss, and HuBERT."""

import torch
from showing import gradients, show
from transformers import HubertConfig, HubertModel, Wav2Vec2Config, Wav2Vec2ForCTC

SMALL = {
    "vocab_size": 20, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 48, "conv_dim": (16, 16, 16), "conv_stride": (5, 4, 2),
    "conv_kernel": (10, 4, 3), "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4,
    "layerdrop": 0.0, "apply_spec_augment": False,
}  # fmt: skip
torch.manual_seed(0)
model = Wav2Vec2ForCTC(Wav2Vec2Config(**SMALL)).eval()
sound = torch.randn(2, 2000)
out = model(sound, labels=torch.randint(1, 20, (2, 5)))
out.loss.backward()
show(loss=out.loss, logits=out.logits, gradients=gradients(model))
torch.manual_seed(1)
with torch.no_grad():
    show(hubert=HubertModel(HubertConfig(**SMALL)).eval()(sound).last_hidden_state)
