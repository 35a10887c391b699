"""/predict of models with a classification head, against what the pipeline of transformers says (tests/golden/classify.json)."""

import json
import shutil
import struct
import tempfile
import unittest
from pathlib import Path

from service import ROOT, Service

WORDS = ROOT / "build" / "golden-models" / "qwen3-words"
HEADS = {head["name"]: head for head in json.loads((ROOT / "tests/golden/classify.json").read_text())["heads"]}
WORST = 1e-4  # weights of bf16, as is the default; their sums in another order


def classifier(folder, head):
    """The tiny model that reads text, with a head: a file of tensors more, and what config.json says of it."""
    folder = Path(shutil.copytree(WORDS, folder / head["name"]))
    config = json.loads((folder / "config.json").read_text())
    config |= {"architectures": ["Qwen3ForSequenceClassification"], **head["says"]}
    (folder / "config.json").write_text(json.dumps(config))
    path = folder / "model.safetensors"
    content = path.read_bytes()
    size = struct.unpack("<Q", content[:8])[0]
    header, data = json.loads(content[8:8 + size]), content[8 + size:]
    rows = head["weight"]
    score = struct.pack(f"<{len(rows) * len(rows[0])}f", *(number for row in rows for number in row))
    header["score.weight"] = {"dtype": "F32", "shape": [len(rows), len(rows[0])],
                              "data_offsets": [len(data), len(data) + len(score)]}
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data + score)
    return folder


class Classes(unittest.TestCase):
    def check(self, name, expected_labels):
        head = HEADS[name]
        with tempfile.TemporaryDirectory() as folder:
            service = Service("--option", "dtype=f32", model=classifier(Path(folder), head))
            try:
                cases = [case for case in head["cases"] if not case["max_prompt_tokens"]]
                for field, raw in (("scores", False), ("raw", True)):
                    rows = service.post("/predict", {"inputs": [[case["text"]] for case in cases], "raw_scores": raw})
                    self.assertEqual(len(rows), len(cases))
                    for row, case in zip(rows, cases):
                        found = {one["label"]: one["score"] for one in row}
                        self.assertEqual(list(found.values()), sorted(found.values(), reverse=True))
                        self.assertEqual(sorted(found), sorted(expected_labels))
                        for label, score in zip(expected_labels, case[field]):
                            self.assertAlmostEqual(found[label], score, delta=WORST)
                one = service.post("/predict", {"inputs": cases[0]["text"], "raw_scores": True})
                self.assertEqual(len(one), len(expected_labels))
                labels = json.loads(service.get("/info")[1])["model_type"]["classifier"]["id2label"]
                self.assertEqual(labels, {str(i): label for i, label in enumerate(expected_labels)})
            finally:
                service.stop()

    def test_one_class_of_several(self):
        self.check("topics", ["food", "town", "garden"])

    def test_several_classes(self):
        self.check("multi", ["long", "short", "true", "false"])

    def test_classes_without_names(self):
        self.check("unnamed", [f"LABEL_{i}" for i in range(5)])


if __name__ == "__main__":
    unittest.main()
