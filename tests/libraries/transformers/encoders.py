"""Encoders of words, pictures and sounds: losses, answers and gradients."""

import torch
import transformers as tf
from showing import gradients, show

words = dict(
    vocab_size=67, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
    num_attention_heads=4, max_position_embeddings=64,
)  # fmt: skip
small = {**words, "embedding_size": 16}
apart = {**words, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]}
pictures = dict(
    hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
    image_size=32, patch_size=8,
)  # fmt: skip
windows = dict(image_size=32, patch_size=4, embed_dim=16, depths=[1, 1], num_heads=[2, 2])
stages = {"hidden_sizes": [8, 16, 16, 16], "depths": [1, 1, 1, 1]}
sounds = dict(
    hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
    conv_dim=(16, 16), conv_kernel=(8, 4), conv_stride=(4, 2), num_feat_extract_layers=2,
    num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4, vocab_size=32,
    apply_spec_augment=False, layerdrop=0.0,
)  # fmt: skip


def run(name, head, options, **inputs):
    torch.manual_seed(0)
    model = getattr(tf, f"{name}For{head}")(getattr(tf, f"{name}Config")(**options)).train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    torch.manual_seed(1)
    out = model(**{key: make() for key, make in inputs.items()})
    out.loss.backward()
    show(**{name: [out.loss, out.logits, gradients(model)]})


def tokens():
    return torch.randint(3, 67, (2, 10))


def padding():
    return torch.tensor([[1] * 10, [1] * 7 + [0] * 3])


for name, options in {
    "Roberta": words, "Electra": small, "Albert": small, "DebertaV2": apart, "Deberta": apart,
    "MPNet": words, "RoFormer": words, "ConvBert": words, "Nystromformer": words,
    "Longformer": {**words, "attention_window": [4, 4]},
    "ModernBert": {**words, "pad_token_id": 0, "local_attention": 4},
}.items():  # fmt: skip
    run(name, "MaskedLM", options, input_ids=tokens, attention_mask=padding, labels=tokens)

for name, options in {
    "ViT": pictures, "DeiT": pictures, "Beit": pictures, "Dinov2": pictures,
    "Swin": {**windows, "window_size": 4}, "Swinv2": {**windows, "window_size": 4},
    "ConvNext": {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2},
    "PoolFormer": stages,
    "PvtV2": {**stages, "image_size": 32, "num_attention_heads": [1, 2, 2, 2]},
    "Segformer": {**stages, "num_attention_heads": [1, 2, 2, 2]},
    "MobileViT": {"image_size": 32, "hidden_sizes": [16, 24, 32]},
}.items():  # fmt: skip
    run(
        name, "ImageClassification", options,
        pixel_values=lambda: torch.rand(2, 3, 32, 32), labels=lambda: torch.tensor([0, 1]),
    )  # fmt: skip

for name in ("Wav2Vec2", "Hubert", "WavLM", "UniSpeech", "Data2VecAudio", "Wav2Vec2Conformer"):
    run(
        name, "CTC", sounds,
        input_values=lambda: torch.randn(2, 800), labels=lambda: torch.randint(1, 32, (2, 5)),
    )  # fmt: skip
