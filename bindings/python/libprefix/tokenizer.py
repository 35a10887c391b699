"""Tokenizers with the chat templates of their models."""

from __future__ import annotations

import datetime
import json
import os
from typing import TYPE_CHECKING, Any, Iterable, Sequence, TypedDict

import numpy

from ._native import (Handle, Tokens, array_in, call, core, ffi, make, numbers_of, path_in, several, text, text_of,
                      tokens_in, utf8)

if TYPE_CHECKING:
    from typing_extensions import Unpack


class ChatOptions(TypedDict, total=False):
    """What a chat template is told besides the messages; None counts as absent."""
    # Whether the model's turn begins at the end; the default is True.
    add_generation_prompt: bool | None
    # Whether the last message is left open, for the model to go on with it.
    continue_final_message: bool | None
    # Definitions of the tools that the model may call, as JSON schemas.
    tools: Sequence[Any] | None
    # What the template takes as documents.
    documents: Sequence[Any] | None
    # Further variables of the template, e.g. {"enable_thinking": False}.
    variables: dict[str, Any] | None
    # Name of another template than the default.
    template: str | None
    # For templates that print the date, a text as 2026-01-31T23:59:59; the default is the clock.
    now: datetime.datetime | str | None


def chat_settings(options: ChatOptions) -> dict[str, Any]:
    """The options as values of JSON."""
    settings: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    if isinstance(settings.get("now"), datetime.datetime):
        settings["now"] = settings["now"].strftime("%Y-%m-%dT%H:%M:%S")
    return settings


class Tokenizer(Handle):
    """Of a Hugging Face directory, a tokenizer.json or a .gguf file, exactly as the Hugging Face packages read it.
    Any thread may use it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        data = path_in(path)
        super().__init__(make(text.prefix_tokenizer_open, text.prefix_tokenizer_release, data, len(data)))

    @classmethod
    def from_json(cls, tokenizer: str, config: str = "") -> Tokenizer:
        """From the contents of tokenizer.json and of tokenizer_config.json."""
        one, two = utf8(tokenizer, "the tokenizer"), utf8(config, "its configuration")
        made = cls.__new__(cls)
        Handle.__init__(made, make(text.prefix_tokenizer_from_json, text.prefix_tokenizer_release, one, len(one),
                                   two or ffi.NULL, len(two)))
        return made

    @property
    def info(self) -> dict[str, Any]:
        """source, vocab_size, special_tokens, end_tokens, chat_templates."""
        return json.loads(text_of(text.prefix_tokenizer_info_json, self.handle))

    def special_token(self, role: str) -> int:
        """The token of "bos", "eos", "pad", ...; NotFoundError when the model has none."""
        return self._token(text.prefix_tokenizer_special_token, role)

    def token_id(self, name: str) -> int:
        """The token of a name in the vocabulary, "<|im_end|>" for instance; NotFoundError."""
        return self._token(text.prefix_tokenizer_token_id, name)

    def _token(self, function: Any, name: str) -> int:
        data, out = utf8(name, "the name"), ffi.new("prefix_token*")
        call(function, self.handle, data, len(data), out)
        return out[0]

    def token_bytes(self, token: int) -> bytes:
        """What it stands for inside a text, perhaps a part of a character."""
        needed, room = ffi.new("size_t*"), 64
        while True:
            buffer = ffi.new("char[]", room)
            if call(text.prefix_tokenizer_token_bytes, self.handle, token, buffer, room, needed,
                    allowed=[core.PREFIX_ERR_BUFFER_TOO_SMALL]) == core.PREFIX_OK:
                return ffi.buffer(buffer, needed[0])[:]
            room = needed[0] + 1

    def encode(self, content: str, *, special: bool = False, literal: bool = False, continues: bool = False) -> list[int]:
        """special: add what the model wants around a text. literal: special tokens that are written in it are plain
        characters, as for text from outside. continues: the text goes on another one, as what is scored after a prompt
        does, so that a tokenizer that puts a space in front of a text puts none here."""
        data = utf8(content)
        flags = _flags(special, literal, continues)
        return numbers_of("prefix_token", text.prefix_tokenizer_encode, self.handle, data, len(data), flags,
                          capacity=len(data) + 16).tolist()

    def encode_offsets(self, content: str, *, special: bool = False, literal: bool = False,
                       continues: bool = False) -> tuple[list[int], numpy.ndarray]:
        """The same with the bytes of the UTF-8 text that each token comes from, [tokens, 2]: from and up to."""
        data = utf8(content)
        offsets = numpy.empty((0, 2), numpy.int64)

        def get(handle: Any, out: Any, capacity: int, needed: Any, error: Any) -> int:
            nonlocal offsets
            offsets = numpy.empty((capacity, 2), numpy.int64)
            return text.prefix_tokenizer_encode_offsets(handle, data, len(data), _flags(special, literal, continues), out,
                                                        capacity, needed, ffi.from_buffer("int64_t[]", offsets),
                                                        offsets.size, error)

        tokens = numbers_of("prefix_token", get, self.handle, capacity=len(data) + 16).tolist()
        return tokens, offsets[: len(tokens)]

    def encode_batch(self, contents: Iterable[str], *, special: bool = False, literal: bool = False,
                     continues: bool = False) -> list[numpy.ndarray]:
        """The tokens of many texts in one call, each on its own."""
        encoded = [utf8(content, f"text {i}") for i, content in enumerate(several(contents, "contents"))]
        ends = numpy.zeros(len(encoded) + 1, numpy.int64)
        numpy.cumsum([len(data) for data in encoded], out=ends[1:])
        data, places = b"".join(encoded), numpy.zeros(len(encoded) + 1, numpy.int64)

        def get(handle: Any, out: Any, capacity: int, needed: Any, error: Any) -> int:
            return text.prefix_tokenizer_encode_batch(handle, data, len(data), array_in("int64_t", ends), ends.size,
                                                      _flags(special, literal, continues), out, capacity, needed,
                                                      array_in("int64_t", places), places.size, error)

        tokens = numbers_of("prefix_token", get, self.handle, capacity=len(data) + 16 * len(encoded))
        return [tokens[begin:end] for begin, end in zip(places[:-1].tolist(), places[1:].tolist())]

    def decode(self, tokens: Tokens, *, skip_special: bool = True) -> str:
        """Their text, without special tokens unless skip_special is False. (The default is that of the package tokenizers;
        decode of transformers keeps them.)"""
        data, count, _keep = tokens_in(tokens)
        flags = text.PREFIX_DECODE_SKIP_SPECIAL if skip_special else 0
        return text_of(text.prefix_tokenizer_decode, self.handle, data, count, flags)

    def chat(self, messages: Sequence[dict[str, Any]], **options: Unpack[ChatOptions]) -> str:
        """The prompt of a conversation, as its template renders it. Options tools, add_generation_prompt, variables, ..."""
        content, settings = json.dumps(messages).encode(), json.dumps(chat_settings(options)).encode()
        return text_of(text.prefix_tokenizer_chat_text, self.handle, content, len(content), settings, len(settings))

    def chat_tokens(self, messages: Sequence[dict[str, Any]], **options: Unpack[ChatOptions]) -> list[int]:
        """Its tokens."""
        return self.chat_turns(messages, **options)[0]

    def chat_turns(self, messages: Sequence[dict[str, Any]], **options: Unpack[ChatOptions]) -> tuple[list[int], list[int]]:
        """Its tokens, and how many of the first belong to the messages up to each and stay the same when the conversation
        goes on; the last entry is the number of all."""
        content, settings = json.dumps(messages).encode(), json.dumps(chat_settings(options)).encode()
        turns = numpy.zeros(len(messages) + 1, numpy.int64)

        def get(handle: Any, out: Any, capacity: int, needed: Any, error: Any) -> int:
            return text.prefix_tokenizer_chat_tokens(handle, content, len(content), settings, len(settings), out, capacity,
                                                     needed, ffi.from_buffer("int64_t[]", turns), turns.size, error)

        return numbers_of("prefix_token", get, self.handle, capacity=len(content) + 256).tolist(), turns.tolist()

    @property
    def vocab_size(self) -> int:
        """Token ids are smaller."""
        size = ffi.new("int64_t*")
        call(text.prefix_tokenizer_vocab_size, self.handle, size)
        return size[0]

    @property
    def end_tokens(self) -> list[int]:
        """After each of which a generation is over."""
        return numbers_of("prefix_token", text.prefix_tokenizer_end_tokens, self.handle).tolist()


def _flags(special: bool, literal: bool, continues: bool) -> int:
    return ((text.PREFIX_ENCODE_SPECIAL if special else 0) | (text.PREFIX_ENCODE_LITERAL if literal else 0)
            | (text.PREFIX_ENCODE_CONTINUES if continues else 0))


class Detokenizer(Handle):
    """The text of tokens that arrive one by one, never cutting a character. One thread at a time. The pieces add up to
    what Tokenizer.decode gives with the same skip_special."""

    def __init__(self, tokenizer: Tokenizer, *, skip_special: bool = True) -> None:
        super().__init__(make(text.prefix_detok_create, text.prefix_detok_release, tokenizer.handle,
                              text.PREFIX_DECODE_SKIP_SPECIAL if skip_special else 0))

    def push(self, *tokens: int) -> str:
        """The text that has become complete, often none."""
        data, count, _keep = tokens_in(tokens)
        return text_of(text.prefix_detok_push, self.handle, data, count)

    def flush(self) -> str:
        """The rest; then the next text may begin."""
        return text_of(text.prefix_detok_flush, self.handle)
