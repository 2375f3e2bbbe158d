"""The Trainer: a tiny model on tiny data, its losses, its evaluation, and its checkpoint."""

import tempfile

import torch
from showing import show
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    Trainer,
    TrainingArguments,
    set_seed,
)

set_seed(0)
model = GPT2LMHeadModel(GPT2Config(vocab_size=50, n_positions=16, n_embd=16, n_layer=1, n_head=2))
rows = torch.randint(0, 50, (24, 8))
data = [{"input_ids": row, "labels": row} for row in rows]
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        output_dir=folder, num_train_epochs=2, per_device_train_batch_size=6, learning_rate=5e-3,
        logging_steps=2, report_to=[], seed=3, save_strategy="epoch", eval_strategy="epoch",
        disable_tqdm=True, lr_scheduler_type="cosine", warmup_steps=2, max_grad_norm=1.0,
        use_cpu=True,
    )  # fmt: skip
    trainer = Trainer(model=model, args=arguments, train_dataset=data, eval_dataset=data[:8])
    done = trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    show(steps=done.global_step, mean_loss=done.training_loss, losses=losses)
    show(evaluated=trainer.evaluate()["eval_loss"])
    again = GPT2LMHeadModel.from_pretrained(f"{folder}/checkpoint-8")
    with torch.no_grad():
        show(restored=again.eval()(rows[:2]).logits)
