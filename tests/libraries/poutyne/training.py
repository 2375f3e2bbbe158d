"""Training by Poutyne's Model with metrics, callbacks and a checkpoint."""

import os
import tempfile

import torch
from poutyne import CSVLogger, EarlyStopping, Model, ModelCheckpoint, StepLR, set_seeds

from showing import show

set_seeds(42)
x, y = torch.randn(200, 10), torch.randint(0, 3, (200,))
net = torch.nn.Sequential(torch.nn.Linear(10, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
model = Model(
    net, "sgd", "cross_entropy", batch_metrics=["accuracy"], epoch_metrics=["f1"], device="cpu"
)
with tempfile.TemporaryDirectory() as place:
    history = model.fit(
        x.numpy(), y.numpy(), validation_data=(x[:50].numpy(), y[:50].numpy()), epochs=4, verbose=False,
        callbacks=[
            ModelCheckpoint(os.path.join(place, "best.ckpt"), monitor="val_loss", save_best_only=True, restore_best=True),
            EarlyStopping(patience=2), StepLR(step_size=2), CSVLogger(os.path.join(place, "log.csv")),
        ],
    )  # fmt: skip
for row in history:
    show(**{key: value for key, value in row.items() if key != "time"})
loss, metrics, predicted = model.evaluate(x.numpy(), y.numpy(), return_pred=True, verbose=False)
show(loss=float(loss), predicted=torch.tensor(predicted))
