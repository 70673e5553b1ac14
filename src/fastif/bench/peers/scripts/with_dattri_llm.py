"""dattri-llm: its attributors, live on the model (`attribute`), as its README shows."""

from dattri_llm import AttributionArguments, AttributionTask, EKFACAttributor, KFACAttributor, TracInAttributor
from torch import nn
from torch.utils.data import Dataset

PACKAGES = ["dattri-llm", "transformers"]
BATCH = 256


class Rows(Dataset):
    """Examples as dictionaries, which is what dattri-llm hashes them by."""

    def __init__(self, pair):
        self.inputs, self.labels = pair

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return {"inputs": self.inputs[index], "labels": self.labels[index]}


def attribute(kind, given, **options):
    """Return the scores; dattri-llm's are positive where an example helps."""

    def loss(model, batch):
        return nn.functional.cross_entropy(model(batch["inputs"]), batch["labels"], reduction="sum")

    arguments = AttributionArguments(
        output_dir=str(given.directory), per_device_train_batch_size=BATCH, per_device_eval_batch_size=BATCH
    )
    attributor = kind(arguments, task=AttributionTask(loss_func=loss, model=given.module))
    with given.stage("fit and score"):
        _, matrix = attributor.attribute(Rows(given.train), Rows(given.queries), **options).agnostic_matrix()
    return -matrix.T


METHODS = {
    "EKFACAttributor": lambda given: attribute(EKFACAttributor, given, damping=given.damping),
    "KFACAttributor": lambda given: attribute(KFACAttributor, given, damping=given.damping),
    "TracInAttributor": lambda given: attribute(TracInAttributor, given),
}
