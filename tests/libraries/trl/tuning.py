"""Supervised tuning and preferences of a small Llama, on datasets of the datasets library."""

import tempfile

import torch
import transformers as tf
import trl
from datasets import Dataset
from showing import show
from tokenizers import Tokenizer, models, pre_tokenizers
from trl.trainer.utils import pad, selective_log_softmax

config = tf.LlamaConfig(
    vocab_size=40, hidden_size=16, intermediate_size=24, num_hidden_layers=1,
    num_attention_heads=2, max_position_embeddings=32, pad_token_id=0, eos_token_id=2,
    bos_token_id=1,
)  # fmt: skip
words = Tokenizer(models.WordLevel({f"w{i}": i for i in range(40)}, unk_token="w3"))
words.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = tf.PreTrainedTokenizerFast(
    tokenizer_object=words, pad_token="w0", bos_token="w1", eos_token="w2", unk_token="w3"
)


def losses(trainer):
    trainer.train()
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


with tempfile.TemporaryDirectory() as folder:
    options = dict(
        output_dir=folder, per_device_train_batch_size=4, report_to=[], logging_steps=1,
        use_cpu=True, save_strategy="no", bf16=False, learning_rate=1e-2,
        gradient_checkpointing=False, disable_tqdm=True,
    )  # fmt: skip
    torch.manual_seed(0)
    told = Dataset.from_dict(
        {"input_ids": [[1, 5, 6, 7, 2], [1, 8, 9, 2], [1, 10, 11, 12, 2], [1, 4, 4, 2]] * 2}
    )
    trainer = trl.SFTTrainer(
        model=tf.LlamaForCausalLM(config), train_dataset=told, processing_class=tokenizer,
        args=trl.SFTConfig(max_steps=3, max_length=16, **options),
    )  # fmt: skip
    show(supervised=losses(trainer))
    preferred = Dataset.from_dict(
        {
            "prompt": ["w5 w6", "w7"] * 4,
            "chosen": [" w8 w9", " w10"] * 4,
            "rejected": [" w11", " w12 w13"] * 4,
        }
    )
    torch.manual_seed(1)
    trainer = trl.DPOTrainer(
        model=tf.LlamaForCausalLM(config), ref_model=tf.LlamaForCausalLM(config),
        train_dataset=preferred, processing_class=tokenizer,
        args=trl.DPOConfig(max_steps=2, **options),
    )  # fmt: skip
    show(preferences=losses(trainer))

torch.manual_seed(2)
show(chosen=selective_log_softmax(torch.randn(2, 3, 5), torch.randint(0, 5, (2, 3))))
show(padded=pad([torch.ones(2), torch.ones(3)], padding_value=0))
