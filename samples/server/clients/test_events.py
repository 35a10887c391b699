"""Cache events as routers read them: from ZeroMQ's own sockets, into the structures that vLLM and SGLang publish.

The structures are written here as those projects describe their wire format; msgspec refuses what does not fit them.
"""

import random
import socket
import unittest
from typing import Any, Optional, Union

import msgspec
import zmq

from service import Service

BLOCK = 32  # tokens
PROMPTS = [[1, 2, 3] + list(range(100, 163)) + [tail] * 40 for tail in (7, 8, 9)]
KEY, SALT = "a-key-that-nobody-may-see", "a-salt-that-nobody-may-see"


def structures(array, fields):
    """The types of a dialect: a batch, and the three events that it may hold."""
    base = msgspec.defstruct("Base", [], array_like=array, tag=True)

    def event(name, own):
        return msgspec.defstruct(name, own, bases=(base,), tag=name, array_like=array)

    stored = event("BlockStored", [("block_hashes", list[int]), ("parent_block_hash", Optional[int]), ("token_ids", list[int]),
                                   ("block_size", int), ("lora_id", Optional[int]), ("medium", Optional[str]), *fields])
    removed = event("BlockRemoved", [("block_hashes", list[int]), ("medium", Optional[str])])
    cleared = event("AllBlocksCleared", [])
    batch = msgspec.defstruct("Batch", [("ts", float), ("events", list[Union[stored, removed, cleared]]),
                                        ("data_parallel_rank", Optional[int], None)], array_like=True)
    return msgspec.msgpack.Decoder(batch)


OF_VLLM = [("lora_name", Optional[str]), ("extra_keys", Optional[list[Optional[tuple[Any, ...]]]], None),
           ("group_idx", Optional[int], None), ("kv_cache_spec_kind", Optional[str], None),
           ("kv_cache_spec_sliding_window", Optional[int], None)]
DIALECTS = {
    "vllm": structures(False, OF_VLLM),
    "vllm-array": structures(True, OF_VLLM),
    "sglang": structures(False, [("cache_salt", Optional[str], None), ("session_id", Optional[str], None)]),
    "sglang-array": structures(True, [("metadata", Optional[dict[str, str]], None)]),
}


def tenant_of(event):
    """What tells a tenant's blocks from others, in whichever dialect."""
    keys = (getattr(event, "extra_keys", None) or [None])[0]
    metadata = getattr(event, "metadata", None) or {}
    return keys[0] if keys else getattr(event, "cache_salt", None) or metadata.get("cache_salt")


class Router:
    """What a router does: follows the events, and knows which blocks are there."""

    def __init__(self, service, dialect, topic=""):
        self.decoder = DIALECTS[dialect]
        self.dialect, self.topic = dialect, topic
        self.blocks, self.tenants, self.numbers, self.bytes = {}, set(), [], b""
        self.context = zmq.Context()
        self.events = self.context.socket(zmq.SUB)
        self.events.connect(service.urls[1])
        self.events.subscribe(topic)
        self.again = self.context.socket(zmq.DEALER)
        self.again.connect(service.urls[2])

    def close(self):
        self.context.destroy(linger=0)

    def take(self, number, payload):
        if self.numbers and number <= self.numbers[-1]:
            return  # heard already, live or again
        batch = self.decoder.decode(payload)
        assert batch.data_parallel_rank == 0
        self.numbers.append(number)
        self.bytes += payload
        for event in batch.events:
            match type(event).__name__:
                case "BlockStored":
                    self.store(event)
                case "BlockRemoved":
                    for block in event.block_hashes:
                        del self.blocks[block]
                case _:
                    self.blocks.clear()

    def store(self, event):
        assert event.block_size == BLOCK and len(event.token_ids) == BLOCK * len(event.block_hashes), event
        assert event.medium == "GPU" and event.lora_id is None
        assert self.dialect.startswith("vllm") or len(event.block_hashes) == 1
        parent = event.parent_block_hash
        assert parent is None or parent in self.blocks, "the parent comes first"
        if parent is None and tenant_of(event):
            self.tenants.add(tenant_of(event))
        for i, block in enumerate(event.block_hashes):
            assert 0 < block < 2**63 and block not in self.blocks
            self.blocks[block] = (parent, event.token_ids[i * BLOCK:(i + 1) * BLOCK])
            parent = block

    def begin(self):
        """Waits for the first event, which tells that the cache is empty: who is there before the first request hears all."""
        while not self.numbers:
            self.replay(0)

    def listen(self, blocks=None):
        """Takes what has been published: until there are so many blocks, and nothing more comes."""
        while self.events.poll(1000 if blocks is None else 300 if len(self.blocks) == blocks else 20000):
            topic, number, payload = self.events.recv_multipart()
            assert topic.decode() == self.topic
            self.take(int.from_bytes(number, "big"), payload)

    def replay(self, number):
        """Takes what was published from a number on."""
        self.again.send_multipart([b"", number.to_bytes(8, "big")])
        while True:
            assert self.again.poll(20000), "no end"
            empty, *topic, number, payload = self.again.recv_multipart()
            assert empty == b"" and len(topic) == (1 if self.dialect == "vllm" else 0)
            if int.from_bytes(number, "big", signed=True) == -1:
                return
            assert [part.decode() for part in topic] in ([], [self.topic])
            self.take(int.from_bytes(number, "big"), payload)

    def paths(self):
        """The tokens of every block with all in front of it."""
        def path(block):
            parent, tokens = self.blocks[block]
            return (path(parent) if parent else ()) + tuple(tokens)
        return sorted(path(block) for block in self.blocks)


def run(dialect, *options):
    return Service("--kv-events", "127.0.0.1:0", "--kv-events-replay", "127.0.0.1:0", "--kv-events-dialect", dialect,
                   *options, lines=3)


class Events(unittest.TestCase):
    def router(self, service, dialect, topic=""):
        router = Router(service, dialect, topic)
        self.addCleanup(router.close)
        return router

    def test_every_dialect_tells_the_same(self):
        for dialect in DIALECTS:
            with self.subTest(dialect):
                service = run(dialect, "--kv-events-topic", "kv@pod@small")
                self.addCleanup(service.stop)
                router = self.router(service, dialect, "kv@pod@small")
                other = self.router(service, dialect, "another topic")
                router.begin()
                self.assertEqual((router.numbers, router.blocks), ([0], {}))
                for prompt in PROMPTS:
                    service.post("/v1/embeddings", {"input": [prompt]})
                # Whole blocks of 106 tokens: two that all share, one of each.
                want = {tuple(prompt[:end]) for prompt in PROMPTS for end in (32, 64, 96)}
                router.listen(len(want))
                self.assertEqual(router.paths(), sorted(want))
                self.assertEqual(router.numbers, list(range(len(router.numbers))))
                # Who comes later hears the same again.
                late = self.router(service, dialect, "kv@pod@small")
                late.replay(0)
                self.assertEqual((late.numbers, late.blocks), (router.numbers, router.blocks))
                other.listen()
                self.assertEqual(other.numbers, [])
                self.check_tenants(service, dialect, router)

    def check_tenants(self, service, dialect, router):
        before = set(router.blocks)
        for headers, salt in (({"Authorization": f"Bearer {KEY}"}, {}), ({}, {"cache_salt": SALT}),
                              ({"Authorization": f"Bearer {KEY}"}, {"cache_salt": SALT})):
            service.post("/v1/embeddings", {"input": [PROMPTS[0]], **salt}, **headers)
        router.listen(len(before) + 9)
        self.assertEqual(len(router.blocks), len(before) + 9)
        # Told apart, and nobody is named: neither as it is nor as a hash of the names that somebody may try.
        self.assertEqual(len(router.tenants), 3)
        self.assertEqual({name.split("-")[0] for name in router.tenants}, {"namespace"})
        said = router.bytes
        for secret in (KEY, SALT):
            self.assertNotIn(secret.encode(), said)

    def test_names_of_blocks_are_those_of_the_process(self):
        """They would tell about the tenant otherwise: whoever knows the tokens could try keys until the name fits."""
        names = []
        for _ in range(2):
            service = run("vllm")
            self.addCleanup(service.stop)
            router = self.router(service, "vllm")
            service.post("/v1/embeddings", {"input": [PROMPTS[0]], "cache_salt": SALT})
            router.listen(3)
            router.replay(0)
            names.append(set(router.blocks))
        self.assertEqual([len(each) for each in names], [3, 3])
        self.assertFalse(names[0] & names[1])

    def test_what_makes_room_is_told(self):
        service = run("vllm", "--option", "cache_bytes=8M")
        self.addCleanup(service.stop)
        router = self.router(service, "vllm")
        router.begin()
        for first in range(40):
            service.post("/v1/embeddings", {"input": [[first] * 100]})
        router.listen()
        tree = msgspec.json.decode(service.get("/page/state")[1])["tree"]
        self.assertLess(len(router.blocks), 40 * 3)
        self.assertGreater(len(router.blocks), 0)
        whole = sum(node["tokens"] // BLOCK for node in tree["nodes"])
        self.assertEqual(len(router.blocks), whole)

    def test_a_new_router_learns_all_though_the_beginning_is_gone(self):
        # So few events are kept by the engine that most are lost between two looks.
        service = run("vllm", "--option", "cache_events=2")
        self.addCleanup(service.stop)
        router = self.router(service, "vllm")
        router.begin()
        service.post("/v1/embeddings", {"input": [[first] * 1000 for first in range(20)]})
        router.listen(20 * 31)
        self.assertEqual(len(router.blocks), 20 * 31)
        self.assertEqual(router.numbers, list(range(len(router.numbers))))

    def test_what_is_not_kept_comes_as_a_snapshot(self):
        service = run("vllm", "--kv-events-kept", "1")
        self.addCleanup(service.stop)
        router = self.router(service, "vllm")
        router.begin()
        for prompt in PROMPTS:
            service.post("/v1/embeddings", {"input": [prompt]})
            router.listen()
        self.assertGreater(router.numbers[-1], 2)
        late = self.router(service, "vllm")
        late.replay(0)
        self.assertEqual((late.numbers, late.blocks), (router.numbers[-1:], router.blocks))
        # And it goes on from there.
        service.post("/v1/embeddings", {"input": [[5] * 64]})
        router.listen(7)
        late.replay(late.numbers[-1] + 1)
        self.assertEqual(late.blocks, router.blocks)
        self.assertEqual(len(late.blocks), 7)

    def test_what_is_no_subscriber_hurts_nobody(self):
        service = run("vllm")
        self.addCleanup(service.stop)
        router = self.router(service, "vllm")
        router.begin()
        greeting = b"\xff" + bytes(8) + b"\x7f\x03\x00NULL" + bytes(16 + 1 + 31)
        ready = b"\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x03SUB"
        bad = [b"", b"GET / HTTP/1.1\r\n\r\n", greeting, greeting + ready + b"\x02" + b"\x7f" + b"\xff" * 7,
               greeting + ready + b"\x02" + (1 << 40).to_bytes(8, "big"), greeting + ready + b"\x01\x00" * 5000,
               greeting + ready + b"\x00\x01\x01" * 5000]
        dice = random.Random(1)
        bad += [greeting + ready + dice.randbytes(200) for _ in range(50)]
        (publish, replay) = ((host, int(port)) for host, port in (url.removeprefix("tcp://").split(":") for url in service.urls[1:]))
        # Sockets of ZeroMQ pass over what they did not ask for; this one would see it.
        deaf = socket.create_connection(publish)
        self.addCleanup(deaf.close)
        deaf.sendall(greeting + ready + b"\x00\x08\x01another")
        for address in (publish, replay):
            for said in bad:
                with socket.create_connection(address) as peer:
                    try:
                        peer.sendall(said)
                    except OSError:
                        pass  # it was closed in the middle
        for question in (b"", b"1234567", b"123456789", b"\xff" * 8):
            router.again.send_multipart([b"", question])
        router.again.send_multipart([b"no", b"12345678"])
        self.assertTrue(router.again.poll(20000))  # of -1, which is the largest number there is: an end at once
        self.assertEqual(router.again.recv_multipart()[-2:], [b"\xff" * 8, b""])
        service.post("/v1/embeddings", {"input": [PROMPTS[0]]})
        router.listen(3)
        self.assertEqual(len(router.blocks), 3)
        deaf.settimeout(0.1)
        heard = b""
        try:
            while piece := deaf.recv(1000):
                heard += piece
        except TimeoutError:
            pass
        self.assertEqual(len(heard), 64 + 27)  # a greeting, and READY


if __name__ == "__main__":
    unittest.main()
