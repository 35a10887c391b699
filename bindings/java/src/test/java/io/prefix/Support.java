package io.prefix;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** What tests share. They run in a checkout, after the library and the tiny models have been built. */
final class Support {
    static final Path ROOT = Path.of(System.getProperty("prefix.root")).toAbsolutePath().normalize();
    static final Path MODELS = ROOT.resolve("build/golden-models");
    static final Path LLAMA = MODELS.resolve("llama-base");
    static final Path SMOLLM2 = ROOT.resolve("build/models/SmolLM2-135M-Instruct.Q4_1.gguf");

    static Options exact() {
        return Options.of("isa", "scalar").set("dtype", "f32");
    }

    static Engine open() {
        return Engine.open(LLAMA, exact());
    }

    /** A batch that keeps an engine busy for a while. */
    static Batch generations(Engine engine, int count) {
        Batch batch = engine.batch();
        Options options = Options.of("max_tokens", 200).set("ignore_eos", true);
        for (int i = 0; i < count; i++) {
            batch.add(Request.generate(1, 2 + i % 100, 3 + i / 100, 4).options(options).tag(i));
        }
        return batch;
    }

    static int[] tokens(String text) {
        byte[] bytes = Buffers.utf8(text);
        int[] tokens = new int[bytes.length];
        for (int i = 0; i < tokens.length; i++) {
            tokens[i] = bytes[i] & 0xff;
        }
        return tokens;
    }

    /** A token for each of the first bytes, and then &lt;|start|> and &lt;|end|>: tokenizer.json and its config. */
    static String[] byteTokenizer(int bytes) {
        Map<String, Integer> vocabulary = new LinkedHashMap<>();
        int next = 256;
        for (int b = 0; b < 256; b++) {
            boolean plain = b >= 33 && b <= 126 || b >= 161 && b <= 172 || b >= 174;
            int code = plain ? b : next++;
            if (b < bytes) {
                vocabulary.put(Character.toString(code), b);
            }
        }
        Map<String, ?> level =
                Map.of("type", "ByteLevel", "add_prefix_space", false, "trim_offsets", false, "use_regex", false);
        Map<String, Object> tokenizer = new LinkedHashMap<>();
        tokenizer.put("version", "1.0");
        tokenizer.put("added_tokens", List.of(special(bytes, "<|start|>"), special(bytes + 1, "<|end|>")));
        tokenizer.put("normalizer", null);
        tokenizer.put("pre_tokenizer", level);
        tokenizer.put("decoder", level);
        tokenizer.put("post_processor", null);
        tokenizer.put("model", Map.of("type", "BPE", "vocab", vocabulary, "merges", List.of()));
        // Two templates; the first reads all that one can be told.
        String full = "{% for t in tools or [] %}[{{ t.name }}]{% endfor %}{% for d in documents or [] %}({{ d.text }}){% endfor %}"
                + "{% if dated %}{{ strftime_now('%Y-%m-%d') }} {% endif %}"
                + "{% for m in messages %}<|start|>{{ m.role }}: {{ m.content }}<|end|>{% endfor %}"
                + "{% if add_generation_prompt %}<|start|>assistant: {% if enable_thinking %}<think>{% endif %}{% endif %}";
        Map<String, ?> config = Map.of(
                "tokenizer_class",
                "PreTrainedTokenizerFast",
                "eos_token",
                "<|end|>",
                "chat_template",
                List.of(
                        Map.of("name", "default", "template", full),
                        Map.of("name", "short", "template", "{{ messages[-1].content }}")));
        return new String[] {Json.of(tokenizer), Json.of(config)};
    }

    private static Map<String, ?> special(int id, String name) {
        return Map.of(
                "id", id, "content", name, "single_word", false, "lstrip", false, "rstrip", false, "normalized", false,
                "special", true);
    }

    /** Makes a tiny model that reads ASCII. */
    static void asciiModel(Path folder) throws IOException {
        for (String name : List.of("config.json", "model.safetensors")) {
            Files.copy(LLAMA.resolve(name), folder.resolve(name));
        }
        String[] tokenizer = byteTokenizer(129); // with two special ones, all of the model's
        Files.writeString(folder.resolve("tokenizer.json"), tokenizer[0]);
        Files.writeString(folder.resolve("tokenizer_config.json"), tokenizer[1]);
    }

    /** How much memory the process has, in bytes. */
    static long resident() throws IOException {
        return Long.parseLong(Files.readString(Path.of("/proc/self/statm")).split(" ")[1]) * 4096;
    }

    /** bindings/golden.json. */
    static final class Golden {
        final List<Map<String, Object>> requests;

        @SuppressWarnings("unchecked")
        Golden() throws IOException {
            Map<String, Object> file =
                    (Map<String, Object>) JsonReader.read(Files.readString(ROOT.resolve("bindings/golden.json")));
            requests = (List<Map<String, Object>>) file.get("requests");
        }

        Batch batch(Engine engine) {
            Batch batch = engine.batch();
            for (Map<String, Object> request : requests) {
                batch.add(request(request));
            }
            return batch;
        }

        private static Request request(Map<String, Object> r) {
            int[] tokens = ints(r.get("tokens"));
            return switch ((String) r.get("task")) {
                case "logits" -> Request.logits(tokens, ints(r.get("ids")));
                case "logprobs" -> Request.logprobs(tokens, ((Long) r.get("from")).intValue());
                case "choices" -> Request.choices(tokens, lists(r.get("choices")));
                case "continuations" -> Request.continuations(tokens, lists(r.get("continuations")));
                case "embedding" -> Request.embedding(tokens);
                default -> Request.generate(tokens)
                        .options(Options.of("max_tokens", r.get("max_tokens")).set("logprobs", true));
            };
        }

        /** What is wrong with a finished job; empty when nothing is. */
        List<String> differences(Job job) {
            List<String> wrong = new ArrayList<>();
            Values values = job.allValues();
            int next = 0;
            for (Map<String, Object> request : requests) {
                String task = (String) request.get("task");
                int first = next;
                next += request.containsKey("continuations") ? lists(request.get("continuations")).length : 1;
                List<Long> bits = new ArrayList<>();
                for (int i = first; i < next; i++) {
                    for (float value : values.of(i)) {
                        bits.add(Float.floatToRawIntBits(value) & 0xffffffffL);
                    }
                }
                if (!bits.equals(request.get("values_bits"))) {
                    wrong.add(task + ": values " + bits);
                }
                Result result = job.result(first);
                if (result.status().code() != (Long) request.get("status")) {
                    wrong.add(task + ": " + result);
                }
                if (request.containsKey("logprobs_bits")) {
                    bits.clear();
                    for (float value : job.logprobs(first)) {
                        bits.add(Float.floatToRawIntBits(value) & 0xffffffffL);
                    }
                    if (!bits.equals(request.get("logprobs_bits"))) {
                        wrong.add(task + ": log-probabilities " + bits);
                    }
                }
                if (request.containsKey("generated")
                        && !Arrays.equals(job.tokens(first), ints(request.get("generated")))) {
                    wrong.add(task + ": generated " + Arrays.toString(job.tokens(first)));
                }
            }
            return wrong;
        }

        private static int[] ints(Object list) {
            return ((List<?>) list).stream().mapToInt(number -> ((Long) number).intValue()).toArray();
        }

        private static int[][] lists(Object lists) {
            return ((List<?>) lists).stream().map(Golden::ints).toArray(int[][]::new);
        }
    }

    private Support() {}
}
