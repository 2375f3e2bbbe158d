"""A tokenizer trained here, a model, and the text pipeline over both."""

import tempfile

import torch
from showing import show
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast, pipeline

torch.manual_seed(0)
words = ["the sun rises over the sea", "the sea is calm", "a sun over a calm sea", "rises the sun"]
tokenizer = Tokenizer(models.WordLevel(unk_token="[UNK]"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer.train_from_iterator(words, trainers.WordLevelTrainer(special_tokens=["[UNK]", "[PAD]"]))
fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]", pad_token="[PAD]")
batch = fast(words, padding=True, return_tensors="pt")
show(ids=batch["input_ids"], mask=batch["attention_mask"])
config = GPT2Config(
    vocab_size=len(fast), n_positions=32, n_embd=16, n_layer=1, n_head=2, bos_token_id=0,
    eos_token_id=0,
)  # fmt: skip
with tempfile.TemporaryDirectory() as folder:
    GPT2LMHeadModel(config).save_pretrained(folder)
    fast.save_pretrained(folder)
    write = pipeline("text-generation", model=folder, tokenizer=folder, device="cpu")
    show(text=write("the sun", max_new_tokens=5, do_sample=False)[0]["generated_text"])
