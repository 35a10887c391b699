"""Tokenizers with the chat templates of their models."""

from __future__ import annotations

import json
import os
from typing import Any, Sequence

from ._native import Handle, call, ffi, make, numbers_of, text, text_of, tokens_in


class Tokenizer(Handle):
    """Of a Hugging Face directory, a tokenizer.json or a .gguf file, exactly as the Hugging Face packages read it.
    Any thread may use it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        data = os.fspath(path).encode()
        super().__init__(make(text.prefix_tokenizer_open, text.prefix_tokenizer_release, data, len(data)))

    def encode(self, content: str, *, special: bool = False, literal: bool = False) -> list[int]:
        """special: add what the model wants around a text. literal: special tokens that are written in it are plain
        characters, as for text from outside."""
        data = content.encode("utf-8", "surrogatepass")
        flags = (text.PREFIX_ENCODE_SPECIAL if special else 0) | (text.PREFIX_ENCODE_LITERAL if literal else 0)
        return numbers_of("prefix_token", text.prefix_tokenizer_encode, self.handle, data, len(data), flags,
                          capacity=len(data) + 16).tolist()

    def decode(self, tokens: Sequence[int], *, skip_special: bool = True) -> str:
        data, count, _keep = tokens_in(tokens)
        flags = text.PREFIX_DECODE_SKIP_SPECIAL if skip_special else 0
        return text_of(text.prefix_tokenizer_decode, self.handle, data, count, flags)

    def chat(self, messages: Sequence[dict[str, Any]], **options: Any) -> str:
        """The prompt of a conversation, as its template renders it; options as of prefix_tokenizer_chat_text, for
        instance tools or add_generation_prompt."""
        content, settings = json.dumps(messages).encode(), json.dumps(options).encode()
        return text_of(text.prefix_tokenizer_chat_text, self.handle, content, len(content), settings, len(settings))

    @property
    def vocabulary(self) -> int:
        """Token ids are smaller."""
        size = ffi.new("int64_t*")
        call(text.prefix_tokenizer_vocab_size, self.handle, size)
        return size[0]

    @property
    def end_tokens(self) -> list[int]:
        """After each of which a generation is over."""
        return numbers_of("prefix_token", text.prefix_tokenizer_end_tokens, self.handle).tolist()
