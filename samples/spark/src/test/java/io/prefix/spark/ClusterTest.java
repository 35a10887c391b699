package io.prefix.spark;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.prefix.Engine;
import io.prefix.Options;
import io.prefix.Task;
import io.prefix.Tokenizer;
import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.Serializable;
import java.io.UncheckedIOException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.TreeMap;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.function.MapPartitionsFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Executors in processes of their own, one of which is killed in the middle of a partition. */
@Timeout(400) // executors that cannot start are started again without end
class ClusterTest {
    private static final int ROWS = 400;
    private static final int FILMS = 20;
    private static final int PARTS = 12;

    @Test
    void anExecutorThatIsKilledChangesNoByte(@TempDir Path folder) throws Exception {
        Path model = Files.createDirectory(folder.resolve("model"));
        Support.model(model);
        try (SparkSession spark = cluster(folder)) {
            TableLayout layout = TableLayout.of(
                    Support.films(spark, ROWS, FILMS), "id", List.of("text", "film", "plot"), PARTS);
            TableTask task = Support.exact(new TableTask("rerank", model.toString()))
                    .query("Is it praise?")
                    .window(4, 2);
            Path killed = folder.resolve("killed");
            Dataset<Row> results = task.run(layout.prompts());
            List<Row> rows = results.mapPartitions(
                            new KillOnce(folder.toString()), Encoders.row(results.schema()))
                    .collectAsList();
            assertTrue(Files.exists(killed), "no executor was killed");
            assertEquals(ROWS, rows.size());

            List<Row> prompts = layout.prompts().collectAsList();
            Alone alone = new Alone(model, prompts);
            assertArrayEquals(alone.bytes, bytes(rows), "the results differ from those of one process");

            // All that any engine computed, also what was lost with the killed one.
            long computed = 0;
            for (Path total : totals(folder)) {
                computed += Long.parseLong(Files.readString(total));
            }
            long handedOver = rows.stream().mapToLong(row -> row.getAs("computed")).sum();
            System.out.printf(
                    "distinct %d, computed %d (%.3f of it), of which %d were lost with the killed executor; given %d%n",
                    alone.computed, computed, (double) computed / alone.computed, computed - handedOver,
                    rows.stream().mapToLong(row -> row.getAs("tokens")).sum());
            assertTrue(computed > handedOver, "nothing was lost: the executor was not in the middle of a partition");
            assertTrue(computed <= 1.1 * alone.computed, computed + " tokens computed, " + alone.computed + " distinct");
            assertTrue(rows.stream().map(row -> row.<String>getAs("executor")).distinct().count() >= 2, "one executor did it all");
        }
    }

    /** Two executors with a processor each. Of Maven's artifacts, which have no launcher scripts: see the README. */
    private static SparkSession cluster(Path folder) throws IOException {
        Path home = Path.of(System.getenv("SPARK_HOME"));
        Files.createDirectories(home.resolve("jars"));
        String classes = Stream.of(System.getProperty("java.class.path").split(":"))
                .map(entry -> Path.of(entry).toAbsolutePath().toString())
                .collect(Collectors.joining(":"));
        return Support.session("local-cluster[2,1,1024]", folder)
                .config("spark.executor.extraClassPath", classes)
                .config("spark.executor.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
                .config("spark.executor.memory", "512m")
                .getOrCreate();
    }

    /** What each executor wrote. */
    private static List<Path> totals(Path folder) throws IOException {
        try (Stream<Path> files = Files.list(folder)) {
            return files.filter(file -> file.getFileName().toString().startsWith("computed.")).toList();
        }
    }

    /**
     * The rows that pass; but the process that has passed some of the sixth partition ends as by the kernel's hand. Each
     * executor writes what its engine has computed after every partition, and as its last deed.
     */
    private record KillOnce(String folder) implements MapPartitionsFunction<Row, Row>, Serializable {
        @Override
        public Iterator<Row> call(Iterator<Row> rows) {
            boolean kills = TaskContext.getPartitionId() == 5;
            return new Iterator<>() {
                private int passed;

                @Override
                public boolean hasNext() {
                    boolean more = rows.hasNext();
                    if (!more) {
                        tell();
                    }
                    return more;
                }

                @Override
                public Row next() {
                    if (kills && ++passed == 10) {
                        kill();
                    }
                    return rows.next();
                }
            };
        }

        private void tell() {
            try {
                Files.writeString(
                        Path.of(folder, "computed." + SparkEnv.get().executorId()), "" + Engines.tokensComputed());
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }

        private void kill() {
            try {
                Files.createFile(Path.of(folder, "killed"));
                tell();
                new ProcessBuilder("kill", "-9", Long.toString(ProcessHandle.current().pid())).start().waitFor();
            } catch (FileAlreadyExistsException e) {
                return; // one was killed already
            } catch (IOException | InterruptedException e) {
                throw new IllegalStateException(e);
            }
        }
    }

    /** The same prompts by one engine in this process, without Spark. */
    private static final class Alone {
        final byte[] bytes;
        final long computed;

        Alone(Path model, List<Row> prompts) throws Exception {
            Options options = Options.of("isa", "scalar").set("dtype", "f32").set("cache_bytes", "256M");
            try (Engine engine = Engine.open(model, options);
                    Tokenizer tokenizer = Tokenizer.open(model);
                    Task task = Task.create(engine, tokenizer, "rerank", null)) {
                List<String> texts = new ArrayList<>();
                for (Row row : prompts) {
                    texts.addAll(List.of("Is it praise?", row.getAs("prompt")));
                }
                task.add(texts);
                task.run();
                TreeMap<String, float[]> results = new TreeMap<>();
                for (int i = 0; i < prompts.size(); i++) {
                    results.put(prompts.get(i).getAs("key"), task.values(i));
                }
                bytes = bytes(results);
                computed = task.totals().tokensComputed();
            }
        }
    }

    private static byte[] bytes(List<Row> rows) throws IOException {
        TreeMap<String, float[]> results = new TreeMap<>();
        for (Row row : rows) {
            List<Float> values = row.getList(row.fieldIndex("values"));
            float[] numbers = new float[values.size()];
            for (int i = 0; i < numbers.length; i++) {
                numbers[i] = values.get(i);
            }
            results.put(row.getAs("key"), numbers);
        }
        return bytes(results);
    }

    private static byte[] bytes(TreeMap<String, float[]> results) throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        DataOutputStream data = new DataOutputStream(out);
        for (var result : results.entrySet()) {
            data.writeUTF(result.getKey());
            for (float value : result.getValue()) {
                data.writeInt(Float.floatToRawIntBits(value));
            }
        }
        return out.toByteArray();
    }
}
