"""Tiny language models of several families with random weights, for the tokenizer and the texts of `tiny`."""

from collections.abc import Callable
from typing import Any

import torch
import transformers
from torch import nn

from tests.integrations.huggingface import tiny

PROMPTS = tuple(text.rpartition(" ")[0] for text in tiny.TEXTS)  # "dull" has none: it is told from its beginning
COMPLETIONS = tuple(text[len(prompt) :] for text, prompt in zip(tiny.TEXTS, PROMPTS, strict=True))
ASKED = ("the acting was", "we found the story", "poor")
ANSWERS = (" good and slow", " very long and the end bad", " music")
SIZES = {key: value for key, value in tiny.SIZES.items() if key != "num_labels"} | {
    "bos_token_id": 2,
    "eos_token_id": 3,
}


def _without(sizes: dict[str, Any], *names: str) -> dict[str, Any]:
    return {key: value for key, value in sizes.items() if key not in names}


FEW_HEADS = {**SIZES, "num_key_value_heads": 1}

MAKERS: dict[str, Callable[[dict[str, Any]], nn.Module]] = {
    # output embeddings are the input embeddings
    "gpt2": lambda more: transformers.GPT2LMHeadModel(
        transformers.GPT2Config(**_without(SIZES, "intermediate_size"), n_inner=12, **more)
    ),
    # its layers return lists
    "openai-gpt": lambda more: transformers.OpenAIGPTLMHeadModel(
        transformers.OpenAIGPTConfig(**_without(SIZES, "intermediate_size"), **more)
    ),
    "opt": lambda more: transformers.OPTForCausalLM(
        transformers.OPTConfig(**SIZES, ffn_dim=12, word_embed_proj_dim=8, **more)
    ),
    "llama": lambda more: transformers.LlamaForCausalLM(transformers.LlamaConfig(**FEW_HEADS, **more)),
    # all layers look back four tokens
    "mistral": lambda more: transformers.MistralForCausalLM(
        transformers.MistralConfig(**FEW_HEADS, sliding_window=4, **more)
    ),
    # some layers look back four tokens, others all
    "gemma3": lambda more: transformers.Gemma3ForCausalLM(
        transformers.Gemma3TextConfig(
            **FEW_HEADS,
            head_dim=4,
            sliding_window=4,
            layer_types=["sliding_attention", "full_attention", "sliding_attention"],
            **more,
        )
    ),
    # a state in place of attention
    "mamba": lambda more: transformers.MambaForCausalLM(transformers.MambaConfig(**SIZES, state_size=4, **more)),
}
FAMILIES = tuple(MAKERS)
LAST_PARTS = {
    "gpt2": r"h\.2\.mlp\.c_proj",
    "mistral": r"lm_head",
    "openai-gpt": r"h\.2\.mlp\.c_proj",
    "opt": r"layers\.2\.fc2",
    "llama": r"layers\.2\.mlp\.down_proj",
    "gemma3": r"layers\.2\.mlp\.down_proj",
    "mamba": r"layers\.2\.mixer\.out_proj",
}


def module_of(family: str = "gpt2", *, dtype: torch.dtype = torch.float64, **changes: Any) -> nn.Module:
    """A language model with random weights, in train mode as a trainer leaves it, with its dropout."""
    torch.manual_seed(0)
    module = MAKERS[family](changes)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if parameter.ndim > 1:
                parameter.normal_(std=0.5)
            elif "bias" in name:
                parameter.normal_(std=0.1)
    return module.to(dtype).train()


def tokenizer_of(**changes: Any) -> Any:
    """A tokenizer of whole words that puts a token before each text."""
    tokenizer = tiny.tokenizer_of("gpt2", bos_token="<cls>", eos_token="<sep>", **changes)
    tokenizer.backend_tokenizer.post_processor = tiny.processors.TemplateProcessing(
        single="<cls> $A", pair=None, special_tokens=[("<cls>", tiny.VOCABULARY["<cls>"])]
    )
    return tokenizer
