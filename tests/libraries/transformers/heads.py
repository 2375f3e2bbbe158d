"""Heads on encoders, answers with all hidden states, collators, schedules and a pipeline."""

import torch
import transformers as tf
from showing import gradients, show

torch.manual_seed(0)
config = tf.BertConfig(
    vocab_size=71, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
    intermediate_size=64, max_position_embeddings=32, num_labels=3,
)  # fmt: skip
tokens = torch.randint(5, 71, (2, 9))
mask = torch.ones_like(tokens)
mask[1, 6:] = 0
for name, cls, labels in [
    ("sequence", tf.BertForSequenceClassification, torch.tensor([0, 2])),
    ("token", tf.BertForTokenClassification, tokens % 3),
    ("masked", tf.BertForMaskedLM, tokens),
]:
    torch.manual_seed(1)
    model = cls(config).train()
    out = model(tokens, attention_mask=mask, labels=labels, output_hidden_states=True)
    out.loss.backward()
    hidden = torch.stack(out.hidden_states)
    show(**{name: out.loss, f"{name}_hidden": hidden, f"{name}_grad": gradients(model)})

torch.manual_seed(2)
answers = tf.DistilBertForQuestionAnswering(
    tf.DistilBertConfig(vocab_size=71, dim=32, n_layers=2, n_heads=4, hidden_dim=64)
).eval()
with torch.no_grad():
    out = answers(tokens, attention_mask=mask, start_positions=torch.tensor([1, 2]),
                  end_positions=torch.tensor([3, 4]))  # fmt: skip
show(question=out.loss, start=out.start_logits)

model = torch.nn.Linear(2, 1)
for name in ("linear", "cosine", "cosine_with_restarts", "polynomial", "inverse_sqrt"):
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.1)
    plan = tf.get_scheduler(name, optimiser, num_warmup_steps=3, num_training_steps=12)
    rates = []
    for _ in range(12):
        optimiser.step()
        plan.step()
        rates.append(plan.get_last_lr()[0])
    show(**{name: torch.tensor(rates)})

optimiser = tf.Adafactor(model.parameters(), lr=None, relative_step=True, warmup_init=True)
torch.manual_seed(3)
for _ in range(5):
    optimiser.zero_grad()
    model(torch.randn(8, 2)).square().mean().backward()
    optimiser.step()
show(adafactor=model.weight)
