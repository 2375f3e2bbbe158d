"""ignite: a trainer with events, an evaluator with metrics, schedules and checkpoints."""

import tempfile

import torch
from ignite.contrib.handlers import PiecewiseLinear
from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
from ignite.handlers import Checkpoint, DiskSaver, EarlyStopping
from ignite.metrics import Accuracy, ConfusionMatrix, Loss, RunningAverage
from showing import show
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(60, 4)
data = TensorDataset(x, (x[:, 0] * x[:, 1] > 0).long())
model = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
criterion = torch.nn.CrossEntropyLoss()
trainer = create_supervised_trainer(model, optimizer, criterion)
metrics = {"accuracy": Accuracy(), "loss": Loss(criterion), "matrix": ConfusionMatrix(2)}
evaluator = create_supervised_evaluator(model, metrics=metrics)
RunningAverage(output_transform=lambda loss: loss).attach(trainer, "running")
schedule = PiecewiseLinear(optimizer, "lr", [(0, 0.1), (20, 0.01)])
trainer.add_event_handler(Events.ITERATION_STARTED, schedule)
losses = []


@trainer.on(Events.EPOCH_COMPLETED)
def validate(engine):
    evaluator.run(DataLoader(data, 20))
    losses.append(evaluator.state.metrics["loss"])


with tempfile.TemporaryDirectory() as folder:
    saver = Checkpoint({"model": model}, DiskSaver(folder, require_empty=False), n_saved=1)
    trainer.add_event_handler(Events.EPOCH_COMPLETED, saver)
    stop = EarlyStopping(3, lambda engine: -engine.state.metrics["loss"], trainer)
    evaluator.add_event_handler(Events.COMPLETED, stop)
    trainer.run(DataLoader(data, 10, shuffle=True), max_epochs=4)
    show(losses=losses, running=trainer.state.metrics["running"])
    show(**{name: evaluator.state.metrics[name] for name in ("accuracy", "matrix")})
    show(
        saved=saver.last_checkpoint.name
        if hasattr(saver.last_checkpoint, "name")
        else str(saver.last_checkpoint).rsplit("/")[-1]
    )
