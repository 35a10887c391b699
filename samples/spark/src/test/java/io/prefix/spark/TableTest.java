package io.prefix.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.prefix.PrefixException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.spark.Partition;
import org.apache.spark.SparkEnv;
import org.apache.spark.api.java.function.MapFunction;
import org.apache.spark.serializer.KryoSerializer;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import scala.reflect.ClassTag;
import scala.reflect.ClassTag$;

/** Tables in one process: how they are laid out, and what is made of them. */
@Timeout(400)
class TableTest {
    @TempDir
    static Path folder;

    private static SparkSession spark;
    private static final AtomicLong READ = new AtomicLong();

    @BeforeAll
    static void open() throws Exception {
        Support.model(Files.createDirectory(folder.resolve("model")));
        spark = Support.session("local[1]", folder).getOrCreate();
    }

    @AfterAll
    static void close() throws Exception {
        spark.close();
    }

    private static TableTask task(String kind) {
        return Support.exact(new TableTask(kind, folder.resolve("model").toString()));
    }

    @Test
    void rowsThatShareLieTogether() {
        TableLayout layout = TableLayout.of(Support.films(spark, 90, 6), "id", List.of("text", "film", "plot"), 3);
        List<Row> prompts = layout.prompts()
                .withColumn("partition", functions.spark_partition_id())
                .collectAsList();
        assertEquals(90, prompts.size());
        Map<String, Set<Integer>> partitions = prompts.stream()
                .collect(Collectors.groupingBy(
                        row -> film(row.getAs("prompt")),
                        Collectors.mapping(row -> row.<Integer>getAs("partition"), Collectors.toSet())));
        assertEquals(6, partitions.size());
        partitions.forEach((film, set) -> assertEquals(1, set.size(), film + " is in partitions " + set));
        int changes = 0;
        for (int i = 0; i < prompts.size(); i++) {
            Row row = prompts.get(i);
            assertEquals(row.<Integer>getAs("part"), row.getAs("partition"));
            changes += i > 0 && !film(row.getAs("prompt")).equals(film(prompts.get(i - 1).getAs("prompt"))) ? 1 : 0;
        }
        assertEquals(5, changes, "rows of a film lie beside each other");
        assertTrue(layout.shared() > 0.7 && layout.sharedBefore() < 0.3, layout.shared() + " " + layout.sharedBefore());
        assertEquals(0, layout.duplicated(), 1e-9);
    }

    /** What stands in front of the text, which each row has for itself. */
    private static String film(String prompt) {
        assertTrue(prompt.indexOf("\"text\":") > prompt.indexOf("\"plot\":"), prompt);
        return prompt.substring(0, prompt.indexOf("\"text\":"));
    }

    @Test
    void promptsAreJsonWithoutWhatIsNull() {
        StructType schema = new StructType()
                .add("n", DataTypes.IntegerType)
                .add("a.b`c", DataTypes.StringType)
                .add("x", DataTypes.DoubleType);
        Dataset<Row> table = spark.createDataFrame(
                List.of(RowFactory.create(1, "say \"no\"\n", 0.5), RowFactory.create(2, null, null)), schema);
        Map<Object, Object> prompts = TableLayout.of(table, "n", List.of("a.b`c", "x"), 2).prompts().collectAsList()
                .stream()
                .collect(Collectors.toMap(row -> row.get(0), row -> row.get(1)));
        assertEquals(Map.of(1, "{\"a.b`c\":\"say \\\"no\\\"\\n\",\"x\":0.5}", 2, "{}"), prompts);
    }

    @Test
    void whatIsNoTableIsRefused() {
        Dataset<Row> table = spark.range(3).toDF("id").withColumn("v", functions.lit("v"));
        assertEquals(0, TableLayout.of(table.limit(0), "id", List.of("v"), 2).prompts().count());
        assertThrows(IllegalArgumentException.class, () -> TableLayout.of(table, "id", List.of(), 2));
        assertThrows(IllegalArgumentException.class, () -> TableLayout.of(table, "id", List.of("v"), 0));
        var twice = assertThrows(
                IllegalArgumentException.class, () -> TableLayout.of(table, "v", List.of("id"), 2));
        assertTrue(twice.getMessage().contains("v is in 3 rows"), twice.getMessage());
        Dataset<Row> none = table.withColumn("w", functions.lit(null).cast("string"));
        assertThrows(IllegalArgumentException.class, () -> TableLayout.of(none, "w", List.of("id"), 2));
        assertThrows(IllegalArgumentException.class, () -> new TableTask("sing", "model"));
        assertThrows(IllegalArgumentException.class, () -> task("embed").engineOption("threads", 2));
        assertThrows(PrefixException.class, () -> task("embed").option("no_such_option", 2));
        assertThrows(PrefixException.class, () -> task("embed").engineOption("dtype", "f33"));
        assertThrows(IllegalArgumentException.class, () -> task("embed").window(0, 3));
        assertThrows(IllegalArgumentException.class, () -> task("embed").window(64, 0));
        assertThrows(IllegalArgumentException.class, () -> task("embed").template("no row"));
        assertThrows(IllegalArgumentException.class, () -> task("embed").template("{row}{row}"));
    }

    /** By Spark's equality, by which rows are joined: other objects, other bits and other letters may be the same key. */
    @Test
    void keysThatAreEqualAreRefused() {
        Dataset<Row> rows = spark.range(2).toDF("id");
        for (String equal : List.of(
                "cast('ab' as binary)", "array(cast('ab' as binary))", "if(id = 0, 0.0D, -0.0D)",
                "if(id = 0, 'a', 'A') collate UTF8_LCASE")) {
            Dataset<Row> table = rows.withColumn("key", functions.expr(equal));
            var twice = assertThrows(
                    IllegalArgumentException.class, () -> TableLayout.of(table, "key", List.of("id"), 2), equal);
            assertTrue(twice.getMessage().endsWith(" is in 2 rows"), twice.getMessage());
        }
        Dataset<Row> bytes = rows.withColumn("key", functions.expr("cast(cast(id as string) as binary)"));
        List<Row> prompts = TableLayout.of(bytes, "key", List.of("id"), 2).prompts().collectAsList();
        assertEquals(
                Map.of("0", "{\"id\":0}", "1", "{\"id\":1}"),
                prompts.stream().collect(Collectors.toMap(row -> new String((byte[]) row.get(0)), row -> row.getString(1))));
    }

    /** Spark warns of tasks above 1,000 KiB, and fails jobs that have one above spark.rpc.message.maxSize. */
    @Test
    void noTaskHasMoreThanSomePlaces() {
        int count = 50_000;
        int[][] columns = IntStream.range(0, count)
                .mapToObj(i -> i % 2 == 0 ? new int[] {0, 1, 2, 3} : new int[] {3, 1, 2, 0})
                .toArray(int[][]::new);
        int[] parts = IntStream.range(0, count).map(i -> i % 7).toArray();
        long[] places = IntStream.range(0, count).mapToLong(i -> count - i).toArray();
        Object[] keys = IntStream.range(0, count).mapToObj(i -> "a key of some length " + i).toArray();
        Plan plan = new Plan(columns, parts, places, 0, 0, 0, 0, 0);
        Dataset<Row> placed = Places.of(spark, DataTypes.StringType, keys, plan);
        var serializer = SparkEnv.get().closureSerializer().newInstance();
        for (Partition partition : placed.rdd().partitions()) {
            int bytes = serializer.serialize(partition, ClassTag$.MODULE$.apply(Partition.class)).remaining();
            assertTrue(bytes < 1000 << 10, bytes + " bytes in a task");
        }
        List<Row> rows = placed.collectAsList();
        assertEquals(count, rows.size());
        for (int i = 0; i < count; i++) {
            List<Integer> order = Arrays.stream(columns[i]).boxed().toList();
            assertEquals(List.of(keys[i], parts[i], places[i], order), List.of(
                    rows.get(i).get(0), rows.get(i).get(1), rows.get(i).get(2), rows.get(i).getList(3)));
        }
        // spark.serializer, which writes what a task carries, is often this one.
        var kryo = new KryoSerializer(spark.sparkContext().getConf()).newInstance();
        ClassTag<Places> type = ClassTag$.MODULE$.apply(Places.class);
        List<Object> read = new ArrayList<>();
        for (Places some : Places.split(keys, plan)) {
            Places copy = kryo.deserialize(kryo.serialize(some, type), type);
            copy.rows().forEachRemaining(row -> read.add(row.get(0)));
        }
        assertEquals(List.of(keys), read);
    }

    @Test
    void rowsThatCameLaterAreNotLost() {
        StructType schema = new StructType().add("id", DataTypes.StringType).add("v", DataTypes.StringType);
        AtomicLong times = READ;
        times.set(0);
        // Each reading of it has another key.
        Dataset<Row> table = spark.range(2).map((MapFunction<Long, Row>) i -> RowFactory.create("k" + READ.incrementAndGet(), "v"), Encoders.row(schema));
        List<Row> prompts = TableLayout.of(table, "id", List.of("v"), 2).prompts().collectAsList();
        assertEquals(List.of("{\"v\":\"v\"}", "{\"v\":\"v\"}"), prompts.stream().map(row -> row.getString(1)).toList());
        assertFalse(prompts.stream().anyMatch(row -> row.isNullAt(2)));
    }

    @Test
    void everyKind() {
        Dataset<Row> table = Support.films(spark, 6, 2);
        Dataset<Row> prompts = TableLayout.of(table, "id", List.of("film", "text"), 1).prompts().cache();
        List<Row> vectors = task("embed").option("dimensions", 8).run(prompts).collectAsList();
        assertEquals(8, vectors.get(0).getList(1).size());
        List<Row> classes = task("classify").labels(List.of("good", "bad", "neither")).template("Film {row} is ").run(prompts).collectAsList();
        assertEquals(3, classes.get(0).getList(1).size());
        List<Row> texts = task("generate").option("max_tokens", 4).option("ignore_eos", true).run(prompts).collectAsList();
        assertFalse(texts.get(0).isNullAt(2));
        assertTrue(texts.get(0).isNullAt(1));
        assertEquals(
                prompts.select("key").collectAsList().stream().map(row -> row.get(0)).toList(),
                texts.stream().map(row -> row.get(0)).toList());
        long tokens = texts.stream().mapToLong(row -> row.getLong(4)).sum();
        long computed = texts.stream().mapToLong(row -> row.getLong(5)).sum();
        assertTrue(computed < tokens, "nothing is shared: " + computed + " of " + tokens);
    }

    @Test
    void aRowThatFailsFailsAlone() {
        Dataset<Row> table = spark.range(3).select(
                functions.col("id"), functions.expr("repeat('long', if(id = 1, 200, 1))").as("v"));
        List<Row> rows = task("embed").option("truncate", "off").run(TableLayout.of(table, "id", List.of("v"), 1).prompts())
                .orderBy("key").collectAsList();
        assertNull(rows.get(0).get(3));
        assertTrue(rows.get(1).getString(3).startsWith("PROMPT_TOO_LONG"), rows.get(1).getString(3));
        assertTrue(rows.get(1).isNullAt(1));
        assertNull(rows.get(2).get(3));
        assertThrows(Exception.class, () -> task("embed").option("max_tokens", 2).run(
                TableLayout.of(table, "id", List.of("v"), 1).prompts()).collect());
    }

    @Test
    void whoTakesAFewRowsReadsAFew() {
        StructType schema = new StructType().add("key", DataTypes.LongType).add("prompt", DataTypes.StringType);
        READ.set(0);
        Dataset<Row> prompts = spark.range(0, 10_000, 1, 1).map((MapFunction<Long, Row>) i -> {
            READ.incrementAndGet();
            return RowFactory.create(i, "prompt " + i);
        }, Encoders.row(schema));
        List<Object> keys = new ArrayList<>();
        var results = task("embed").window(8, 2).run(prompts).limit(5).toLocalIterator();
        results.forEachRemaining(row -> keys.add(row.get(0)));
        assertEquals(List.of(0L, 1L, 2L, 3L, 4L), keys);
        assertTrue(READ.get() <= 3 * 8, READ + " rows were read for 5");
    }

    @Test
    void whatSparkKillsIsCancelled() throws Exception {
        StructType schema = new StructType().add("key", DataTypes.LongType).add("prompt", DataTypes.StringType);
        Dataset<Row> prompts = spark.range(0, 2000, 1, 1).map(
                (MapFunction<Long, Row>) i -> RowFactory.create(i, "prompt " + i), Encoders.row(schema));
        TableTask task = task("generate").option("max_tokens", 200).option("ignore_eos", true);
        try (Engines.Lease lease = Engines.ofProcess(TableTask.limits(spark.sparkContext().getConf()))
                .lease(folder.resolve("model").toString(), Support.EXACT)) {
            long generated = lease.engine().stats().tokensGenerated();
            long failed = lease.engine().stats().requestsFailed();
            CompletableFuture<Object> job = CompletableFuture.supplyAsync(() -> task.run(prompts).collect());
            while (lease.engine().stats().tokensGenerated() == generated && !job.isDone()) {
                Thread.onSpinWait();
            }
            spark.sparkContext().cancelAllJobs();
            assertThrows(ExecutionException.class, job::get);
            while (lease.engine().stats().requestsRunning() + lease.engine().stats().requestsWaiting() > 0) {
                Thread.onSpinWait();
            }
            assertTrue(lease.engine().stats().requestsFailed() > failed, "it went on to the end of its window");
        }
    }

    @Test
    void theExampleOfTheReadme() throws Exception {
        String source = Files.readString(Support.ROOT.resolve("samples/spark/src/test/java/io/prefix/spark/Example.java"));
        String body = source.substring(source.indexOf("{\n        ") + 2, source.indexOf("    }\n")).indent(-8);
        String readme = Files.readString(Support.ROOT.resolve("samples/spark/README.md"));
        assertTrue(readme.contains("```java\n" + body + "```"), "the README shows another program than Example.java:\n" + body);
    }

    @Test
    void theProgram() throws Exception {
        Path table = folder.resolve("films.csv");
        Files.writeString(table, "id,film,text\n1,Dune,Sand\n2,Heat,Long\n3,Dune,Long\n");
        Path out = folder.resolve("out");
        RankTable.run(spark, folder.resolve("model").toString(), table.toString(), "id", "film,text", "Is it long?", out.toString(), "2");
        List<Row> rows = spark.read().json(out.toString()).orderBy("key").collectAsList();
        assertEquals(List.of("1", "2", "3"), rows.stream().map(row -> row.getString(row.fieldIndex("key"))).toList());
        assertEquals(3, new HashSet<>(rows.stream().map(row -> row.getDouble(row.fieldIndex("score"))).toList()).size());
    }
}
