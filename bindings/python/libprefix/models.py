"""A model with its tokenizer, by what it is for: Reranker, Embedder, Classifier, LLM.

Each takes the path of a model, a Source, or an Engine to share one. The words around a text, the pooling and the score
are those of the model's own recipe (docs/recipes.md). Methods with a leading `a` are the same for asyncio. Options are
those of tasks and requests (docs/options.md), for instance recipe="qwen3-reranker", namespace="tenant", deadline_ms=500.

Where some items fail, SomeFailed has the results of the others; where all do, the error of the first is raised. Of
texts that a deadline cut off, `partial` of the error has what there is.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, AsyncGenerator, Callable, Generator, Iterable, Sequence

import numpy

from ._native import core, several
from ._waiting import give_up
from .engine import Engine
from .errors import PrefixError, error_of
from .options import WritingOptions
from .requests import Choices
from .system import Source
from .task import Task, run, run_async, texts_of
from .tokenizer import ChatOptions, Tokenizer

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from .options import EmbedOptions, EngineOptions, RankingOptions, RequestOptions, TaskOptions


class Model:
    """model: a path, an Engine, or a Source; a model in memory needs a tokenizer. engine_options, as compute="int8" or
    cache_bytes="4G", are for a path or a Source; progress as of Engine."""

    def __init__(self, model: str | os.PathLike[str] | Source | Engine, *, tokenizer: Tokenizer | None = None,
                 progress: bool | Callable[[float], None] = False, **engine_options: Unpack[EngineOptions]) -> None:
        self._own = not isinstance(model, Engine)
        if not self._own and engine_options:
            raise TypeError(f"options of engines ({', '.join(engine_options)}) are for a path, not for an Engine")
        if tokenizer is None and (isinstance(model, Source) or isinstance(model, Engine) and not model.path):
            raise TypeError("a model in memory has no path to read its tokenizer from; pass tokenizer=Tokenizer.from_json(...)")
        self.engine = model if isinstance(model, Engine) else Engine(model, progress=progress, **engine_options)
        try:
            self.tokenizer = tokenizer or Tokenizer(self.engine.path)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Frees the model, if it was opened here."""
        if self._own:
            self.engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def task(self, kind: str, **options: Unpack[TaskOptions]) -> Task:
        """An empty task, for what the methods do not do."""
        return Task(self.engine, self.tokenizer, kind, **options)


def pair_of(pair: Sequence[str]) -> Sequence[str]:
    if isinstance(pair, (str, bytes)) or len(pair) != 2:
        raise ValueError(f"{pair!r} is no pair of a query and a document")
    return pair


@dataclass(frozen=True)
class Hit:
    """A document: its place in the input, its score (higher is better), and itself."""
    index: int
    score: float
    document: str


class Reranker(Model):
    """Orders documents by how well they answer a query."""

    def _ranking(self, query: str, documents: Iterable[str], options: Any) -> tuple[Task, list[str]]:
        documents = several(documents, "documents")
        task = self.task("rerank", **options)
        task.add_product([query], documents)
        return task, documents

    @staticmethod
    def _hits(task: Task, documents: list[str]) -> list[Hit]:
        hits = [Hit(i, score, documents[i]) for i, score in task.ranking(0, len(documents))]
        return task.complete(hits)

    def rank(self, query: str, documents: Iterable[str], **options: Unpack[RankingOptions]) -> list[Hit]:
        """From best to worst, at most top_n."""
        task, texts = self._ranking(query, documents, options)
        return self._hits(run(task), texts)

    async def arank(self, query: str, documents: Iterable[str], **options: Unpack[RankingOptions]) -> list[Hit]:
        task, texts = self._ranking(query, documents, options)
        return self._hits(await run_async(task), texts)

    def predict(self, pairs: Iterable[Sequence[str]], **options: Unpack[RankingOptions]) -> numpy.ndarray:
        """Scores of (query, document) pairs in their order, f32: what CrossEncoder.predict of sentence-transformers
        is called for."""
        flat = [text for pair in pairs for text in pair_of(pair)]
        task = self.task("rerank", **options)
        task.add(flat)
        return run(task).complete(task.values()[:, 0])


class Embedder(Model):
    """Makes vectors of texts."""

    def _encoding(self, texts: str | Iterable[str], options: Any) -> Task:
        task = self.task("embed", **options)
        task.add([texts] if isinstance(texts, str) else texts)
        return task

    @staticmethod
    def _vectors(task: Task, one: bool) -> numpy.ndarray:
        values = task.complete(task.values())
        return values[0] if one else values

    def encode(self, texts: str | Iterable[str], **options: Unpack[EmbedOptions]) -> numpy.ndarray:
        """[texts, dimensions] in f32, of one text [dimensions]. Options prompt, instruction, dimensions, normalize, ..."""
        return self._vectors(run(self._encoding(texts, options)), isinstance(texts, str))

    async def aencode(self, texts: str | Iterable[str], **options: Unpack[EmbedOptions]) -> numpy.ndarray:
        return self._vectors(await run_async(self._encoding(texts, options)), isinstance(texts, str))


class Classifier(Model):
    """Gives a probability to each label."""

    @property
    def head_labels(self) -> list[str]:
        """Those of the model's classification head; none without one."""
        return self.task("classify").info["labels"]

    def classify(self, texts: str | Iterable[str], labels: Sequence[str] = (), **options: Unpack[RankingOptions]) -> numpy.ndarray:
        """[texts, labels] in f32, of one text [labels]. Without labels they are those of the model's classification head,
        head_labels; each row adds up to 1, unless that head was trained for something else."""
        task = self.task("classify", **options)
        if len(labels):
            task.set_labels(labels)
        task.add([texts] if isinstance(texts, str) else texts)
        values = run(task).complete(task.values())
        return values[0] if isinstance(texts, str) else values


class ChatWritingOptions(WritingOptions, ChatOptions, total=False):
    """Of a conversation: those of the task, and what its template is told."""


class LLM(Model):
    """Writes texts."""

    def _texts(self, task: Task, one: bool) -> Any:
        try:
            texts = task.complete(texts_of(task))
        except PrefixError as error:
            error.partial = [task.partial_text(item) for item in range(task.count)]
            raise
        return texts[0] if one and len(texts) == 1 else texts

    def _writing(self, prompts: str | Iterable[str], options: Any) -> Task:
        task = self.task("generate", **options)
        task.add([prompts] if isinstance(prompts, str) else prompts)
        return task

    def generate(self, prompts: str | Iterable[str], **options: Unpack[WritingOptions]) -> Any:
        """What follows each prompt. Options max_tokens, temperature, stop, seed, ...; with samples a list in which those of a
        prompt follow each other."""
        return self._texts(run(self._writing(prompts, options)), isinstance(prompts, str))

    async def agenerate(self, prompts: str | Iterable[str], **options: Unpack[WritingOptions]) -> Any:
        return self._texts(await run_async(self._writing(prompts, options)), isinstance(prompts, str))

    def _conversation(self, messages: Sequence[dict[str, Any]], options: Any) -> Task:
        own = {name: options.pop(name) for name in ChatOptions.__annotations__ if name in options}
        try:
            task = self.task("chat", **options)
        except PrefixError as error:
            if error.name == "PREFIX_ERR_UNKNOWN_OPTION":  # as transformers takes them
                error.args = (f'{error.args[0]} (variables of the template go into "variables")',)
            raise
        task.add_chat(messages, **own)
        return task

    def chat(self, messages: Sequence[dict[str, Any]], **options: Unpack[ChatWritingOptions]) -> Any:
        """The next turn of a conversation; with samples a list of them. Options max_tokens, temperature, ...; and tools,
        documents, variables, ... for its template: variables={"enable_thinking": True}."""
        return self._texts(run(self._conversation(messages, options)), True)

    async def achat(self, messages: Sequence[dict[str, Any]], **options: Unpack[ChatWritingOptions]) -> Any:
        return self._texts(await run_async(self._conversation(messages, options)), True)

    def answer(self, context: str, questions: str | Iterable[str], **options: Unpack[WritingOptions]) -> Any:
        """An answer to each question about one context, which is computed once."""
        task = self.task("answer", **options)
        task.add_product([context], [questions] if isinstance(questions, str) else questions)
        return self._texts(run(task), isinstance(questions, str))

    def score(self, prompt: str, continuations: Iterable[str], **options: Unpack[RequestOptions]) -> numpy.ndarray:
        """The log-probability of each continuation after the prompt, f32; the prompt is computed once."""
        ids = [self.tokenizer.encode(c, continues=True) for c in several(continuations, "continuations")]
        if not ids:
            return numpy.empty(0, numpy.float32)
        result = self.engine.run([Choices(self.tokenizer.encode(prompt, special=True), ids, dict(options))])[0]
        if result.error is not None:
            raise result.error
        return result.values

    def stream(self, prompt: str | Sequence[dict[str, Any]], **options: Unpack[ChatWritingOptions]) -> Generator[str, None, None]:
        """The text that follows a prompt, or the next turn of a conversation, as it is written. Leaving the loop cancels
        what is left."""
        task = self._streaming(prompt, options)
        try:
            for piece in task.pieces():
                if piece.text is not None:
                    yield piece.text
            task.complete(None)
        finally:
            give_up(task.cancel)

    async def astream(self, prompt: str | Sequence[dict[str, Any]],
                      **options: Unpack[ChatWritingOptions]) -> AsyncGenerator[str, None]:
        task = self._streaming(prompt, options)
        try:
            async for piece in task.pieces_async():
                if piece.text is not None:
                    yield piece.text
            task.complete(None)
        finally:
            give_up(task.cancel)

    def _streaming(self, prompt: str | Sequence[dict[str, Any]], options: Any) -> Task:
        options = {**options, "stream": True}
        task = self._writing(prompt, options) if isinstance(prompt, str) else self._conversation(prompt, options)
        if task.count != 1:
            raise error_of(core.PREFIX_ERR_INVALID_ARGUMENT, "PREFIX_ERR_INVALID_ARGUMENT",
                           f"option samples is {task.count}; a stream is one text, and the pieces of a task tell several apart")
        task.submit()
        return task
