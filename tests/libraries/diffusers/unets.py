"""diffusers: U-Nets, an autoencoder and a transformer from tiny configurations."""

import torch
from diffusers import AutoencoderKL, DiTTransformer2DModel, UNet2DConditionModel, UNet2DModel
from showing import gradients, show

torch.manual_seed(0)
plain = UNet2DModel(
    sample_size=16, in_channels=3, out_channels=3, layers_per_block=1, block_out_channels=(8, 16),
    down_block_types=("DownBlock2D", "AttnDownBlock2D"), norm_num_groups=4,
    up_block_types=("AttnUpBlock2D", "UpBlock2D"), attention_head_dim=4,
)  # fmt: skip
out = plain(torch.randn(2, 3, 16, 16), torch.tensor([3, 700])).sample
out.square().mean().backward()
show(plain=out, plain_gradients=gradients(plain))

torch.manual_seed(0)
guided = UNet2DConditionModel(
    sample_size=16, in_channels=4, out_channels=4, layers_per_block=1, block_out_channels=(8, 16),
    down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), norm_num_groups=4,
    up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"), cross_attention_dim=12, attention_head_dim=4,
)  # fmt: skip
out = guided(torch.randn(2, 4, 16, 16), 10, torch.randn(2, 5, 12)).sample
out.square().mean().backward()
show(guided=out, guided_gradients=gradients(guided))

torch.manual_seed(0)
coder = AutoencoderKL(
    block_out_channels=(8, 16), latent_channels=4, norm_num_groups=4, sample_size=16,
    down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
)  # fmt: skip
posterior = coder.encode(torch.randn(1, 3, 16, 16)).latent_dist
latents = posterior.sample(torch.Generator().manual_seed(3))
show(latents=latents, kl=posterior.kl(), decoded=coder.decode(latents).sample)

torch.manual_seed(0)
dit = DiTTransformer2DModel(
    num_attention_heads=2, attention_head_dim=8, in_channels=4, num_layers=2, sample_size=8,
    patch_size=2, num_embeds_ada_norm=10, norm_num_groups=4,
).eval()  # fmt: skip
with torch.no_grad():
    show(dit=dit(torch.randn(1, 4, 8, 8), torch.tensor([4]), torch.tensor([2])).sample)
