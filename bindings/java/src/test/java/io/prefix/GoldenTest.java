package io.prefix;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.nio.IntBuffer;
import java.util.List;
import org.junit.jupiter.api.Test;

class GoldenTest {
    @Test
    void valuesAreThoseOfEveryBinding() throws Exception {
        Support.Golden golden = new Support.Golden();
        try (Engine engine = Support.open();
                Batch batch = golden.batch(engine);
                Job job = engine.run(batch)) {
            assertEquals(List.of(), golden.differences(job));
        }
    }

    static IntBuffer direct(int... tokens) {
        IntBuffer buffer =
                ByteBuffer.allocateDirect(4 * tokens.length + 4).order(ByteOrder.nativeOrder()).asIntBuffer();
        return buffer.position(1).put(tokens).position(1);
    }

    @Test
    void buffersAreAsGoodAsArrays() throws Exception {
        try (Engine engine = Support.open();
                Batch batch = engine.batch()) {
            int[] tokens = {1, 5, 9, 12};
            batch.add(Request.logits(tokens, 3, 4));
            batch.add(Request.logits(direct(tokens), 3, 4));
            batch.add(Request.logits(IntBuffer.wrap(tokens), 3, 4));
            batch.add(Request.logits(ByteBuffer.allocateDirect(16).asIntBuffer().put(tokens).flip(), 3, 4));
            batch.add(Request.logprobs(direct(tokens), 2));
            batch.add(Request.embedding(direct(tokens)));
            batch.add(Request.generate(direct(tokens)).options(Options.of("max_tokens", 1)));
            batch.add(Request.continuations(direct(tokens), direct(3, 4, 7), new long[] {0, 2, 3}));
            try (Job job = engine.run(batch)) {
                Values values = job.allValues();
                for (int i = 1; i < 4; i++) {
                    assertArrayEquals(values.of(0), values.of(i));
                    assertArrayEquals(job.values(0), job.values(i));
                }
                assertEquals(2, values.count(4));
                assertEquals(128, values.count(5));
                assertEquals(9, values.size());
                assertEquals(1, values.view(8).remaining());
                assertEquals(values.get(8, 0), values.view(8).get(0));
                assertThrows(IndexOutOfBoundsException.class, () -> values.get(8, 1));

                FloatBuffer out = ByteBuffer.allocateDirect(4 * values.flat().length + 4)
                        .order(ByteOrder.nativeOrder())
                        .asFloatBuffer()
                        .position(1);
                long[] offsets = job.allValues(out);
                assertEquals(0, out.remaining());
                assertEquals(values.flat().length, offsets[9]);
                float[] copy = new float[values.flat().length];
                out.position(1).get(copy);
                assertArrayEquals(values.flat(), copy);
                assertThrows(IllegalArgumentException.class, () -> job.allValues(out));
                assertThrows(IllegalArgumentException.class, () -> job.allValues(FloatBuffer.allocate(1000)));
            }
        }
    }
}
