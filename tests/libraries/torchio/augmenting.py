"""Medical volumes by torchio: transforms, samplers of patches, aggregation of a network's answers."""

import torch

import torchio as tio
from showing import show

torch.manual_seed(0)
image, label = torch.rand(1, 24, 20, 16), (torch.rand(1, 24, 20, 16) > 0.7).int()
subject = tio.Subject(t1=tio.ScalarImage(tensor=image), seg=tio.LabelMap(tensor=label))
transforms = {
    "flip": tio.RandomFlip(axes=(0, 1), flip_probability=1.0),
    "noise": tio.RandomNoise(std=(0.1, 0.2)),
    "bias": tio.RandomBiasField(),
    "gamma": tio.RandomGamma(),
    "blur": tio.RandomBlur(),
    "affine": tio.RandomAffine(),
    "swap": tio.RandomSwap(patch_size=4, num_iterations=5),
    "spike": tio.RandomSpike(),
    "ghosting": tio.RandomGhosting(),
    "znorm": tio.ZNormalization(),
    "rescale": tio.RescaleIntensity(out_min_max=(0, 1)),
    "pad": tio.CropOrPad((16, 24, 12)),
    "onehot": tio.OneHot(num_classes=2),
}
for name, transform in transforms.items():
    torch.manual_seed(1)
    found = transform(subject)
    show(**{name: found.t1.data.float(), f"{name}_seg": found.seg.data.float()})
sampler = tio.GridSampler(subject, 8, 2)
loader = tio.SubjectsLoader(sampler, batch_size=4)
net = torch.nn.Conv3d(1, 2, 3, padding=1)
aggregator = tio.GridAggregator(sampler)
for batch in loader:
    with torch.no_grad():
        aggregator.add_batch(net(batch["t1"][tio.DATA]), batch[tio.LOCATION])
show(patches=len(sampler), whole=aggregator.get_output_tensor())
queue = tio.Queue(tio.SubjectsDataset([subject] * 2), 8, 4, tio.UniformSampler(8), num_workers=0)
torch.manual_seed(2)
show(queued=torch.stack([item["t1"][tio.DATA] for item in tio.SubjectsLoader(queue)]))
