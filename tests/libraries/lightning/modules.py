"""A data module, callbacks, several optimisers by hand, checkpoints, early stopping, SWA, tuning."""

import tempfile

import lightning as L
import torch
from lightning.pytorch import callbacks
from showing import show
from torch.utils.data import DataLoader, TensorDataset, random_split


class Numbers(L.LightningDataModule):
    def setup(self, stage):
        generator = torch.Generator().manual_seed(0)
        x = torch.randn(64, 6, generator=generator)
        whole = TensorDataset(x, (x.sum(1) > 0).long())
        self.parts = random_split(whole, [48, 16], generator=generator)

    def train_dataloader(self):
        return DataLoader(self.parts[0], batch_size=8, shuffle=True)

    def val_dataloader(self):
        return DataLoader(self.parts[1], batch_size=8)

    predict_dataloader = val_dataloader


class Net(L.LightningModule):
    def __init__(self, width=12, by_hand=False):
        super().__init__()
        self.save_hyperparameters()
        self.body = torch.nn.Sequential(torch.nn.Linear(6, width), torch.nn.Tanh())
        self.head = torch.nn.Linear(width, 2)
        self.automatic_optimization = not by_hand

    def forward(self, x):
        return self.head(self.body(x))

    def loss(self, batch):
        return torch.nn.functional.cross_entropy(self(batch[0]), batch[1])

    def training_step(self, batch, index):
        loss = self.loss(batch)
        self.log("train", loss, prog_bar=False)
        if not self.automatic_optimization:
            for optimiser in self.optimizers():
                optimiser.zero_grad()
            self.manual_backward(loss)
            for optimiser in self.optimizers():
                optimiser.step()
        return loss

    def validation_step(self, batch, index):
        self.log("held", self.loss(batch))

    def predict_step(self, batch, index):
        return self(batch[0]).argmax(1)

    def configure_optimizers(self):
        parts = [torch.optim.Adam(part.parameters(), lr=0.02) for part in (self.body, self.head)]
        if self.hparams.by_hand:
            return parts
        whole = torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)
        return {
            "optimizer": whole,
            "lr_scheduler": torch.optim.lr_scheduler.CosineAnnealingLR(whole, 5),
        }


quiet = {
    "accelerator": "cpu", "logger": False, "enable_progress_bar": False,
    "enable_model_summary": False, "devices": 1,
}  # fmt: skip
for by_hand in (False, True):
    L.seed_everything(1, verbose=False)
    kept = callbacks.ModelCheckpoint(tempfile.mkdtemp(), monitor="held", save_top_k=1)
    watched = [kept, callbacks.EarlyStopping("held", patience=3), callbacks.LearningRateFinder]
    trainer = L.Trainer(max_epochs=4, callbacks=watched[:2], gradient_clip_val=None, **quiet)
    trainer.fit(Net(by_hand=by_hand), Numbers())
    show(best=kept.best_model_score, epochs=trainer.current_epoch)
    again = Net.load_from_checkpoint(kept.best_model_path, weights_only=False)
    show(held=trainer.validate(again, Numbers(), verbose=False)[0]["held"])
    show(classes=torch.cat(trainer.predict(again, Numbers())).tolist())
L.seed_everything(2, verbose=False)
swa = callbacks.StochasticWeightAveraging(0.05, swa_epoch_start=2)
model = Net()
trainer = L.Trainer(max_epochs=4, callbacks=[swa], accumulate_grad_batches=2, precision="bf16-mixed",
                    enable_checkpointing=False, gradient_clip_val=0.5, **quiet)  # fmt: skip
trainer.fit(model, Numbers())
show(averaged=model.head.weight)
