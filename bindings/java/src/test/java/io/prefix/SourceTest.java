package io.prefix;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(120)
class SourceTest {
    /** A copy between other bytes, and one that is mapped. */
    private static Source llama() throws Exception {
        Path weights = Support.LLAMA.resolve("model.safetensors");
        byte[] config = Files.readAllBytes(Support.LLAMA.resolve("config.json"));
        ByteBuffer copy = ByteBuffer.allocateDirect(config.length + 9);
        copy.position(4).put(config).flip().position(4);
        try (FileChannel channel = FileChannel.open(weights)) {
            return new Source()
                    .add("config.json", copy)
                    .add("model.safetensors", channel.map(FileChannel.MapMode.READ_ONLY, 0, channel.size()));
        }
    }

    private static float[] logits(Engine engine) throws Exception {
        try (Batch batch = engine.batch()) {
            batch.add(Request.logits(new int[] {1, 5, 9, 12}, 3, 4));
            try (Job job = engine.run(batch)) {
                return job.values(0);
            }
        }
    }

    @Test
    void aModelInMemoryComputesWhatItsFilesDo() throws Exception {
        float[] expected;
        try (Engine engine = Support.open()) {
            expected = logits(engine);
        }
        try (Source source = llama()) {
            try (Engine engine = Engine.open(source, Support.exact())) {
                assertArrayEquals(expected, logits(engine));
            }
            var future = Engine.openAsync(source, Support.exact());
            source.close(); // nobody needs it any more
            System.gc();
            try (Engine engine = future.get(60, TimeUnit.SECONDS)) {
                assertArrayEquals(expected, logits(engine));
            }
            assertThrows(IllegalStateException.class, () -> Engine.open(source, null));
        }
    }

    @Test
    void adaptersAreReadFromSources() throws Exception {
        try (Engine engine = Engine.open(llama(), Support.exact());
                Source source = new Source()) {
            byte[] config = "{\"peft_type\": \"LORA\", \"r\": 1}".getBytes();
            for (Status status : new Status[] {Status.INVALID_ARGUMENT, Status.NOT_FOUND, Status.FORMAT}) {
                var refused = assertThrows(PrefixException.class, () -> engine.loadAdapter("fed", source));
                assertEquals(status, refused.status());
                if (status == Status.INVALID_ARGUMENT) {
                    source.add("adapter_config.json", ByteBuffer.allocateDirect(config.length).put(config).flip());
                } else if (status == Status.NOT_FOUND) {
                    source.add("adapter_model.safetensors", ByteBuffer.allocateDirect(64));
                }
            }
        }
    }

    /** One batch is computed with an adapter, with another one, and without. */
    @Test
    void requestsNameTheirAdapter() throws Exception {
        Path folder = Support.MODELS.resolve("adapter-llama");
        int[] prompt = {1, 5, 9, 12};
        try (Engine engine = Support.open();
                Batch batch = engine.batch()) {
            engine.loadAdapter("one", folder);
            engine.loadAdapter("two", folder);
            batch.add(Request.logits(prompt, 3, 4));
            for (String name : new String[] {"one", "two"}) {
                batch.add(Request.logits(prompt, 3, 4).options(new Options().adapter(name)));
            }
            try (Job job = engine.run(batch)) {
                assertFalse(Arrays.equals(job.values(0), job.values(1)));
                assertArrayEquals(job.values(1), job.values(2));
            }
            assertEquals(prompt.length, engine.cache(engine.adapterNamespace(0, "one")).usage().tokens());
            assertTrue(engine.adaptersJson().contains("\"two\""));
            engine.unloadAdapter("two");
            assertThrows(PrefixException.NotFound.class, () -> engine.unloadAdapter("two"));
            try (Job job = engine.run(batch)) {
                assertEquals(2, job.values(1).length);
                assertThrows(PrefixException.NotFound.class, () -> job.values(2));
            }
            assertThrows(PrefixException.NotFound.class, () -> engine.loadAdapter("one", folder.resolve("none")));
        }
    }

    @Test
    void whatCannotBeAFileIsRefused() throws Exception {
        try (Source source = llama()) {
            ByteBuffer bytes = ByteBuffer.allocateDirect(4);
            assertThrows(IllegalArgumentException.class, () -> source.add("more.gguf", ByteBuffer.allocate(4)));
            for (String name : new String[] {"config.json", "../config.json", ""}) {
                var refused = assertThrows(PrefixException.class, () -> source.add(name, bytes));
                assertEquals(Status.INVALID_ARGUMENT, refused.status(), name);
            }
        }
        try (Source empty = new Source()) {
            assertEquals(
                    Status.INVALID_ARGUMENT,
                    assertThrows(PrefixException.class, () -> Engine.open(empty, null)).status());
        }
        try (Source broken = new Source().add("model.gguf", ByteBuffer.allocateDirect(64))) {
            assertEquals(
                    Status.FORMAT,
                    assertThrows(PrefixException.class, () -> Engine.open(broken, null)).status());
            Throwable cause = assertThrows(
                            ExecutionException.class,
                            () -> Engine.openAsync(broken, null).get(60, TimeUnit.SECONDS))
                    .getCause();
            assertTrue(cause instanceof PrefixException, cause.toString());
        }
    }
}
