"""README.md of an exported model: a model card as the Hub of Hugging Face reads it, with a head of YAML."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from t2t_lite.runs.run_dir import LICENCE_FILE

README_FILE = "README.md"
_TAGS = {
    "saved_model": ("tensorflow", "tf-serving"),
    "ctranslate2": ("ctranslate2",),
    "marian": ("marian",),
    "huggingface": ("marian",),
}
_NOT_METRICS = ("score",)
_USES = {
    "saved_model": """\
A SavedModel: text in, text out, with beam search and vocabulary inside. Stock TensorFlow Serving serves it. Without a
server, t2t-lite translates with it:

    t2t-lite-decoder --saved_model=FOLDER < lines
""",
    "ctranslate2": "A model for CTranslate2. README.txt has the Python that translates with it.\n",
    "marian": """\
A model for [Marian](https://marian-nmt.github.io), in the form of OPUS-MT's releases. In this folder:

    spm_encode --model=source.spm < lines | marian-decoder -c decoder.yml | spm_decode --model=target.spm

If the vocabulary has labels of target languages, such as `>>fra<<`, each line of pieces begins with one and a space.
If there is a preprocess.sh, it takes the place of spm_encode.
""",
    "huggingface": """\
A MarianMT model for [transformers](https://huggingface.co/docs/transformers/model_doc/marian):

    from transformers import MarianMTModel, MarianTokenizer

    tokenizer, model = MarianTokenizer.from_pretrained("FOLDER"), MarianMTModel.from_pretrained("FOLDER")
    batch = tokenizer(["A line of text."], return_tensors="pt", padding=True)
    print(tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True))
""",
}


def write_readme(folder: Path, card: Mapping[str, Any], name: str, licence: bytes | None = None) -> None:
    """Writes README.md, and LICENSE if an imported model came with one.

    Args:
        card: as `model_card.make_card` gives it; parts of it may be missing.
        name: of the format.
        licence: the text of the licence.
    """
    (folder / README_FILE).write_text(make_readme(card, name), encoding="utf-8")
    if licence is not None:
        (folder / LICENCE_FILE).write_bytes(licence)


def make_readme(card: Mapping[str, Any], name: str) -> str:
    """Returns the text of README.md."""
    import yaml

    head = yaml.safe_dump(_head(card, name), allow_unicode=True, sort_keys=False, width=1000)
    problem = card.get("problem", {})
    facts = {
        "Problem": problem.get("name"),
        "Model": card.get("model"),
        "Recipe": card.get("hparams_set"),
        "Parameters": f"{card['parameters']:,}" if "parameters" in card else None,
        "Updates": card.get("step"),
        "Imported from": card.get("imported", {}).get("toolkit"),
        "Fine-tuned from a model of": card.get("fine_tuned_from", {}).get("toolkit"),
        "Made by": card.get("made_by"),
    }
    lines = [f"- {title}: {_plain(value)}" for title, value in facts.items() if value not in (None, "")]
    scores = [
        f"- {_plain(score['metric'])} {score['value']:.2f} on {_plain(score['split'])}"
        + (f" (`{_plain(score['signature'])}`)" if score.get("signature") else "")
        for score in card.get("scores", ())
    ]
    note = [f"Scores: {_plain(card['scores_note'])}"] if card.get("scores_note") else []
    parts = [
        f"# {_plain(_title(card))}",
        _USES[name].strip("\n"),
        "\n".join(lines),
        "\n".join(scores),
        *note,
        f"Licence: {_plain(card['licence'])}" if card.get("licence") else "",
        "model_card.json has all that is known of the model.",
    ]
    return f"---\n{head}---\n\n" + "\n\n".join(part for part in parts if part) + "\n"


def _title(card: Mapping[str, Any]) -> str:
    problem = card.get("problem", {})
    languages = [problem.get(f"{side}_language") for side in ("source", "target")]
    return f"{problem.get('name', 'model')} {'-'.join(languages)}" if all(languages) else problem.get("name", "model")


def _head(card: Mapping[str, Any], name: str) -> dict[str, Any]:
    """What the Hub reads: https://huggingface.co/docs/hub/model-cards."""
    problem = card.get("problem", {})
    languages = [problem.get(f"{side}_language") for side in ("source", "target")]
    is_text = "trees" not in card
    task = {"tags": ["t2t-lite", *_TAGS[name]]}
    head: dict[str, Any] = {"language": list(dict.fromkeys(filter(None, languages)))} if any(languages) else {}
    head |= _licence(card)
    head |= {"library_name": "transformers"} if name == "huggingface" else {}
    if is_text:
        task["tags"].append("translation")
        head["pipeline_tag"] = "translation"
    head |= task
    scores = [score for score in card.get("scores", ()) if score["metric"] not in _NOT_METRICS]
    if scores:
        head["metrics"] = list(dict.fromkeys(score["metric"].lower() for score in scores))
        head["model-index"] = [{"name": _title(card), "results": [_result(card, score, is_text) for score in scores]}]
    return head


def _licence(card: Mapping[str, Any]) -> dict[str, Any]:
    """What is known of the licence: that of an import; nobody but its owner can name that of another model."""
    found = card.get("imported", card.get("fine_tuned_from", {})).get("licence") or {}
    if not found:
        return {"license": "unknown"}
    if found.get("name"):
        return {"license": found["name"]}
    return {"license": "other", "license_name": "see-license-file", "license_link": LICENCE_FILE}


def _result(card: Mapping[str, Any], score: Mapping[str, Any], is_text: bool) -> dict[str, Any]:
    problem = card["problem"]
    metric = {"type": score["metric"].lower(), "value": score["value"], "name": score["metric"]}
    if score.get("signature"):
        metric["args"] = {"signature": score["signature"]}
    return {
        "task": {"type": "translation" if is_text else "parsing"},
        "dataset": {"name": problem["name"], "type": problem["name"], "split": score["split"]},
        "metrics": [metric],
    }


def _plain(value: Any) -> str:
    """A value inside a line of Markdown: no line break, and no character that begins a link, a tag or code."""
    text = re.sub(r"\s+", " ", str(value)).strip()
    return re.sub(r"([\\`*\[\]<>])", r"\\\1", text)
