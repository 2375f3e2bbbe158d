"""Whisper: sound to text, from features that the library computes of a tone."""

import numpy
import torch
from showing import gradients, show
from transformers import WhisperConfig, WhisperFeatureExtractor, WhisperForConditionalGeneration

torch.manual_seed(0)
config = WhisperConfig(
    vocab_size=60, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
    decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, num_mel_bins=16,
    max_source_positions=50, max_target_positions=30, pad_token_id=0, bos_token_id=1,
    eos_token_id=2, decoder_start_token_id=1, suppress_tokens=None, begin_suppress_tokens=None,
)  # fmt: skip
tone = numpy.sin(numpy.arange(16000, dtype=numpy.float32) * 0.2)
extractor = WhisperFeatureExtractor(feature_size=16, chunk_length=1)
features = extractor(tone, sampling_rate=16000, return_tensors="pt").input_features
model = WhisperForConditionalGeneration(config).eval()
out = model(input_features=features, labels=torch.randint(3, 60, (1, 7)))
out.loss.backward()
show(features=features, loss=out.loss, logits=out.logits, gradients=gradients(model))
with torch.no_grad():
    states = model.model.encoder(features).last_hidden_state
    step = model.model.decoder(torch.tensor([[1, 5, 9]]), encoder_hidden_states=states)
show(encoded=states, decoded=step.last_hidden_state)
