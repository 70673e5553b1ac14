"""Kronfluence: EK-FAC, K-FAC, diagonal and identity, by an `Analyzer` as its documentation shows."""

import torch
from kronfluence.analyzer import Analyzer, prepare_model
from kronfluence.arguments import FactorArguments, ScoreArguments
from kronfluence.task import Task
from kronfluence.utils.dataset import DataLoaderKwargs
from torch import nn
from torch.utils.data import TensorDataset

PACKAGES = ["kronfluence", "accelerate"]
BATCH = 256


class Classification(Task):
    """Cross-entropy, as in Kronfluence's examples of classification."""

    def compute_train_loss(self, batch, model, sample=False):
        """Return the sum of losses, with labels drawn from the model for the Fisher matrix."""
        inputs, labels = batch
        logits = model(inputs)
        if not sample:
            return nn.functional.cross_entropy(logits, labels, reduction="sum")
        with torch.no_grad():
            drawn = torch.multinomial(torch.softmax(logits.detach(), dim=-1), num_samples=1).flatten()
        return nn.functional.cross_entropy(logits, drawn, reduction="sum")

    def compute_measurement(self, batch, model):
        """Return the loss of the queries."""
        return self.compute_train_loss(batch, model)


def analyze(strategy, given, own_damping=False):
    """Fit the factors and compute all scores; Kronfluence's are positive where an example helps."""
    task = Classification()
    train, queries = TensorDataset(*given.train), TensorDataset(*given.queries)
    with given.stage("fit"):
        module = prepare_model(given.module, task)
        analyzer = Analyzer("peers", module, task, cpu=True, disable_tqdm=True, output_dir=str(given.directory))
        analyzer.set_dataloader_kwargs(DataLoaderKwargs(num_workers=0))
        analyzer.fit_all_factors(
            "factors",
            train,
            per_device_batch_size=BATCH,
            factor_args=FactorArguments(strategy=strategy),
        )
    with given.stage("score"):
        damping = None if own_damping else given.damping
        analyzer.compute_pairwise_scores(
            "scores",
            "factors",
            queries,
            train,
            per_device_query_batch_size=len(queries),
            per_device_train_batch_size=BATCH,
            score_args=ScoreArguments(damping_factor=damping),
        )
        return -analyzer.load_pairwise_scores("scores")["all_modules"]


METHODS = {
    "EK-FAC": lambda given: analyze("ekfac", given),
    "EK-FAC, its own damping": lambda given: analyze("ekfac", given, own_damping=True),
    "K-FAC": lambda given: analyze("kfac", given),
    "diagonal": lambda given: analyze("diagonal", given),
    "identity": lambda given: analyze("identity", given),
}
