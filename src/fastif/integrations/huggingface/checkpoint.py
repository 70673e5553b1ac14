"""Load a model of texts and its tokenizer, from a directory or a hub name, and refuse what cannot be trusted.

Weights are read from safetensors alone: a pickle runs code of whoever wrote it. A checkpoint without a trained head is
refused, as transformers would make up a random one; `load_base` is for training and makes a new head on purpose. Every
failure is one text that says what was seen and what to do.
"""

import logging
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer
from transformers.utils import logging as transformers_logging

from fastif.errors import ModelError, StoredFileError
from fastif.integrations.huggingface.adapter_head import CONFIG, fit_config, label_count

CLASSIFIER, GENERATOR = AutoModelForSequenceClassification, AutoModelForCausalLM
TASKS = {CLASSIFIER: "SEQ_CLS", GENERATOR: "CAUSAL_LM"}  # as PEFT calls them
NEEDED = {  # after "it is not a trained"
    CLASSIFIER: "classifier, and random weights explain nothing: fine-tune it first (fastif train).",
    GENERATOR: "language model (AutoModelForCausalLM), and random weights explain nothing.",
}
WRITES_TEXT = " A model that writes text is explained in Python, by TextGenerator.from_pretrained."
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.h5", "*.msgpack")
ADAPTER = "adapter_config.json"
TOKENIZER = ("tokenizer_config.json", "tokenizer.json")
# what transformers, peft and safetensors raise for a checkpoint that is damaged or does not fit
FAILURES = (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError)


def load(
    name: str | Path, *, tokenizer: Any = None, trust_remote_code: bool = False, kind: Any = CLASSIFIER
) -> tuple[nn.Module, Any]:
    """Return the model in eval mode and its tokenizer, or the one that is given."""
    path = Path(name)
    if path.exists() or _looks_like_a_path(str(name)):
        _check_directory(path, kind)
    with quiet():
        if (path / ADAPTER).exists():
            module, base = _load_adapter(path, trust_remote_code, kind)
            name = name if any((path / file).exists() for file in TOKENIZER) else base
        else:
            module = _load_model(name, trust_remote_code, kind)
        if tokenizer is None or isinstance(tokenizer, str | Path):
            tokenizer = load_tokenizer(tokenizer or name, trust_remote_code=trust_remote_code)
        return module.eval(), tokenizer


def load_base(
    name: str | Path, *, id2label: dict[int, str], problem_type: str, seed: int, trust_remote_code: bool = False
) -> tuple[nn.Module, Any]:
    """Return a model to be trained and its tokenizer: the encoder of a checkpoint, and a new head for these labels.

    The head is drawn by the seed as transformers draws it, also where the checkpoint has one of its own.
    """
    path = Path(name)
    if path.exists() or _looks_like_a_path(str(name)):
        _check_directory(path, CLASSIFIER)
    if (path / ADAPTER).exists():
        raise ModelError(f"{path} is a PEFT adapter, and no model to train. Merge it first: model.merge_and_unload().")
    options: dict[str, Any] = {"trust_remote_code": trust_remote_code}
    with quiet(), torch.random.fork_rng(devices=[]):
        try:
            config = AutoConfig.from_pretrained(str(name), **options)
            had_head = any("ForSequenceClassification" in each for each in config.architectures or [])
            config.id2label, config.label2id = id2label, {label: number for number, label in id2label.items()}
            config.problem_type = problem_type
            module, loaded = CLASSIFIER.from_pretrained(
                str(name),
                config=config,
                use_safetensors=True,
                ignore_mismatched_sizes=True,  # a head for other labels
                output_loading_info=True,
                **options,
            )
            torch.manual_seed(seed)
            fresh = CLASSIFIER.from_config(config, **options)
        except ImportError as error:
            raise ModelError(f"the base {name} needs a package that is not installed: {_first_line(error)}.") from error
        except (OSError, ValueError, KeyError, RuntimeError) as error:
            raise _refusal(name, error) from error
        made_up = {*loaded["missing_keys"], *(key for key, *_ in loaded["mismatched_keys"])}
        _check_encoder(module, made_up, name)
        encoder = f"{module.base_model_prefix}."
        drawn = fresh.state_dict()
        for key, tensor in module.state_dict().items():
            # of a base that is no classifier, what stands above the encoder and was loaded is kept, as in ModernBERT
            if key in made_up or (had_head and not key.startswith(encoder)):
                tensor.copy_(drawn[key])
        return module.eval(), load_tokenizer(name, trust_remote_code=trust_remote_code)


def _check_encoder(module: Any, made_up: set[str], name: str | Path) -> None:
    """Raise if weights of the encoder are not there; a pooler belongs to the head."""
    encoder = f"{module.base_model_prefix}."
    odd = sorted(key for key in made_up if key.startswith(encoder) and "pooler" not in key)
    if odd:
        raise ModelError(
            f"the base {name} has no weights for {odd[0]}"
            + (f" and {len(odd) - 1} more" if len(odd) > 1 else "")
            + f", so that it is not the {type(module).__name__} of its config.json. Use a checkpoint of an encoder."
        )


def load_tokenizer(name: str | Path, *, trust_remote_code: bool = False) -> Any:
    """Return the tokenizer of a checkpoint."""
    todo = "Save it beside the model with tokenizer.save_pretrained(directory), or pass tokenizer=."
    if _looks_like_a_path(str(name)) and not Path(name).is_dir():
        raise StoredFileError(f"there is no tokenizer at {name}, as that is no directory. {todo}")
    try:
        tokenizer = AutoTokenizer.from_pretrained(str(name), trust_remote_code=trust_remote_code)
    except (*FAILURES, ImportError) as error:
        raise StoredFileError(f"the tokenizer of {name} could not be loaded: {_first_line(error)}. {todo}") from error
    if len(tokenizer) <= len(tokenizer.all_special_tokens):  # transformers makes an empty one where no file is
        raise StoredFileError(f"{name} has no tokenizer: no vocabulary was found there. {todo}")
    return tokenizer


def _load_model(
    name: str | Path, trust_remote_code: bool, kind: Any, known: Collection[str] = (), adapter: Path | None = None
) -> nn.Module:
    """Return the model; refuse one with weights that are missing, but for the parts of an adapter's own."""
    options: dict[str, Any] = {"trust_remote_code": trust_remote_code}
    try:
        told = adapter is not None and (adapter / CONFIG).exists()
        config = AutoConfig.from_pretrained(str(adapter if told else name), **options)
        if adapter is not None and not told and kind is CLASSIFIER:
            fit_config(config, label_count(adapter, known), adapter)
        loaded = kind.from_pretrained(
            str(name),
            config=config,
            use_safetensors=True,
            ignore_mismatched_sizes=True,  # or transformers tells the shapes to its log alone; see below
            output_loading_info=True,
            **options,
        )
    except ImportError as error:
        raise ModelError(f"the model {name} needs a package that is not installed: {_first_line(error)}.") from error
    except FAILURES as error:
        raise _refusal(name, error) from error
    module: nn.Module = loaded[0]
    own = set(known)
    _check_shapes([key for key in loaded[1]["mismatched_keys"] if not set(key[0].split(".")) & own], config, name, kind)
    made_up = sorted(key for key in loaded[1]["missing_keys"] if not set(key.split(".")) & own)
    if made_up:
        raise ModelError(
            f"the checkpoint {name} has no weights for {made_up[0]}"
            + (f" and {len(made_up) - 1} more" if len(made_up) > 1 else "")
            + f". It is not a trained {NEEDED[kind]}"
            + (WRITES_TEXT if kind is CLASSIFIER and _writes(config) else "")
        )
    return module


def _writes(config: Any) -> bool:
    return any(each.endswith(("ForCausalLM", "LMHeadModel")) for each in config.architectures or [])


def _check_shapes(mismatched: Collection[tuple[Any, ...]], config: Any, name: str | Path, kind: Any) -> None:
    """Raise if weights have another shape than the configuration makes of them."""
    if not mismatched:
        return
    if kind is not CLASSIFIER:
        raise StoredFileError(
            f"the checkpoint {name} does not fit its config.json: {sorted(each[0] for each in mismatched)[0]} has "
            "another shape there. Put config.json right, or save the model again with save_pretrained()."
        )
    key, there, wanted = sorted(mismatched, key=lambda each: str(each[0]))[0]
    more = f" ({len(mismatched) - 1} more differ too)" if len(mismatched) > 1 else ""
    raise StoredFileError(
        f"the checkpoint {name} does not fit its config.json: {key} has the shape {tuple(there)}, and a model of "
        f"{config.num_labels} labels as config.json describes it has {tuple(wanted)}{more}. Put config.json right "
        "(id2label has the labels), or save the model again with save_pretrained()."
    )


def _load_adapter(path: Path, trust_remote_code: bool, kind: Any) -> tuple[nn.Module, str]:
    """Return a PEFT adapter on its base model, and where that came from. The adapter may bring the trained head."""
    try:
        from peft import PeftConfig, PeftModel
    except ImportError as error:
        raise ModelError(f"{path} is a PEFT adapter, and peft is not installed: pip install peft.") from error
    try:
        config = PeftConfig.from_pretrained(str(path))
    except FAILURES as error:
        raise _refusal(path, error) from error
    base = str(config.base_model_name_or_path)
    if _looks_like_a_path(base) and not Path(base).is_dir():
        raise StoredFileError(
            f"the base model {base} of the adapter {path} is not there. Put it there, or write where it is as "
            f"base_model_name_or_path in {ADAPTER}."
        )
    if config.task_type not in (None, TASKS[kind]) and kind is GENERATOR:
        raise ModelError(f"{path} is a PEFT adapter for {config.task_type}, and for {TASKS[kind]} is needed.")
    module = _load_model(base, trust_remote_code, kind, getattr(config, "modules_to_save", None) or (), path)
    try:
        adapted: nn.Module = PeftModel.from_pretrained(module, str(path), is_trainable=True)
    except FAILURES as error:
        raise _refusal(path, error) from error
    return adapted, base


def _check_directory(path: Path, kind: Any) -> None:
    if not path.exists():
        raise StoredFileError(
            f"there is no checkpoint at {path}. Give its directory, or a hub name such as owner/name."
        )
    if not path.is_dir():
        raise StoredFileError(f"{path} is a file; needed is the directory that save_pretrained() wrote.")
    adapter = (path / ADAPTER).exists()
    if not adapter and not (path / "config.json").exists():
        raise StoredFileError(
            f"{path} has no config.json, so that it is no checkpoint. Save one with model.save_pretrained(directory)."
        )
    if not any(path.glob("*.safetensors")):
        pickles = sorted(found.name for pattern in PICKLES for found in path.glob(pattern))
        if pickles:
            raise StoredFileError(
                f"{path} has its weights as {pickles[0]}, a format that can run code when it is opened, and is not "
                f"read. Convert it where you trust it: {kind.__name__}.from_pretrained(old).save_pretrained(new)."
            )
        raise StoredFileError(
            f"{path} has no weights: no .safetensors file is there. Save them with model.save_pretrained(directory)."
        )


def _refusal(name: str | Path, error: Exception) -> StoredFileError:
    words = str(error)
    if "trust_remote_code" in words:
        return StoredFileError(
            f"{name} comes with code of its own, which is not run. If you trust it, pass trust_remote_code=True, or "
            "--trust-remote-code on the command line."
        )
    if "Unrecognized configuration class" in words:
        return StoredFileError(f"{name} is of a kind of model that does not do this: {_first_line(error)}.")
    if not Path(name).exists():
        return StoredFileError(
            f"{name} is neither a directory here nor a model that could be fetched: {_first_line(error)}. Check the "
            "name and the network; a directory is looked for from the one that the command is given in. Only "
            "checkpoints with safetensors weights are read."
        )
    return StoredFileError(
        f"the checkpoint {name} could not be loaded: {_first_line(error)}. It is damaged, or made for another version "
        "of transformers: save or fetch it again."
    )


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return next((line for line in lines if "size mismatch" in line), lines[0]).strip().rstrip(".")


def _looks_like_a_path(name: str) -> bool:
    return name.startswith(("/", ".", "~")) or name.count("/") > 1 or "\\" in name


@contextmanager
def quiet() -> Iterator[None]:
    """Keep transformers' own notices and bars away: what matters in them is raised as an error here."""
    level = transformers_logging.get_verbosity()
    bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity(logging.CRITICAL)
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(level)
        if bars:
            transformers_logging.enable_progress_bar()
