package examples;

import io.prefix.Batch;
import io.prefix.Engine;
import io.prefix.Job;
import io.prefix.Options;
import io.prefix.Request;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Comparator;
import java.util.Locale;

/**
 * Measures what the bindings cost: prints one JSON object per line, with medians in microseconds. engine_us is what the
 * library itself says about the job; the rest of wall_us is crossing the interface, copying tokens in and scores out.
 */
public final class Overhead {
    private static final int DOCUMENTS = 1000;

    private interface Once {
        /** Returns the nanoseconds that the engine took. */
        long run() throws InterruptedException;
    }

    private record Sample(long wall, long engine) {}

    public static void main(String[] arguments) {
        String usage = "usage: Overhead MODEL, a tiny one: its time should not hide that of the bindings";
        Program.run(arguments, 1, usage, Overhead::run);
    }

    private static void run(String[] arguments) throws InterruptedException {
        Options options = Options.of("threads", 1);
        try (Engine engine = Engine.open(Path.of(arguments[0]), options);
                Batch empty = engine.batch();
                Batch small = engine.batch();
                Batch score = engine.batch()) {
            // One call that does nothing: the state of the engine.
            int calls = 1_000_000;
            for (int i = 0; i < calls; i++) {
                engine.state(); // lets the compiler work
            }
            long begin = System.nanoTime();
            for (int i = 0; i < calls; i++) {
                engine.state();
            }
            double each = (System.nanoTime() - begin) / 1e3 / calls;
            System.out.printf(Locale.ROOT, "{\"binding\":\"java\",\"case\":\"call\",\"wall_us\":%.4f}%n", each);

            // A batch without requests: a job is made, waited for and closed.
            measure("empty_run", 20_000, () -> run(engine, empty, 0));

            // One logit, again and again; after the first run all is in the cache.
            small.add(Request.logits(new int[] {1, 5, 9, 12}, 3));
            measure("one_logit", 20_000, () -> run(engine, small, 1));

            // Many documents after one instruction: one call adds them, one runs them, one brings all scores.
            int[] instruction = new int[32];
            int[][] documents = new int[DOCUMENTS][8];
            for (int i = 0; i < instruction.length; i++) {
                instruction[i] = 1 + i % 97;
            }
            for (int i = 0; i < 8 * DOCUMENTS; i++) {
                documents[i / 8][i % 8] = 1 + i * 31 % 127;
            }
            measure("score_1000_documents", 50, () -> {
                score.clear();
                score.add(Request.continuations(instruction, documents));
                return run(engine, score, 8 * DOCUMENTS);
            });
        }
    }

    private static long run(Engine engine, Batch batch, int values) throws InterruptedException {
        try (Job job = engine.run(batch)) {
            int got = job.allValues().flat().length;
            if (got != values) {
                throw new AssertionError(got + " values instead of " + values);
            }
            return job.totals().time().toNanos();
        }
    }

    /** Prints the run with the median wall time, of the second half, when the JVM is warm. */
    private static void measure(String name, int runs, Once once) throws InterruptedException {
        Sample[] samples = new Sample[runs / 2];
        for (int i = -(runs - samples.length); i < samples.length; i++) {
            long begin = System.nanoTime();
            long engine = once.run();
            if (i >= 0) {
                samples[i] = new Sample(System.nanoTime() - begin, engine);
            }
        }
        Arrays.sort(samples, Comparator.comparingLong(Sample::wall));
        Sample median = samples[samples.length / 2];
        System.out.printf(
                Locale.ROOT,
                "{\"binding\":\"java\",\"case\":\"%s\",\"wall_us\":%.3f,\"engine_us\":%.3f,\"runs\":%d}%n",
                name, median.wall / 1e3, median.engine / 1e3, samples.length);
    }

    private Overhead() {}
}
