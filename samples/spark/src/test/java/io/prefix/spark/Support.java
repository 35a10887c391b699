package io.prefix.spark;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/** What the tests share. They run in a checkout, after the library and the tiny models have been built. */
final class Support {
    static final Path ROOT = Path.of(System.getProperty("prefix.root")).toAbsolutePath().normalize();

    /** Options of engines whose bits are those of every machine. */
    static final Map<String, String> EXACT = Map.of("isa", "scalar", "dtype", "f32");

    /** Makes a tiny model that reads ASCII: a token for each of the first 129 bytes, and two special ones. */
    static void model(Path folder) throws IOException {
        for (String name : List.of("config.json", "model.safetensors")) {
            Files.copy(ROOT.resolve("build/golden-models/llama-base").resolve(name), folder.resolve(name));
        }
        String vocabulary = IntStream.range(0, 129)
                .mapToObj(b -> "\"\\u%04x\":%d".formatted(b >= 33 && b <= 126 ? b : b < 33 ? 256 + b : 256 + b - 94, b))
                .collect(Collectors.joining(","));
        String special = "{\"id\":%d,\"content\":\"<|%s|>\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,"
                + "\"normalized\":false,\"special\":true}";
        String level = "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":false,\"use_regex\":false}";
        Files.writeString(
                folder.resolve("tokenizer.json"),
                "{\"version\":\"1.0\",\"added_tokens\":[" + special.formatted(129, "start") + ","
                        + special.formatted(130, "end") + "],\"normalizer\":null,\"pre_tokenizer\":" + level
                        + ",\"decoder\":" + level
                        + ",\"post_processor\":null,\"model\":{\"type\":\"BPE\",\"vocab\":{" + vocabulary
                        + "},\"merges\":[]}}");
        Files.writeString(
                folder.resolve("tokenizer_config.json"),
                "{\"tokenizer_class\":\"PreTrainedTokenizerFast\",\"eos_token\":\"<|end|>\"}");
    }

    /** Reviews of films in no order: columns id, text (of each its own), film and plot (long, and one for each film). */
    static Dataset<Row> films(SparkSession spark, int rows, int films) {
        Random random = new Random(1);
        List<Row> table = new ArrayList<>();
        for (int i = 0; i < rows; i++) {
            int film = random.nextInt(films);
            table.add(RowFactory.create(
                    "r" + i, "Review " + i, "Film " + film, "Somebody meets number " + film + " at sea. ".repeat(3)));
        }
        StructType schema = new StructType()
                .add("id", DataTypes.StringType)
                .add("text", DataTypes.StringType)
                .add("film", DataTypes.StringType)
                .add("plot", DataTypes.StringType);
        return spark.createDataFrame(table, schema);
    }

    /** A session for small tables. */
    static SparkSession.Builder session(String master, Path folder) {
        return SparkSession.builder()
                .master(master)
                .appName("prefix")
                .config("spark.ui.enabled", false)
                .config("spark.sql.shuffle.partitions", 2)
                // Compiling a plan takes longer than these tables do.
                .config("spark.sql.codegen.wholeStage", false)
                .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
                .config("spark.local.dir", folder.resolve("local").toString())
                .config("spark.sql.warehouse.dir", folder.resolve("warehouse").toString())
                .config("spark.prefix.cacheBytes", "64m");
    }

    static TableTask exact(TableTask task) {
        EXACT.forEach(task::engineOption);
        return task;
    }

    private Support() {}
}
