"""sentence-transformers: a tiny model from parts, similarities, losses and search."""

import tempfile

import torch
from sentence_transformers import InputExample, SentenceTransformer, losses, models, util
from showing import gradients, show
from transformers import BertConfig, BertModel, BertTokenizerFast

SENTENCES = ["the sun rises", "the sea is calm", "a calm sun", "rises the sea"]
torch.manual_seed(0)
with tempfile.TemporaryDirectory() as folder:
    words = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        *sorted(set(" ".join(SENTENCES).split())),
    ]
    with open(f"{folder}/vocab.txt", "w") as file:
        file.write("\n".join(words))
    BertTokenizerFast(vocab={word: number for number, word in enumerate(words)}).save_pretrained(
        folder
    )
    BertModel(BertConfig(
        vocab_size=len(words), hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=48, max_position_embeddings=32,
    )).save_pretrained(folder)  # fmt: skip
    word = models.Transformer(folder, max_seq_length=16)
    pooling = models.Pooling(word.get_word_embedding_dimension(), "mean")
    model = SentenceTransformer(modules=[word, pooling, models.Normalize()], device="cpu")
    found = model.encode(SENTENCES, convert_to_tensor=True, show_progress_bar=False)
    show(encoded=found, similar=util.cos_sim(found, found))
    show(search=[hit["corpus_id"] for hit in util.semantic_search(found[:1], found, top_k=3)[0]])
    features = [
        model.preprocess(SENTENCES[:2])
        if hasattr(model, "preprocess")
        else model.tokenize(SENTENCES[:2]),
        model.preprocess(SENTENCES[2:])
        if hasattr(model, "preprocess")
        else model.tokenize(SENTENCES[2:]),
    ]
    for name, given in (("MultipleNegativesRankingLoss", None), ("CosineSimilarityLoss", torch.tensor([0.2, 0.9])),
                        ("ContrastiveLoss", torch.tensor([1, 0]))):  # fmt: skip
        model.zero_grad()
        model.eval()
        loss = getattr(losses, name)(model)(features, given)
        loss.backward()
        show(**{name: loss, f"{name}_gradients": gradients(model)})
    model.save(f"{folder}/saved")
    again = SentenceTransformer(f"{folder}/saved", device="cpu")
    show(same=torch.allclose(again.encode(SENTENCES, convert_to_tensor=True), found, atol=1e-6))
