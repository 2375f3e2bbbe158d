"""Searching: penalties, forbidden words, stops, prompts of several lengths, static caches."""

import torch
from showing import show
from transformers import (
    GenerationConfig,
    LlamaConfig,
    LlamaForCausalLM,
    LogitsProcessorList,
    RepetitionPenaltyLogitsProcessor,
    StoppingCriteriaList,
    MaxLengthCriteria,
)

torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=61, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
    num_attention_heads=4, max_position_embeddings=64, initializer_range=0.3,
)  # fmt: skip
model = LlamaForCausalLM(config).eval()
tokens = torch.randint(3, 61, (2, 6))
mask = torch.tensor([[0, 0, 1, 1, 1, 1], [1] * 6])


def generate(**options):
    torch.manual_seed(5)
    given = GenerationConfig(max_new_tokens=7, pad_token_id=0, **options)
    return model.generate(tokens, attention_mask=mask, generation_config=given).tolist()


with torch.no_grad():
    show(penalised=generate(repetition_penalty=1.5, no_repeat_ngram_size=2))
    show(forbidden=generate(bad_words_ids=[[5], [7, 8]], min_new_tokens=4))
    show(sampled=generate(do_sample=True, top_k=10, top_p=0.9, typical_p=0.95))
    show(minimal=generate(do_sample=True, min_p=0.05, temperature=1.3))
    show(beam_sampled=generate(do_sample=True, num_beams=2, length_penalty=0.7))
    show(static=generate(cache_implementation="static"))
    scored = model.generate(
        tokens, attention_mask=mask, pad_token_id=0, do_sample=False,
        logits_processor=LogitsProcessorList([RepetitionPenaltyLogitsProcessor(1.2)]),
        stopping_criteria=StoppingCriteriaList([MaxLengthCriteria(10)]),
        return_dict_in_generate=True, output_scores=True,
    )  # fmt: skip
    show(stopped=scored.sequences.tolist(), last=scored.scores[-1])
