package io.prefix.spark;

import io.prefix.Matrix;
import io.prefix.Options;
import io.prefix.PrefixException;
import io.prefix.Result;
import io.prefix.Status;
import io.prefix.Task;
import java.io.Serializable;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.TreeMap;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskKilledException;
import org.apache.spark.api.java.function.MapPartitionsFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/**
 * What a model does with each prompt of a table: a score, a vector, the probabilities of labels, or a text. Every
 * executor has one engine for it, which its tasks share.
 *
 * <pre>{@code
 * TableLayout layout = TableLayout.of(films, "id", List.of("title", "review"), 16);
 * Dataset<Row> scores = new TableTask("rerank", "/models/reranker").query("Is it praise?").run(layout.prompts());
 * }</pre>
 */
public final class TableTask implements Serializable {
    private static final long serialVersionUID = 1;
    private static final String ROW = "{row}";

    private final String kind;
    private final String model;
    private final TreeMap<String, String> options = new TreeMap<>();
    private final TreeMap<String, String> engineOptions = new TreeMap<>();
    private List<String> labels = List.of();
    private String query = "";
    private String template = ROW;
    private int rows = 64;
    private int batches = 3;

    /**
     * A task.
     *
     * @param kind rerank, embed, classify or generate
     * @param model a folder or a .gguf file, there on every executor
     */
    public TableTask(String kind, String model) {
        if (!List.of("rerank", "embed", "classify", "generate").contains(kind)) {
            throw new IllegalArgumentException(
                    "a table can be given to rerank, embed, classify and generate, not to " + kind);
        }
        this.kind = kind;
        this.model = model;
    }

    /**
     * Sets an option of the task or of its requests, as max_tokens.
     *
     * @param name see docs/options.md
     * @param value as text
     * @return this
     * @throws PrefixException UNKNOWN_OPTION may name one like it; INVALID_ARGUMENT, OUT_OF_RANGE
     */
    public TableTask option(String name, Object value) {
        Options.of(name, value.toString()); // to tell now, and not on every executor
        options.put(name, value.toString());
        return this;
    }

    /**
     * Sets an option of the engine, as dtype. Its threads are those of spark.prefix.threads and spark.prefix.cpus.
     *
     * @param name see docs/options.md
     * @param value as text
     * @return this
     * @throws PrefixException as {@link #option}
     */
    public TableTask engineOption(String name, Object value) {
        if (name.equals("threads") || name.equals("cpus")) {
            throw new IllegalArgumentException("all engines of an executor share its threads: set spark.prefix." + name);
        }
        Options.of(name, value.toString());
        engineOptions.put(name, value.toString());
        return this;
    }

    /**
     * Says what rerank looks for; a row is the document.
     *
     * @param text the query
     * @return this
     */
    public TableTask query(String text) {
        query = text;
        return this;
    }

    /**
     * Says what classify chooses from.
     *
     * @param texts all labels
     * @return this
     */
    public TableTask labels(List<String> texts) {
        labels = List.copyOf(texts);
        return this;
    }

    /**
     * Says what stands around a row. What comes before it is the same for all, and computed once.
     *
     * @param text has {row} once
     * @return this
     */
    public TableTask template(String text) {
        if (text.indexOf(ROW) < 0 || text.indexOf(ROW) != text.lastIndexOf(ROW)) {
            throw new IllegalArgumentException("a template has {row} once: " + text);
        }
        template = text;
        return this;
    }

    /**
     * Bounds what a partition has in work; Spark pulls results, and only then more prompts are read.
     *
     * @param rowsPerBatch that are given to the engine at once
     * @param batchesInWork of which the results were not yet pulled
     * @return this
     */
    public TableTask window(int rowsPerBatch, int batchesInWork) {
        Window.require(rowsPerBatch, batchesInWork); // to tell now, and not on every executor
        rows = rowsPerBatch;
        batches = batchesInWork;
        return this;
    }

    /**
     * Does it. The result of a row has the same bits wherever and beside whatever it is computed; what was computed
     * for it has not.
     *
     * @param prompts columns key and prompt, as {@link TableLayout#prompts} gives them; the partitions are kept
     * @return for each prompt key, values (of rerank, embed and classify) or text (of generate), error (null when it
     *     succeeded), and how it came about: tokens of the prompt, those computed, the executor
     */
    public Dataset<Row> run(Dataset<Row> prompts) {
        DataType key = prompts.schema().apply("key").dataType();
        StructType schema = new StructType()
                .add("key", key)
                .add("values", DataTypes.createArrayType(DataTypes.FloatType, false))
                .add("text", DataTypes.StringType)
                .add("error", DataTypes.StringType)
                .add("tokens", DataTypes.LongType)
                .add("computed", DataTypes.LongType)
                .add("executor", DataTypes.StringType);
        MapPartitionsFunction<Row, Row> each = this::work;
        return prompts.select("key", "prompt").mapPartitions(each, Encoders.row(schema));
    }

    private Iterator<Row> work(Iterator<Row> prompts) {
        TaskContext context = TaskContext.get();
        SparkEnv spark = SparkEnv.get();
        Engines.Lease lease = Engines.ofProcess(limits(spark.conf())).lease(model, engineOptions);
        Window<Row, Row> window =
                new Window<>(prompts, rows, batches, batch -> new Work(lease, batch, context, spark.executorId()));
        context.addTaskCompletionListener(done -> {
            window.close();
            lease.close();
        });
        return window;
    }

    /** Those of an executor, from the settings of the application. */
    static Engines.Limits limits(SparkConf conf) {
        // Tasks wait while the engine computes, so that it may have all processors of the executor.
        int threads = conf.getInt("spark.prefix.threads", conf.getInt("spark.executor.cores", 0));
        return new Engines.Limits(
                conf.contains("spark.prefix.cpus") ? 0 : threads,
                conf.get("spark.prefix.cpus", ""),
                conf.getSizeAsBytes("spark.prefix.cacheBytes", "1g"));
    }

    /** A batch of prompts that the engine has. */
    private final class Work implements Window.Work<Row> {
        private final List<Row> batch;
        private final TaskContext context;
        private final String executor;
        private final Task task;

        Work(Engines.Lease lease, List<Row> batch, TaskContext context, String executor) {
            this.batch = batch;
            this.context = context;
            this.executor = executor;
            task = Task.create(lease.engine(), lease.tokenizer(), kind, Options.of(options));
            try {
                if (!labels.isEmpty()) {
                    task.setLabels(labels);
                }
                task.add(texts());
                task.submit();
            } catch (RuntimeException e) {
                task.close();
                throw e;
            }
        }

        private List<String> texts() {
            int hole = template.indexOf(ROW);
            String before = template.substring(0, hole);
            String after = template.substring(hole + ROW.length());
            List<String> texts = new ArrayList<>();
            for (Row row : batch) {
                if (kind.equals("rerank")) {
                    texts.add(query);
                }
                texts.add(before + row.getString(1) + after);
            }
            return texts;
        }

        @Override
        public List<Row> results() {
            try {
                while (!task.await(Duration.ofMillis(100))) {
                    if (context.isInterrupted()) {
                        throw new TaskKilledException("killed while the engine computes");
                    }
                }
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                throw new TaskKilledException("interrupted while the engine computes");
            }
            boolean texts = kind.equals("generate");
            Matrix values = texts ? null : task.values();
            List<Row> results = new ArrayList<>();
            for (int i = 0; i < batch.size(); i++) {
                Result result = task.result(i);
                boolean good = result.status() == Status.OK;
                results.add(RowFactory.create(
                        batch.get(i).get(0),
                        good && !texts ? values.row(i) : null,
                        good && texts ? task.text(i) : null,
                        good ? null : result.status() + ": " + result.message(),
                        result.promptTokens(),
                        result.computedTokens(),
                        executor));
            }
            return results;
        }

        @Override
        public void close() {
            task.close();
        }
    }
}
