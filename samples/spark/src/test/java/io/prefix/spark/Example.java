package io.prefix.spark;

import java.util.List;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;

/** The program of the README, which is compiled here. */
final class Example {
    static void run(SparkSession spark) {
        Dataset<Row> films = spark.read().parquet("films");
        TableLayout layout = TableLayout.of(films, "id", List.of("title", "description", "review"), 64);
        Dataset<Row> scores = new TableTask("rerank", "/models/reranker").query("Is it praise?").run(layout.prompts());
        scores.select("key", "values", "error").write().parquet("scores");
    }

    private Example() {}
}
