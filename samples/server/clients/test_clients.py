"""The service asked by the clients of its peers, which read its answers strictly."""

import json
import unittest
import warnings

import cohere
import openai
from huggingface_hub import InferenceClient

from service import Service

TOOL = {"type": "function", "function": {
    "name": "get_weather", "description": "The weather of a town.", "strict": True,
    "parameters": {"type": "object", "properties": {"city": {"type": "string", "enum": ["Rome", "Paris"]}},
                   "required": ["city"], "additionalProperties": False}}}
DOCUMENTS = ["Paris is the capital of France.", "Bread is baked from flour.", "A tree has leaves."]


class Clients(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        warnings.simplefilter("ignore", ResourceWarning)  # of connections that clients leave open
        cls.service = Service()
        cls.url = cls.service.url
        cls.openai = openai.OpenAI(base_url=f"{cls.url}/v1", api_key="one", max_retries=0)

    @classmethod
    def tearDownClass(cls):
        cls.openai.close()
        cls.service.stop()

    def test_openai_lists_the_model(self):
        self.assertEqual([model.id for model in self.openai.models.list()], ["small"])

    def test_openai_embeds(self):
        answer = self.openai.embeddings.create(model="small", input=DOCUMENTS)
        as_numbers = self.openai.embeddings.create(model="small", input=DOCUMENTS, encoding_format="float")
        self.assertEqual(len(answer.data), 3)
        for packed, plain in zip(answer.data, as_numbers.data):
            self.assertEqual(len(packed.embedding), 576)
            self.assertTrue(all(abs(a - b) < 1e-7 for a, b in zip(packed.embedding, plain.embedding)))

    def test_openai_completes(self):
        asked = {"model": "small", "prompt": "Bread is made of", "max_tokens": 8, "temperature": 0}
        whole = self.openai.completions.create(**asked)
        pieces = list(self.openai.completions.create(**asked, stream=True))
        self.assertEqual("".join(piece.choices[0].text for piece in pieces), whole.choices[0].text)
        self.assertEqual(pieces[-1].choices[0].finish_reason, "length")
        self.assertEqual(whole.usage.completion_tokens, 8)

    def test_openai_chats(self):
        messages = [{"role": "user", "content": "What is the capital of France?"}]
        asked = {"model": "small", "messages": messages, "max_completion_tokens": 10, "temperature": 0}
        whole = self.openai.chat.completions.create(**asked)
        self.assertIn("Paris", whole.choices[0].message.content)
        pieces = list(self.openai.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True}))
        text = "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices)
        self.assertEqual(text, whole.choices[0].message.content)
        self.assertEqual(pieces[-1].usage.completion_tokens, whole.usage.completion_tokens)

    def test_openai_calls_tools(self):
        named = {"type": "function", "function": {"name": "get_weather"}}
        messages = [{"role": "user", "content": "What is the weather in Rome?"}]
        asked = {"model": "small", "temperature": 0, "tools": [TOOL], "parallel_tool_calls": False}
        for choice in ("required", named):
            whole = self.openai.chat.completions.create(**asked, messages=messages, tool_choice=choice)
            self.assertEqual(whole.choices[0].finish_reason, "tool_calls")
            message = whole.choices[0].message
            (call,) = message.tool_calls
            self.assertEqual(call.function.name, "get_weather")
            self.assertIn(json.loads(call.function.arguments)["city"], ("Rome", "Paris"))
            # The client puts a stream together itself, and reads the arguments.
            with self.openai.chat.completions.stream(**asked, messages=messages, tool_choice=choice) as stream:
                last = [event for event in stream if event.type == "tool_calls.function.arguments.done"]
                final = stream.get_final_completion().choices[0].message
            self.assertEqual([event.arguments for event in last], [call.function.arguments])
            self.assertEqual(final.tool_calls[0].function.parsed_arguments, json.loads(call.function.arguments))
        turn = [*messages, message, {"role": "tool", "tool_call_id": call.id, "content": "It rains."}]
        answer = self.openai.chat.completions.create(**asked, messages=turn, tool_choice="none", max_completion_tokens=10)
        self.assertTrue(answer.choices[0].message.content)
        self.assertIsNone(answer.choices[0].message.tool_calls)
        with self.assertRaises(openai.BadRequestError) as raised:
            self.openai.chat.completions.create(**asked, messages=messages,
                                                tool_choice={"type": "function", "function": {"name": "other"}})
        self.assertEqual(raised.exception.param, "tool_choice.function.name")

    def test_openai_reads_several_answers(self):
        asked = {"model": "small", "prompt": ["Bread is", "The moon"], "n": 2, "max_tokens": 4, "temperature": 1, "seed": 5}
        whole = self.openai.completions.create(**asked)
        self.assertEqual([choice.index for choice in whole.choices], [0, 1, 2, 3])
        texts = ["", "", "", ""]
        for piece in self.openai.completions.create(**asked, stream=True):
            for choice in piece.choices:
                texts[choice.index] += choice.text
        self.assertEqual(texts, [choice.text for choice in whole.choices])

    def test_openai_raises_its_own_errors(self):
        with self.assertRaises(openai.NotFoundError):
            self.openai.embeddings.create(model="large", input="a")
        with self.assertRaises(openai.BadRequestError) as raised:
            self.openai.completions.create(model="small", prompt="a", n=0)
        self.assertEqual(raised.exception.param, "n")
        with self.assertRaises(openai.BadRequestError) as raised:
            self.openai.completions.create(model="small", prompt="word " * 9000)
        self.assertEqual(raised.exception.code, "context_length_exceeded")

    def test_openai_names_requests(self):
        answer = self.openai.embeddings.create(model="small", input="a")
        self.assertRegex(answer._request_id, "^req-")
        with self.assertRaises(openai.NotFoundError) as raised:
            self.openai.embeddings.create(model="large", input="a", extra_headers={"x-request-id": "mine"})
        self.assertEqual(raised.exception.request_id, "mine")

    def test_openai_does_not_ask_again_when_time_is_over(self):
        patient = self.openai.with_options(max_retries=2)
        asked = {"model": "small", "prompt": "A", "max_tokens": 1500, "extra_body": {"ignore_eos": True}}
        with self.assertRaises(openai.InternalServerError) as raised:
            patient.completions.create(**asked, extra_headers={"prefix-deadline-ms": "1"})
        self.assertEqual(raised.exception.status_code, 504)
        late = [line for line in self.service.get("/metrics")[1].splitlines() if "answers_total" in line and "504" in line]
        self.assertEqual(late, ['prefix_server_answers_total{path="/v1/completions",code="504"} 1'])
        # In the middle of a stream, or before it.
        with self.assertRaises(openai.APIError) as raised:
            list(self.openai.completions.create(**asked, stream=True, extra_headers={"prefix-deadline-ms": "400"}))
        self.assertEqual(raised.exception.code, "deadline_exceeded")

    def test_cohere_ranks(self):
        client = cohere.ClientV2(api_key="one", base_url=self.url)
        answer = client.rerank(model="small", query="How is bread made?", documents=DOCUMENTS, top_n=2)
        self.assertEqual(answer.results[0].index, 1)
        self.assertEqual(len(answer.results), 2)
        self.assertGreater(answer.results[0].relevance_score, answer.results[1].relevance_score)

    def test_hugging_face_embeds_and_chats(self):
        vectors = InferenceClient(model=f"{self.url}/embed").feature_extraction(DOCUMENTS[0])
        self.assertEqual(vectors.shape[-1], 576)
        chat = InferenceClient(base_url=self.url, api_key="one")
        answer = chat.chat_completion([{"role": "user", "content": "What is the capital of France?"}], max_tokens=10, model="small",
                                      temperature=0)
        self.assertIn("Paris", answer.choices[0].message.content)


if __name__ == "__main__":
    unittest.main()
