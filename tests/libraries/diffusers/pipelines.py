"""Pipelines from tiny parts: pictures from noise, from text, and saved and loaded again."""

import tempfile

import torch
from diffusers import (
    AutoencoderKL,
    DDIMScheduler,
    DDPMPipeline,
    DDPMScheduler,
    StableDiffusionPipeline,
    UNet2DConditionModel,
    UNet2DModel,
)
from showing import show
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import CLIPTextConfig, CLIPTextModel, PreTrainedTokenizerFast

torch.manual_seed(0)
unet = UNet2DModel(
    sample_size=16, in_channels=3, out_channels=3, layers_per_block=1, block_out_channels=(8, 16),
    down_block_types=("DownBlock2D", "AttnDownBlock2D"), norm_num_groups=4,
    up_block_types=("AttnUpBlock2D", "UpBlock2D"), attention_head_dim=4,
)  # fmt: skip
pipe = DDPMPipeline(unet, DDPMScheduler())
pipe.set_progress_bar_config(disable=True)
options = {"num_inference_steps": 3, "output_type": "np"}
first = pipe(generator=torch.Generator().manual_seed(0), **options).images
show(ddpm=torch.from_numpy(first))
with tempfile.TemporaryDirectory() as folder:
    pipe.save_pretrained(folder)
    again = DDPMPipeline.from_pretrained(folder)
    again.set_progress_bar_config(disable=True)
    second = again(generator=torch.Generator().manual_seed(0), **options).images
    show(same=bool((abs(first - second) < 1e-5).all()))

torch.manual_seed(1)
words = {word: number for number, word in enumerate("a picture of the sea [PAD] [EOS]".split())}
tokenizer = Tokenizer(models.WordLevel(words, unk_token="a"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
text = CLIPTextModel(CLIPTextConfig(
    vocab_size=8, hidden_size=12, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2,
    max_position_embeddings=16, eos_token_id=6, bos_token_id=0, pad_token_id=5,
))  # fmt: skip
guided = StableDiffusionPipeline(
    vae=AutoencoderKL(
        block_out_channels=(8, 16), latent_channels=4, norm_num_groups=4, sample_size=16,
        down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
    ),
    text_encoder=text,
    tokenizer=PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", eos_token="[EOS]", model_max_length=16
    ),
    unet=UNet2DConditionModel(
        sample_size=8, in_channels=4, out_channels=4, layers_per_block=1, norm_num_groups=4,
        block_out_channels=(8, 16), cross_attention_dim=12, attention_head_dim=4,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
    ),
    scheduler=DDIMScheduler(clip_sample=False, steps_offset=1),
    safety_checker=None, feature_extractor=None, requires_safety_checker=False,
)  # fmt: skip
guided.set_progress_bar_config(disable=True)
images = guided(
    "a picture of the sea", num_inference_steps=3, guidance_scale=3.0, output_type="np",
    generator=torch.Generator().manual_seed(2), height=16, width=16,
).images  # fmt: skip
show(guided=torch.from_numpy(images))
