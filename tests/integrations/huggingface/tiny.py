"""Tiny classifiers of many families with random weights, a tokenizer made in memory, and texts of unequal lengths.

Nothing is fetched. Weights are larger than transformers would draw them, so that layers differ and attention is not
uniform: with its own 0.02 a wrong mask or a layer left out would hardly show.
"""

from collections.abc import Callable
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import nn

# fmt: off
WORDS = (
    "the", "a", "film", "plot", "was", "is", "very", "not", "good", "bad", "fine", "dull", "great", "poor", "acting",
    "story", "slow", "long", "short", "bright", "dark", "never", "always", "we", "they", "liked", "hated", "found",
    "scene", "end", "music", "and", "but",
)
# fmt: on
SPECIAL = ("<unk>", "<pad>", "<cls>", "<sep>")  # padding is 1, as in RoBERTa and MPNet, and not a zero by chance
VOCABULARY = {word: number for number, word in enumerate((*SPECIAL, *WORDS))}
POSITIONS = 24  # tokens that a text may have
SIZES = {
    "vocab_size": len(VOCABULARY),
    "hidden_size": 8,
    "intermediate_size": 12,
    "num_attention_heads": 2,
    "num_hidden_layers": 3,
    "max_position_embeddings": POSITIONS,
    "pad_token_id": 1,
    "num_labels": 3,
}
TEXTS = (
    "the film was very good",
    "bad plot",
    "we liked the acting and the music but the story was slow and the end was not good",
    "dull",
    "they hated the long dark scene",
    "a great film and a fine plot",
    "never bright always poor acting",
    "the story is short and fine",
    "not bad",
    "the music was good but we found the plot very very long and very dull",
)
LABELS = (0, 1, 2, 1, 1, 0, 1, 0, 2, 2)
QUERIES = ("the acting was good", "we found the story very long and the end bad", "poor")
QUERY_LABELS = (0, 1, 2)

BERT_LIKE = ("bert", "distilbert", "roberta", "mpnet", "electra", "albert", "deberta-v2", "modernbert")
FAMILIES = (*BERT_LIKE, "gpt2", "lora")

# the last layer's feed-forward part and the head: few parameters, so that dense matrices are small
LAST_PARTS = {
    "bert": r"encoder\.layer\.2\.output|classifier",
    "distilbert": r"layer\.2\.ffn\.lin2|classifier",
    "roberta": r"encoder\.layer\.2\.output|classifier",
    "mpnet": r"encoder\.layer\.2\.output|classifier",
    "electra": r"encoder\.layer\.2\.attention\.self|classifier",
    "albert": r"albert_layers\.0\.ffn_output|classifier",
    "deberta-v2": r"encoder\.layer\.2\.attention\.self|classifier",
    "modernbert": r"layers\.2\.(attn|mlp)\.Wo|classifier",  # its rotary positions are rounded to float32 before these
    "gpt2": r"h\.2\.mlp\.c_proj|score",
    "lora": None,
}


def tokenizer_of(family: str = "bert", vocabulary: dict[str, int] = VOCABULARY, **changes: Any) -> Any:
    """A tokenizer of whole words; with segment ids where the family takes them, without special tokens for GPT-2."""
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    if family != "gpt2":
        backend.post_processor = processors.TemplateProcessing(
            single="<cls> $A <sep>",
            pair="<cls> $A <sep> $B:1 <sep>:1",
            special_tokens=[("<cls>", VOCABULARY["<cls>"]), ("<sep>", VOCABULARY["<sep>"])],
        )
    names = ["input_ids", "attention_mask"]
    if family in ("bert", "electra", "albert", "deberta-v2", "lora"):
        names.insert(1, "token_type_ids")
    options = {
        "pad_token": "<pad>",
        "unk_token": "<unk>",
        "cls_token": "<cls>",
        "sep_token": "<sep>",
        "model_input_names": names,
        "model_max_length": POSITIONS,
    }
    return transformers.PreTrainedTokenizerFast(tokenizer_object=backend, **{**options, **changes})


def module_of(
    family: str = "bert", *, dtype: torch.dtype = torch.float64, initial: float = 0.5, **changes: Any
) -> nn.Module:
    """A classifier with random weights, in train mode as a trainer leaves it, with its dropout."""
    torch.manual_seed(0)
    if family == "lora":
        return with_lora(module_of("bert", dtype=dtype, initial=initial, **changes), dtype)
    module: nn.Module = MAKERS[family]({**SIZES, **changes})
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if parameter.ndim > 1:
                parameter.normal_(std=initial)
            elif "bias" in name:
                parameter.normal_(std=0.1)
    return module.to(dtype).train()


def with_lora(module: nn.Module, dtype: torch.dtype) -> nn.Module:
    """An adapter in the last layer, and a head of its own."""
    import peft

    config = peft.LoraConfig(
        task_type="SEQ_CLS",
        r=2,
        lora_dropout=0.1,
        target_modules=r".*layer\.2\.attention\.self\.(query|value)",
        modules_to_save=["classifier"],
    )
    adapted: nn.Module = peft.get_peft_model(module, config)
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_B" in name:  # zero at first, which would leave lora_A without a gradient
                parameter.normal_(std=0.5)
    return adapted.to(dtype).train()


def _roberta_like(config: Any, model: Any) -> Callable[[dict[str, Any]], nn.Module]:
    """Positions are counted from the padding token's number on, so that there must be as many more of them."""

    def make(sizes: dict[str, Any]) -> nn.Module:
        offset = sizes["pad_token_id"] + 1
        module: nn.Module = model(config(**{**sizes, "max_position_embeddings": POSITIONS + offset}))
        return module

    return make


def _gpt2(sizes: dict[str, Any]) -> nn.Module:
    sizes = {key: value for key, value in sizes.items() if key != "intermediate_size"}
    config = transformers.GPT2Config(**sizes, n_inner=12, bos_token_id=2, eos_token_id=3)
    return transformers.GPT2ForSequenceClassification(config)


MAKERS: dict[str, Callable[[dict[str, Any]], nn.Module]] = {
    "bert": lambda sizes: transformers.BertForSequenceClassification(transformers.BertConfig(**sizes)),
    "distilbert": lambda sizes: transformers.DistilBertForSequenceClassification(
        transformers.DistilBertConfig(**sizes, hidden_dim=12)
    ),
    "roberta": _roberta_like(transformers.RobertaConfig, transformers.RobertaForSequenceClassification),
    "mpnet": _roberta_like(transformers.MPNetConfig, transformers.MPNetForSequenceClassification),
    "electra": lambda sizes: transformers.ElectraForSequenceClassification(
        transformers.ElectraConfig(**sizes, embedding_size=6)
    ),
    "albert": lambda sizes: transformers.AlbertForSequenceClassification(
        transformers.AlbertConfig(**sizes, embedding_size=6)
    ),
    "deberta-v2": lambda sizes: transformers.DebertaV2ForSequenceClassification(
        transformers.DebertaV2Config(
            **sizes,
            relative_attention=True,
            pos_att_type=["p2c", "c2p"],
            position_buckets=6,
            norm_rel_ebd="layer_norm",
            position_biased_input=False,
        )
    ),
    # eager attention would take its softmax in float32 here
    "modernbert": lambda sizes: transformers.ModernBertForSequenceClassification(
        transformers.ModernBertConfig(
            **sizes,
            local_attention=4,
            global_attn_every_n_layers=3,
            cls_token_id=2,
            sep_token_id=3,
            bos_token_id=2,
            eos_token_id=3,
            attn_implementation="sdpa",
        )
    ),
    "gpt2": _gpt2,
}
