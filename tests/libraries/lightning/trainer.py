"""Lightning's Trainer: fit with validation, callbacks and a checkpoint, then test and predict."""

import logging
import tempfile
import warnings

import lightning as L
import torch
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from showing import show
from torch.utils.data import DataLoader, TensorDataset

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
warnings.simplefilter("ignore")


class Regression(L.LightningModule):
    def __init__(self, width=16):
        super().__init__()
        self.save_hyperparameters()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(4, width), torch.nn.Tanh(), torch.nn.Linear(width, 1)
        )
        self.losses = []

    def forward(self, x):
        return self.net(x).squeeze(-1)

    def training_step(self, batch, _):
        loss = torch.nn.functional.mse_loss(self(batch[0]), batch[1])
        self.losses.append(loss.item())
        self.log("train", loss)
        return loss

    def validation_step(self, batch, _):
        self.log("valid", torch.nn.functional.mse_loss(self(batch[0]), batch[1]))

    def test_step(self, batch, _):
        self.log("test", torch.nn.functional.l1_loss(self(batch[0]), batch[1]))

    def predict_step(self, batch, _):
        return self(batch[0])

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.02)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 2)]


L.seed_everything(0, verbose=False)
x = torch.randn(48, 4)
data = TensorDataset(x, x.sum(1).sin())
with tempfile.TemporaryDirectory() as folder:
    best = ModelCheckpoint(folder, monitor="valid", filename="best")
    trainer = L.Trainer(
        max_epochs=4, accelerator="cpu", logger=False, enable_progress_bar=False,
        enable_model_summary=False, callbacks=[best, EarlyStopping("valid")], gradient_clip_val=1.0,
        accumulate_grad_batches=2, default_root_dir=folder,
    )  # fmt: skip
    model = Regression()
    trainer.fit(model, DataLoader(data, 8, shuffle=True), DataLoader(data, 16))
    show(losses=model.losses, valid=best.best_model_score)
    again = Regression.load_from_checkpoint(best.best_model_path)
    show(
        width=again.hparams.width,
        tested=trainer.test(again, DataLoader(data, 16), verbose=False)[0]["test"],
    )
    show(predicted=torch.cat(trainer.predict(again, DataLoader(data, 16))))
