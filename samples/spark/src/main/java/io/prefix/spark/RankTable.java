package io.prefix.spark;

import static org.apache.spark.sql.functions.col;

import java.io.IOException;
import java.util.List;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;

/**
 * How well each row of a table fits a query, for spark-submit. Prints what was shared, on standard error.
 */
public final class RankTable {
    private static final String USAGE = """
            usage: RankTable MODEL TABLE KEY COLUMNS QUERY OUTPUT [PARTS]
              MODEL    a folder or a .gguf file, at the same path on every executor
              TABLE    .parquet, .json (an object a line) or .csv (with a line of names)
              KEY      the column that tells rows apart
              COLUMNS  those that make the prompt, as title,review
              QUERY    what is looked for
              OUTPUT   a folder that is made, of JSON: key, score, error
              PARTS    partitions (default: 4 for each task that runs at a time)""";

    /**
     * Runs.
     *
     * @param arguments see above
     * @throws IOException where Spark cannot be closed
     */
    public static void main(String[] arguments) throws IOException {
        if (arguments.length < 6 || arguments.length > 7) {
            System.err.println(USAGE);
            System.exit(2);
        }
        if (arguments.length > 6 && !arguments[6].matches("[1-9][0-9]{0,8}")) {
            System.err.println("PARTS is \"" + arguments[6] + "\"; it must be a number from 1 to 999999999");
            System.exit(2);
        }
        try (SparkSession spark = SparkSession.builder().appName("RankTable").getOrCreate()) {
            run(spark, arguments);
        }
    }

    static void run(SparkSession spark, String... arguments) {
        int parts = arguments.length > 6
                ? Integer.parseInt(arguments[6])
                : 4 * spark.sparkContext().defaultParallelism();
        TableLayout layout = TableLayout.of(
                read(spark, arguments[1]), arguments[2], List.of(arguments[3].split(",")), parts);
        System.err.printf(
                "Prompts share %.1f%% of their bytes with the one before (%.1f%% as the table came); parts: %d, which "
                        + "compute %.1f%% more than one would.%n",
                100 * layout.shared(), 100 * layout.sharedBefore(), parts, 100 * layout.duplicated());
        new TableTask("rerank", arguments[0])
                .query(arguments[4])
                .run(layout.prompts())
                .select(col("key"), col("values").getItem(0).as("score"), col("error"))
                .write()
                .json(arguments[5]);
    }

    private static Dataset<Row> read(SparkSession spark, String path) {
        if (path.endsWith(".parquet")) {
            return spark.read().parquet(path);
        }
        return path.endsWith(".csv") ? spark.read().option("header", true).csv(path) : spark.read().json(path);
    }

    private RankTable() {}
}
