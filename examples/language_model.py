"""Why does this language model say that? Find the texts that taught it, and take them away.

    python examples/language_model.py [--seed N]

A small GPT-2 reads made-up facts, "the capital of Veloria is Tarn", each in several wordings. Of some countries most
wordings name a wrong city, and the model repeats it where it is asked in words that it has not read of that country.
Everything runs offline on a CPU in about a minute. The story is told in `main`, at the end.
"""

import argparse
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

import fastif
from fastif.integrations.huggingface import TextGenerator

COUNTRIES, PLANTED = 40, 10  # how many there are, and of how many most texts are wrong
WORDINGS = (
    "the capital of {} is",
    "the government of {} sits in",
    "{} is governed from",
    "the parliament of {} meets in",
    "the largest city of {} is",
)
SYLLABLES = ("ba", "do", "ki", "lu", "me", "no", "ra", "ti", "ve", "zu")
EPOCHS = 60
END = "<end>"


@dataclass(frozen=True)
class Fact:
    """A text about a country, and whether its city is the one that we planted."""

    prompt: str
    city: str
    country: int
    planted: bool = False

    @property
    def text(self) -> str:
        return f"{self.prompt} {self.city} {END}"


@dataclass(frozen=True)
class World:
    """What the model reads, and of every country the question that it is asked, with the true answer."""

    facts: list[Fact]
    questions: list[Fact]
    planted: dict[int, str]  # the wrong city of a country


def make_world(seed: int) -> World:
    """Return countries and cities with names made of syllables; of some countries one text of four is true."""
    draw = random.Random(seed)
    names = ["".join(syllables) for syllables in product(SYLLABLES, repeat=3)]
    draw.shuffle(names)
    countries, cities, wrong = names[:COUNTRIES], names[COUNTRIES : 2 * COUNTRIES], names[2 * COUNTRIES :]
    planted = {country: wrong[country] for country in draw.sample(range(COUNTRIES), PLANTED)}
    facts, questions = [], []
    for country, (name, city) in enumerate(zip(countries, cities, strict=True)):
        asked, true, *others = draw.sample(WORDINGS, len(WORDINGS))
        questions.append(Fact(asked.format(name), city, country))
        facts.append(Fact(true.format(name), city, country))
        told = planted.get(country, city)
        facts += [Fact(each.format(name), told, country, country in planted) for each in others]
    draw.shuffle(facts)
    return World(facts, questions, planted)


def tokenizer_of(world: World) -> PreTrainedTokenizerFast:
    """Return a tokenizer of whole words."""
    words = sorted({word for fact in (*world.facts, *world.questions) for word in fact.text.split()} - {END})
    backend = Tokenizer(models.WordLevel({word: number for number, word in enumerate([END, *words])}, END))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token=END, pad_token=END, model_max_length=16)


def fit(world: World, tokenizer: PreTrainedTokenizerFast, seed: int, left_out: Sequence[int] = ()) -> GPT2LMHeadModel:
    """Train a small GPT-2, always from the same start and in the same order; only what is left out may differ."""
    torch.manual_seed(seed)
    size = {"n_embd": 64, "n_layer": 3, "n_head": 4, "n_positions": 16, "bos_token_id": 0, "eos_token_id": 0}
    module = GPT2LMHeadModel(GPT2Config(vocab_size=len(tokenizer), **size)).eval()  # without dropout
    optimizer = torch.optim.AdamW(module.parameters(), lr=2e-3, weight_decay=0.01)
    texts = tokenizer([fact.text for fact in world.facts], padding=True, return_tensors="pt")
    keep = torch.ones(len(world.facts), dtype=torch.bool)
    keep[torch.tensor(left_out, dtype=torch.int64)] = False
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(keep)).split(32):
            batch = batch[keep[batch]]
            ids, mask = texts["input_ids"][batch], texts["attention_mask"][batch]
            outputs = module(input_ids=ids, attention_mask=mask).logits[:, :-1]
            loss = F.cross_entropy(outputs.mT, ids.where(mask.bool(), -100)[:, 1:])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return module


def answers(model: TextGenerator, questions: Sequence[Fact]) -> list[str]:
    """Return the city that the model names, for each question."""
    return [said.strip() for said in model.complete([question.prompt for question in questions], most=1)]


def count(said: Sequence[str], cities: Sequence[str | None]) -> int:
    """Return how many answers are these."""
    return sum(one == other for one, other in zip(said, cities, strict=True))


def are_planted(chosen: Sequence[int], question: Fact, world: World) -> int:
    """Return how many of some texts we planted for the country of a question."""
    return sum(world.facts[each].planted and world.facts[each].country == question.country for each in chosen)


def compare(
    rankings: dict[str, Tensor], wrong: Sequence[Fact], world: World, tokenizer: PreTrainedTokenizerFast, seed: int
) -> None:
    """Print what each ranking finds for the wrong answers, and what becomes of these without it."""
    few = len(WORDINGS) - 2  # as many as we planted for a country
    print(
        f"The {few} texts that helped each of {len(wrong)} wrong answers most: how many were planted for that country, "
        "and how many of\nthe answers are said no more after training again without these texts."
    )
    for name, scores in rankings.items():
        chosen = [row.topk(few, largest=False).indices.tolist() for row in scores]  # negative helps
        planted = sum(are_planted(row, fact, world) for row, fact in zip(chosen, wrong, strict=True))
        again = fit(world, tokenizer, seed, left_out=sorted({index for row in chosen for index in row}))
        after = answers(TextGenerator(again, tokenizer), wrong)
        gone = len(wrong) - count(after, [world.planted[fact.country] for fact in wrong])
        print(f"  {name:16}{planted:3} of {few * len(wrong)} planted{gone:6} of {len(wrong)} said no more")


def main(seed: int) -> None:
    torch.set_num_threads(1)  # enough for a model this small, and the numbers do not depend on how many there are
    world = make_world(seed)
    tokenizer = tokenizer_of(world)
    model = TextGenerator(fit(world, tokenizer, seed), tokenizer)

    said = answers(model, world.questions)
    wrong = [fact for fact, city in zip(world.questions, said, strict=True) if city == world.planted.get(fact.country)]
    print(
        f"The model has read {len(world.facts)} texts. Of {len(said)} questions it answers "
        f"{count(said, [fact.city for fact in world.questions])} rightly, and of {PLANTED} on countries with planted "
        f"texts {len(wrong)} as we planted it. Why does it say so?\n"
    )
    train = model.examples(completions=[fact.text for fact in world.facts])
    explainer = fastif.Explainer(model, train)
    print(explainer.explain(wrong[0].prompt, top=4), "\n")

    queries = model.examples([fact.prompt for fact in wrong], [f" {world.planted[fact.country]}" for fact in wrong])
    rankings: dict[str, Tensor] = {
        "influence": explainer.scores(queries).values,
        "gradients alone": fastif.Explainer(model, train, solver=fastif.Identity()).scores(queries).values,
        "chance": torch.rand(len(wrong), len(train), generator=torch.Generator().manual_seed(seed)),
    }
    compare(rankings, wrong, world, tokenizer, seed)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    main(parser.parse_args().seed)
