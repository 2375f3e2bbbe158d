"""Twenty architectures by name: features and logits with weights of their seeds."""

import timm
import torch
from showing import show

NAMES = (
    "resnet10t resnext26ts efficientnet_lite0 mobilenetv3_small_050 vit_tiny_patch16_224 "
    "deit_tiny_patch16_224 convnext_atto mixer_s32_224 regnetx_002 ghostnet_050 "
    "levit_128s edgenext_xx_small mobilevit_xxs poolformer_s12 hardcorenas_a tinynet_e "
    "lcnet_035 fbnetc_100 repvgg_a0 xcit_nano_12_p16_224 test_vit test_resnet"
)
for name in NAMES.split():
    torch.manual_seed(0)
    size = {"img_size": 64} if name.startswith(("vit", "deit", "mixer")) else {}
    model = timm.create_model(name, num_classes=6, **size).eval()
    edge = 224 if name.startswith("levit") else 160 if name == "test_vit" else 64
    with torch.no_grad():
        show(**{name: model(torch.rand(1, 3, edge, edge))})
