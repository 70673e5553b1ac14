"""TRAK: one checkpoint, the projector that it takes on a CPU, as its README shows."""

import logging

import torch
from torch.utils.data import DataLoader, TensorDataset
from trak import TRAKer

PACKAGES = ["traker"]
BATCH = 256


def attribute(given, size, damping):
    """Return the scores; TRAK's are positive where an example helps."""
    (x, _), (asked, _) = given.train, given.queries
    checkpoint = given.module.state_dict()
    # TRAK divides gradients by the root of their number and projects by a matrix of unit variance, and adds them up.
    ridge = damping * len(x) * size / given.parameters
    with given.stage("fit"):
        traker = TRAKer(
            model=given.module,
            task="image_classification",
            train_set_size=len(x),
            save_dir=str(given.directory),
            device="cpu",
            proj_dim=size,
            use_half_precision=False,
            logging_level=logging.ERROR,
            lambda_reg=ridge,
        )
        traker.load_checkpoint(checkpoint, model_id=0)
        for batch in DataLoader(TensorDataset(*given.train), batch_size=BATCH):
            traker.featurize(batch=batch, num_samples=len(batch[0]))
        traker.finalize_features()
    with given.stage("score"):
        traker.start_scoring_checkpoint("queries", checkpoint, model_id=0, num_targets=len(asked))
        for batch in DataLoader(TensorDataset(*given.queries), batch_size=BATCH):
            traker.score(batch=batch, num_samples=len(batch[0]))
        return -torch.tensor(traker.finalize_scores("queries")).T


METHODS = {
    "512 dimensions": lambda given: attribute(given, size=512, damping=0.0),
    "2,048 dimensions": lambda given: attribute(given, size=2048, damping=given.damping),
}
