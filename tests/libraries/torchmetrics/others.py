"""Metrics of regression, pictures, sound, text, retrieval and clusters."""

import torch
from showing import show
from torchmetrics import clustering, functional as F, image, regression, retrieval, text

torch.manual_seed(0)
x, y = torch.randn(60), torch.randn(60)
for name in ("MeanSquaredError", "MeanAbsoluteError", "R2Score", "PearsonCorrCoef", "SpearmanCorrCoef",
             "KendallRankCorrCoef", "ExplainedVariance", "ConcordanceCorrCoef", "CosineSimilarity"):  # fmt: skip
    metric = getattr(regression, name)()
    given = (x.view(6, 10), y.view(6, 10)) if name == "CosineSimilarity" else (x, y)
    metric.update(*given)
    show(**{name: metric.compute()})
one, two = torch.rand(2, 3, 48, 48), torch.rand(2, 3, 48, 48)
show(ssim=image.StructuralSimilarityIndexMeasure(data_range=1.0)(one, two))
show(psnr=image.PeakSignalNoiseRatio(data_range=1.0)(one, two), tv=image.TotalVariation()(one))
show(uqi=F.image.universal_image_quality_index(one, two))
show(snr=F.signal_noise_ratio(x, y), si=F.scale_invariant_signal_distortion_ratio(x, y))
show(
    words=text.WordErrorRate()(["a b c"], ["a x c d"]),
    bleu=F.bleu_score(["the cat sat on a mat"], [["the cat sat on the mat"]]),
)
show(perplexity=text.Perplexity()(torch.randn(2, 7, 9), torch.randint(0, 9, (2, 7))))
show(
    ndcg=retrieval.RetrievalNormalizedDCG()(
        torch.rand(12), torch.randint(0, 2, (12,)), indexes=torch.arange(12) // 4
    )
)
labels = torch.randint(0, 3, (30,))
show(rand=clustering.AdjustedRandScore()(labels, torch.randint(0, 3, (30,))))
show(silhouette=clustering.DaviesBouldinScore()(torch.randn(30, 4), labels))
