"""What transformers' apply_chat_template makes of conversations, and of single expressions."""

import contextlib
import datetime
import json
from pathlib import Path
from unittest import mock

import transformers
from gguf import GGUFReader
from transformers import AutoTokenizer, PreTrainedTokenizerFast

import text_fixtures
import text_qwen3
import text_strings
import text_tokens
from text_conversations import CONVERSATIONS, NOW
from text_expressions import EXPRESSION_MESSAGES, EXPRESSIONS, VARIABLES
from text_templates import TEMPLATES

_FIXTURES = text_strings.ROOT / "text" / "tests" / "fixtures"


class _Clock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return datetime.datetime.fromisoformat(NOW)


@contextlib.contextmanager
def _fixed_time():
    with mock.patch("transformers.utils.chat_template_utils.datetime", _Clock):
        yield


def _own(template: str) -> PreTrainedTokenizerFast:
    path = str(_FIXTURES / "llama2.json")
    return PreTrainedTokenizerFast(tokenizer_file=path, chat_template=template, bos_token="<s>", eos_token="</s>")


def _smollm2() -> PreTrainedTokenizerFast:
    fields = GGUFReader(text_tokens.SMOLLM2).fields
    tokens = fields["tokenizer.ggml.tokens"].contents()
    roles = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}
    named = {f"{role}_token": tokens[fields[f"tokenizer.ggml.{key}_token_id"].contents()] for role, key in roles.items()}
    template = fields["tokenizer.chat_template"].contents()
    built = text_tokens.tokenizers()["smollm2"]
    return PreTrainedTokenizerFast(tokenizer_object=built, chat_template=template, **named)


def _render(tokenizer, messages, options: dict) -> dict:
    """{"text": ...}, or {"error": true} when the template or the package refuses."""
    options = dict(options)
    variables = options.pop("variables", {})
    continued = options.get("continue_final_message", False)
    options.setdefault("add_generation_prompt", not continued)
    try:
        # A copy: rendering must not leave its marks on the messages of the next case.
        messages = json.loads(json.dumps(messages))
        return {"text": tokenizer.apply_chat_template(messages, tokenize=False, **options, **variables)}
    except Exception:  # every kind of refusal of Jinja and of the package
        return {"error": True}


def conversations() -> list[dict]:
    tokenizers = {"smollm2": _smollm2(), "qwen3": AutoTokenizer.from_pretrained(text_qwen3.fetch())}
    tokenizers |= {name: _own(template) for name, template in TEMPLATES.items()}
    cases = []
    for template, tokenizer in tokenizers.items():
        for name, (messages, options) in CONVERSATIONS.items():
            cases.append({"template": template, "conversation": name, **_render(tokenizer, messages, options)})
    return cases


def expressions() -> list[dict]:
    cases = []
    for expression in EXPRESSIONS:
        template = expression if "{" in expression and ("{{" in expression or "{%" in expression or "{#" in expression) else f"{{{{ {expression} }}}}"
        answer = _render(_own(template), EXPRESSION_MESSAGES, {"variables": VARIABLES})
        cases.append({"template": template, **answer})
    return cases


def _save(path: Path, entries: list[dict]) -> None:
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries), encoding="utf-8")


def write(folder: Path) -> None:
    transformers.logging.set_verbosity_error()
    with _fixed_time():
        _save(folder / "conversations.jsonl", [
            {"name": name, "messages": messages, "options": options} for name, (messages, options) in CONVERSATIONS.items()
        ])
        _save(folder / "templates.jsonl", [{"name": name, "template": text} for name, text in TEMPLATES.items()])
        _save(folder / "chat.jsonl", conversations())
        _save(folder / "expressions.jsonl", [
            {"now": NOW, "messages": EXPRESSION_MESSAGES, "variables": VARIABLES}, *expressions(),
        ])
