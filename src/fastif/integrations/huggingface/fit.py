"""Whether a model can be explained, whether its tokenizer belongs to it, and how long a text may be for them.

All of it is seen before any data is: in the numbers of tokens and positions, and in a first pass over two short texts.
"""

from typing import Any

import torch
from torch import Tensor, nn

from fastif.errors import ConfigurationError, ModelError
from fastif.evaluation import Evaluation
from fastif.integrations.huggingface.texts import tokenize

LONGEST = 512  # tokens, where neither tokenizer nor model says
POSITION_TABLES = ("position_embeddings", "wpe", "embed_positions")  # one row a position, so that none may be beyond
SHORT_TEXTS = ("a b c", "a b c d e f g h")  # of unequal length for any tokenizer


def checked_config(module: nn.Module, task: str) -> Any:
    """Return the configuration of the transformers model, and refuse what is none or cannot be differentiated.

    `task` is what the model must have been made for, in words.
    """
    config = getattr(module, "config", None)
    if config is None or not hasattr(config, "num_labels"):
        raise ModelError(
            f"{type(module).__name__} is not a transformers model for {task}: it has no config with labels. Use "
            "fastif.TorchModel(module, loss=...) for any other module."
        )
    attention = str(getattr(config, "_attn_implementation", None))
    if "flash" in attention or "flex" in attention or "paged" in attention:
        raise ModelError(
            f"the model runs {attention}, which has no second derivatives. Load it with attn_implementation='eager'."
        )
    if getattr(config, "is_encoder_decoder", False):
        raise ModelError(
            f"{type(module).__name__} is an encoder-decoder, which is not taken for {task} here. "
            "fastif.TorchModel(module, loss='cross_entropy') may take it, with a dictionary of tensors as data."
        )
    return config


def check_tokenizer(tokenizer: Any, module: nn.Module) -> None:
    """Raise unless this is a tokenizer that can pad, and whose tokens the model all knows."""
    if not callable(tokenizer) or not hasattr(tokenizer, "get_vocab"):
        raise ConfigurationError(f"tokenizer must be a transformers tokenizer, not a {type(tokenizer).__name__}.")
    if tokenizer.pad_token_id is None:
        raise ModelError(
            "the tokenizer has no padding token, so that texts cannot be put into one batch. Set the one that was used "
            "in training, such as tokenizer.pad_token = tokenizer.eos_token, and the model's config.pad_token_id."
        )
    rows = int(module.get_input_embeddings().weight.shape[0])  # type: ignore[operator]
    largest = max(tokenizer.get_vocab().values())
    if largest >= rows:
        raise ModelError(
            f"the tokenizer has tokens up to number {largest}, but the model has embeddings for {rows}: they do not "
            "belong together. Use the tokenizer that the model was trained with."
        )


def longest_text(module: nn.Module, tokenizer: Any, wanted: int | None, most: int | None = LONGEST) -> int:
    """Return the most tokens that a text may have: those wanted, or all that tokenizer and model allow.

    Of a tokenizer that does not say, it is so many; for None, those that the model has positions for.
    """
    tables = [part for name, part in module.named_modules() if name.rpartition(".")[2] in POSITION_TABLES]
    positions = getattr(module.config, "max_position_embeddings", None)
    if isinstance(positions, int):
        # RoBERTa and its kin number positions from the padding token's number on
        padding = [getattr(part, "padding_idx", None) for part in tables]
        positions -= max((number + 1 for number in padding if number is not None), default=0)
    if wanted is None:
        most_positions = positions if isinstance(positions, int) and positions > 0 else None
        said = tokenizer.model_max_length if tokenizer.model_max_length < 10**6 else most or most_positions or LONGEST
        return int(said if most_positions is None else min(said, most_positions))
    least = tokenizer.num_special_tokens_to_add() + 1
    limit = positions if tables and isinstance(positions, int) else None
    if (
        isinstance(wanted, bool)
        or not isinstance(wanted, int)
        or wanted < least
        or (limit is not None and wanted > limit)
    ):
        raise ConfigurationError(
            f"max_length must be a whole number of at least {least}"
            + ("" if limit is None else f" and at most {limit}, as the model has so many positions")
            + f"; not {wanted!r}."
        )
    return wanted


def check_blocks(module: nn.Module, max_length: int) -> None:
    """Raise if how a text is looked at depends on the longest text beside it, as in BigBird."""
    config: Any = module.config
    if getattr(config, "attention_type", None) != "block_sparse" or not hasattr(config, "num_random_blocks"):
        return
    most = (5 + 2 * int(config.num_random_blocks)) * int(config.block_size)
    if max_length > most:
        raise ModelError(
            f"{type(module).__name__} looks at blocks of a text where the longest text of a batch has more than {most} "
            "tokens, and at all of it where it has not, so that outputs for a text depend on the texts beside it. Give "
            f"max_length={most} or less, or load the model with attention_type='original_full'."
        )


def short_inputs(module: nn.Module, tokenizer: Any, max_length: int, task: str) -> dict[str, Tensor]:
    """Return two short texts of unequal length as inputs on the module's device, after a first pass of the module.

    Raises unless the shorter text gives the same outputs beside the longer one, padded, as it gives alone.
    """
    table, _ = tokenize(SHORT_TEXTS, None, torch.zeros(2), tokenizer, max_length=max_length)
    device = next(module.parameters()).device
    alone, both = (
        {name: tensor.to(device) for name, tensor in table.batch(torch.tensor(rows)).items() if name != "labels"}
        for rows in ([0], [0, 1])
    )
    single, padded = _outputs(module, alone, task)[0], _outputs(module, both, task)[0]
    difference = float((single - padded[: len(single)]).abs().max())
    # no finer than float32, to which some families round their positions whatever the dtype
    precision = max(torch.finfo(padded.dtype).eps, torch.finfo(torch.float32).eps)
    if difference > precision**0.4 * (1 + float(padded.abs().max())):
        own = getattr(module.config, "pad_token_id", None)
        if getattr(tokenizer, "padding_side", "right") == "left" and tokenizer.pad_token_id == own:
            raise ModelError(
                f"the outputs for a text change by {difference:.2g} with the padding behind it. The tokenizer pads "
                f"before a text, and fastif behind it, which {type(module).__name__} does not leave out. Explain "
                "another model, or each text alone: fastif.TorchModel with texts of one length as data."
            )
        raise ModelError(
            f"the outputs for a text change by {difference:.2g} with the padding behind it. The tokenizer pads with "
            f"token {tokenizer.pad_token_id}, the model's config.pad_token_id is {own}: set both to the one that was "
            "used in training."
        )
    return both


def _outputs(module: nn.Module, inputs: dict[str, Tensor], task: str) -> Tensor:
    device = next(iter(inputs.values())).device
    try:
        with torch.no_grad(), Evaluation(module).on(device):
            result = module(**inputs)
    except (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError) as error:
        raise ModelError(
            f"{type(module).__name__} does not take texts of this tokenizer ({', '.join(inputs)}). It said: "
            f"{str(error).rstrip('.')}. Use the tokenizer that the model was trained with, and set the model's "
            "config.pad_token_id to its padding."
        ) from error
    outputs = getattr(result, "logits", None)
    if not isinstance(outputs, Tensor):
        raise ModelError(
            f"{type(module).__name__} returned a {type(result).__name__} without logits. Needed is a model for {task}, "
            "with return_dict=True in its config."
        )
    return outputs
